#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/env.h"
#include "base/file.h"
#include "base/shared_memory.h"
#include "doctor/check.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using base::concat;

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;
// Docker's default of 64 MiB is full with the first batches that a loader's workers hand over.
constexpr double kRoomWanted = 256 * kMiB;
constexpr double kMemoryWanted = 1 * kGiB;
// A Unix socket's path has at most 107 bytes.
constexpr std::size_t kLongestTemporary = 60;

Check memfd() {
  Check check{"memfd", Grade::kOk, "works", ""};
  try {
    const auto memory = base::SharedMemory::create("lockstep-doctor", std::size_t{1} << 20);
    memory.commit(0, memory.size());
  } catch (const Error& error) {
    check.grade = Grade::kWarn;
    check.found = error.happened();
    check.remedy = "ranks of this host share files in /dev/shm instead; keep room there";
  }
  return check;
}

Check shm(bool memfd_works) {
  Check check{"/dev/shm", Grade::kOk, "", ""};
  std::error_code error;
  const fs::space_info space = fs::space("/dev/shm", error);
  if (error) {
    check.grade = memfd_works ? Grade::kWarn : Grade::kFail;
    check.found = error.message();
    check.remedy = "mount a tmpfs there: mount -t tmpfs -o size=8G tmpfs /dev/shm";
    return check;
  }
  const auto available = static_cast<double>(space.available);
  check.found =
      concat(bytes_text(available), " free of ", bytes_text(static_cast<double>(space.capacity)));
  if (available >= kRoomWanted) return check;
  check.grade = memfd_works ? Grade::kWarn : Grade::kFail;
  check.remedy =
      "remove what fills it, or make it larger: mount -o remount,size=8G /dev/shm; in a container "
      "docker run --shm-size=8g";
  return check;
}

Check memory() {
  Check check{"memory", Grade::kOk, "", ""};
  double available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:"))
      available = std::strtod(line.substr(13).c_str(), nullptr) * 1024;
  check.found = concat(bytes_text(available), " available of ",
                       bytes_text(static_cast<double>(base::physical_memory())));
  const auto limit = base::Cgroup().memory_limit();
  if (limit) {
    check.found += concat("; control group's limit ", bytes_text(static_cast<double>(*limit)));
    available = std::min(available, static_cast<double>(*limit));
  }
  if (available >= kMemoryWanted) return check;
  check.grade = Grade::kWarn;
  check.remedy = limit ? "ask the batch system or the container for more (--memory)"
                       : "end what holds the memory; ps aux --sort=-rss | head";
  return check;
}

Check temporary_files() {
  const std::string folder = base::Env::of_process().text("TMPDIR").value_or("/tmp");
  Check check{"temporary files", Grade::kOk, folder, ""};
  try {
    const base::TemporaryFolder made("lockstep-doctor");
    std::error_code error;
    const auto space = fs::space(made.path(), error);
    check.found += concat(", ", bytes_text(static_cast<double>(space.available)), " free");
    if (error || static_cast<double>(space.available) >= 64 * kMiB) {
      if (folder.size() <= kLongestTemporary) return check;
      check.grade = Grade::kWarn;
      check.found += concat("; its path of ", folder.size(), " bytes is too long for sockets");
      check.remedy = "the launcher uses /tmp instead; set TMPDIR to a shorter path to choose";
      return check;
    }
    check.grade = Grade::kWarn;
    check.remedy = "free some space there, or set TMPDIR";
  } catch (const Error& error) {
    check.grade = Grade::kFail;
    check.found = error.happened();
    check.remedy = "set TMPDIR to a folder that this user may write to";
  }
  return check;
}

}  // namespace

std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit < 2 || bytes >= 100 ? 0 : 1) << bytes << ' '
       << units[unit];
  return std::move(text).str();
}

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Checks memory_checks() {
  const Check anonymous = memfd();
  return {shm(anonymous.grade == Grade::kOk), anonymous, memory(), temporary_files()};
}

}  // namespace lockstep::doctor
