#pragma once
#include <pthread.h>

namespace lockstep::base {

/// Names the calling thread as debuggers and `top -H` show it; at most 15 characters.
inline void name_this_thread(const char* name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace lockstep::base
