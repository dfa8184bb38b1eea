#pragma once
/// Errors: one root, few kinds, told apart by what the caller can do about them.
///
/// Every message follows one grammar:
///
///     [rank 2/8] all_reduce #1841 on gloo: peer 3 (host b, pid 4711) is gone, after 0.2 s
///       remedy: look at rank 3's own output; restart the job, or ...
///       flight record: /tmp/lockstep-1000/flight/flight-4f1c-0-rank2.json
///
/// Thread-safety: errors are values; copies share nothing mutable.

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace lockstep {

/// Where in the program a call was made, for messages. std::source_location, without what clang
/// lacks of it before 16.
class SourceLocation {
 public:
  constexpr SourceLocation() = default;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          std::uint_least32_t line = __builtin_LINE()) noexcept {
    return {file, line};
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr std::uint_least32_t line() const noexcept { return line_; }

 private:
  constexpr SourceLocation(const char* file, std::uint_least32_t line) noexcept
      : file_(file), line_(line) {}

  const char* file_ = "";
  std::uint_least32_t line_ = 0;
};

/// Where in the job an error happened. What is not known stays empty and is left out of the text.
struct ErrorContext {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string op;                         ///< collective or step, such as "all_reduce"
  std::optional<std::uint64_t> sequence;  ///< number of the collective within its group
  std::string backend;                    ///< "gloo", "shm", ...
  std::optional<int> peer;                ///< the rank at fault, where one is
  std::optional<std::chrono::duration<double>> elapsed;
  std::string flight_record;  ///< the file that holds the last calls of this host's ranks
};

/// The root of all that lockstep throws. `what()` is the whole text, remedy included.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& happened, const std::string& remedy = "",
                 ErrorContext context = {});

  const std::string& happened() const noexcept { return happened_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const ErrorContext& context() const noexcept { return context_; }

 private:
  std::string happened_;
  std::string remedy_;
  ErrorContext context_;
};

/// The call or a setting is wrong: fix it.
class UsageError : public Error {
  using Error::Error;
};

/// Ranks disagree (operation, shape, model, ...): a bug in the program, found before it does harm.
class MismatchError : public Error {
  using Error::Error;
};

/// A wait passed its deadline.
class TimeoutError : public Error {
  using Error::Error;
};

/// Another rank is gone: this generation of the group is over.
class PeerLost : public Error {
  using Error::Error;
};

/// The ranks could not meet.
class RendezvousError : public Error {
  using Error::Error;
};

/// An input file is missing or damaged; the text names file and offset.
class DataError : public Error {
  using Error::Error;
};

/// A checkpoint could not be written or read; the text names the file.
class CheckpointError : public Error {
  using Error::Error;
};

/// A fault in lockstep itself or in a library below it.
class InternalError : public Error {
  using Error::Error;
};

}  // namespace lockstep
