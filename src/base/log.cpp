#include "base/log.h"

#include <unistd.h>

#include <mutex>

#include "base/env.h"

namespace lockstep::base {
namespace {

struct Log {
  std::mutex mutex;
  std::function<void(LogLevel, const std::string&)> sink;
  LogLevel threshold = LogLevel::kWarning;

  Log() {
    const auto level = Env::of_process().text(contract::kLogLevel);
    if (level == "error") threshold = LogLevel::kError;
    if (level == "info") threshold = LogLevel::kInfo;
    if (level == "debug") threshold = LogLevel::kDebug;
  }
};

// Leaked on purpose: threads may log while statics are destroyed.
Log& the_log() {
  static Log* log = new Log;
  return *log;
}

}  // namespace

bool log_enabled(LogLevel level) { return level <= the_log().threshold; }

void log(LogLevel level, const std::string& line) {
  if (!log_enabled(level)) return;
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (log.sink) return log.sink(level, line);
  const std::string whole = "lockstep: " + line + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, whole.data(), whole.size());
}

void set_log_sink(std::function<void(LogLevel, const std::string&)> sink) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.sink = std::move(sink);
}

}  // namespace lockstep::base
