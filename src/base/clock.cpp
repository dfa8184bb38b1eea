#include "base/clock.h"

#include <sys/timex.h>

#include "base/os_error.h"

namespace lockstep::base {

ClockState clock_state() {
  timex asked{};  // no mode: changes nothing
  const int state = ::adjtimex(&asked);
  if (state < 0) throw os_error("cannot ask the kernel about the clock");
  return {state != TIME_ERROR && (asked.status & STA_UNSYNC) == 0,
          std::chrono::microseconds(asked.maxerror)};
}

}  // namespace lockstep::base
