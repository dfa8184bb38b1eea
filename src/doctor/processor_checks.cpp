#include <filesystem>
#include <sstream>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/concat.h"
#include "base/cpu_set.h"
#include "base/env.h"
#include "doctor/check.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using base::concat;

Check processors() {
  const int usable = base::usable_cpus();
  const auto allowed = static_cast<int>(base::allowed_cpus().size());
  Check check{"processors", Grade::kOk, concat(usable, " usable"), ""};
  if (allowed != usable) check.found += concat(" of ", allowed, " allowed");
  if (const auto limit = base::Cgroup().cpu_limit())
    check.found += concat("; control group's limit ", *limit);
  if (usable > 1) return check;
  check.grade = Grade::kWarn;
  check.remedy = "several ranks take turns on one processor: ask for more, or see taskset -p $$";
  return check;
}

Check clock() {
  Check check{"clock", Grade::kOk, "", ""};
  try {
    const base::ClockState state = base::clock_state();
    if (state.synchronised) {
      check.found =
          concat("kept by a time service, at most ", state.largest_error.count() / 1000, " ms off");
    } else {
      check.grade = Grade::kWarn;
      check.found = "not kept by a time service";
      check.remedy =
          "start chrony or systemd-timesyncd: times in logs of several hosts cannot be compared";
    }
  } catch (const Error& error) {
    check.found = error.happened();
  }
  const std::string source =
      first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (source.empty()) return check;
  check.found += concat("; source ", source);
  if (source == "hpet" || source == "acpi_pm") {
    check.grade = Grade::kWarn;
    check.found += ", which is slow to read";
    check.remedy = "see why the kernel left tsc: dmesg | grep -i clocksource";
  }
  return check;
}

int gpu_devices() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && base::parse_number(name.substr(6))) ++count;
  }
  return count;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
std::string driver_version() {
  std::istringstream words(first_line_of("/proc/driver/nvidia/version"));
  for (std::string word; words >> word;)
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

Check gpus() {
  const int devices = gpu_devices();
  const std::string driver = driver_version();
  Check check{"GPUs", Grade::kOk, concat(devices), ""};
  if (devices == 0 && driver.empty()) {
    check.found = "none";
    return check;
  }
  check.found += concat(" NVIDIA, driver ", driver.empty() ? "unknown" : driver);
  if (devices > 0 && !driver.empty()) return check;
  check.grade = Grade::kWarn;
  check.remedy = devices == 0
                     ? "the driver is there but no device: in a container, docker run --gpus all"
                     : "devices without a driver: nvidia-smi says more";
  return check;
}

}  // namespace

Checks processor_checks() { return {processors(), clock(), gpus()}; }

}  // namespace lockstep::doctor
