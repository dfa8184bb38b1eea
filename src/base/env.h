#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::base {

/// The environment as a value, so that detection can be tested on recorded ones.
class Env {
 public:
  /// The variables of this process, as they are now.
  static Env of_process();

  explicit Env(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}

  /// An unset variable and an empty one are the same: absent.
  std::optional<std::string> text(std::string_view name) const;

  /// Throws UsageError, naming variable and value, when it is set to anything but a whole number.
  std::optional<long> number(std::string_view name) const;

  /// Unset: `otherwise`. "1", "true", "yes", "on" and their opposites; else UsageError.
  bool flag(std::string_view name, bool otherwise) const;

  bool has(std::string_view name) const { return text(name).has_value(); }

  /// Is it there at all, if only empty? For variables to which that makes a difference.
  bool is_set(std::string_view name) const { return variables_.find(name) != variables_.end(); }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

/// A whole number with nothing around it, or nothing.
std::optional<long> parse_number(std::string_view text);

/// What the launcher tells a worker beyond torchrun's own variables.
namespace contract {
inline constexpr const char* kJobId = "LOCKSTEP_JOB_ID";     ///< one value for all ranks of a job
inline constexpr const char* kAttempt = "LOCKSTEP_ATTEMPT";  ///< restarts so far, from 0
inline constexpr const char* kToken =
    "LOCKSTEP_JOB_TOKEN";  ///< secret that admits to the job's store
inline constexpr const char* kRendezvous =
    "LOCKSTEP_RENDEZVOUS";  ///< unix:PATH, where ranks of one host meet
inline constexpr const char* kFlightFolder =
    "LOCKSTEP_FLIGHT_DIR";  ///< where ranks write their last calls when one fails
inline constexpr const char* kInquiry =
    "LOCKSTEP_INQUIRY";  ///< path of the socket by which the launcher asks what a rank does
inline constexpr const char* kLogLevel = "LOCKSTEP_LOG";  ///< error, warning, info, debug
}  // namespace contract

}  // namespace lockstep::base
