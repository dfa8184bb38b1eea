#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "base/concat.h"
#include "base/env.h"
#include "doctor/check.h"

namespace lockstep::doctor {
namespace {

using base::concat;

/// Soft and hard; nothing: unlimited.
struct Limit {
  std::optional<long> soft;
  std::optional<long> hard;
};

// "Max open files            1024                 1048576              files"
std::map<std::string, Limit> limits() {
  constexpr std::size_t kName = 26, kColumn = 21;
  std::map<std::string, Limit> found;
  std::ifstream file("/proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (line.size() < kName + 2 * kColumn) continue;
    const auto word = [&](std::size_t at) {
      const std::string column = line.substr(at, kColumn);
      return column.substr(0, column.find(' '));
    };
    std::string name = line.substr(0, kName);
    name.erase(name.find_last_not_of(' ') + 1);
    found[name] = {base::parse_number(word(kName)), base::parse_number(word(kName + kColumn))};
  }
  return found;
}

std::string text_of(const std::optional<long>& limit, bool bytes) {
  if (!limit) return "unlimited";
  return bytes ? bytes_text(static_cast<double>(*limit)) : std::to_string(*limit);
}

/// What one of the shell's limits ought to be.
struct Rule {
  const char* name;   ///< of the check
  const char* limit;  ///< the kernel's name
  const char* flag;   ///< ulimit's
  bool bytes;
  long fail_below;
  long warn_below;
  const char* wanted;  ///< for ulimit
  const char* why;
};

constexpr long kGiB = 1L << 30;

constexpr Rule kRules[] = {
    {"open files", "Max open files", "-n", false, 64, 1024, "65536",
     "each connection and each file of a loader takes one"},
    {"processes", "Max processes", "-u", false, 64, 1024, "unlimited",
     "threads of all this user's processes count"},
    {"address space", "Max address space", "-v", true, 4 * kGiB, 1024 * kGiB, "unlimited",
     "libtorch and shared memory reserve far more than they use"},
};

Check check_of(const Rule& rule, const Limit& limit) {
  Check check{rule.name, Grade::kOk, text_of(limit.soft, rule.bytes), ""};
  if (limit.soft != limit.hard) check.found += concat(", up to ", text_of(limit.hard, rule.bytes));
  if (!limit.soft || *limit.soft >= rule.warn_below) return check;
  check.grade = *limit.soft < rule.fail_below ? Grade::kFail : Grade::kWarn;
  check.remedy = concat("ulimit ", rule.flag, " ", rule.wanted, ": ", rule.why);
  return check;
}

// Matters to network cards that read memory themselves.
Check locked_memory(const Limit& limit) {
  Check check{"locked memory", Grade::kOk, text_of(limit.soft, true), ""};
  const bool wanted = std::filesystem::exists("/dev/infiniband");
  if (!wanted) {
    check.found += "; not needed without InfiniBand";
  } else if (limit.soft) {
    check.grade = Grade::kWarn;
    check.remedy = "ulimit -l unlimited: NCCL and MPI lock their buffers for InfiniBand";
  }
  return check;
}

}  // namespace

Checks limit_checks() {
  auto known = limits();
  Checks checks;
  for (const Rule& rule : kRules) checks.push_back(check_of(rule, known[rule.limit]));
  checks.push_back(locked_memory(known["Max locked memory"]));
  return checks;
}

}  // namespace lockstep::doctor
