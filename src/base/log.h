#pragma once
#include <functional>
#include <string>

namespace lockstep::base {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// One line to the log: stderr unless `set_log_sink` says otherwise; levels above LOCKSTEP_LOG
/// (default: warning) are dropped. Thread-safe; lines of two threads never mix.
void log(LogLevel level, const std::string& line);

bool log_enabled(LogLevel level);

/// Where lines go from now on; an empty function restores stderr.
void set_log_sink(std::function<void(LogLevel, const std::string&)> sink);

}  // namespace lockstep::base
