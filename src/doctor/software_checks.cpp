#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/concat.h"
#include "base/env.h"
#include "base/stream_io.h"
#include "doctor/check.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using base::concat;

// What is tested with; cmake/LockstepTorch.cmake has the same.
constexpr int kMajor = 2, kFirstMinor = 11, kLastMinor = 15;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// Folders in `parent` whose names begin so.
std::vector<fs::path> beginning_with(const fs::path& parent, const std::string& head) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.path().filename().string().starts_with(head)) found.push_back(entry.path());
  return found;
}

/// Where a libtorch may lie: what the environment names, then Python's folders.
std::vector<fs::path> places() {
  const base::Env env = base::Env::of_process();
  std::vector<fs::path> found;
  if (const auto folder = env.text("LOCKSTEP_TORCH_DIR")) {
    found.emplace_back(*folder);
    found.push_back(fs::path(*folder) / "torch");
  }
  for (const std::string& library : split(env.text("LD_LIBRARY_PATH").value_or(""), ':'))
    found.push_back(fs::path(library).parent_path());
  for (const std::string& prefix : split(env.text("CMAKE_PREFIX_PATH").value_or(""), ':')) {
    found.emplace_back(prefix);
    found.push_back(fs::path(prefix) / ".." / "..");
  }
  for (const fs::path& wheel : beginning_with(".deps", "libtorch-"))
    found.push_back(wheel / "torch");
  std::vector<fs::path> pythons;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto root = env.text(variable)) pythons.push_back(fs::path(*root) / "lib");
  if (const auto home = env.text("HOME")) pythons.push_back(fs::path(*home) / ".local/lib");
  pythons.insert(pythons.end(), {"/usr/local/lib", "/usr/lib"});
  for (const fs::path& python : pythons)
    for (const fs::path& version : beginning_with(python, "python3"))
      for (const char* packages : {"site-packages", "dist-packages", "."})
        found.push_back(version / packages / "torch");
  return found;
}

/// From the files beside the library, which need not be loaded for it.
std::string version_of(const fs::path& torch) {
  if (const std::string line = first_line_of((torch / "build-version").string()); !line.empty())
    return line;
  std::ifstream python(torch / "version.py");
  for (std::string line; std::getline(python, line);) {
    const auto open = line.find('\'');
    if (line.starts_with("__version__") && open != std::string::npos)
      return line.substr(open + 1, line.rfind('\'') - open - 1);
  }
  return "";
}

bool is_tested(const std::string& version) {
  const auto numbers = split(version, '.');
  if (numbers.size() < 2) return false;
  const auto major = base::parse_number(numbers[0]), minor = base::parse_number(numbers[1]);
  return major == kMajor && minor && *minor >= kFirstMinor && *minor <= kLastMinor;
}

Check libtorch() {
  Check check{"libtorch", Grade::kOk, "", ""};
  for (const fs::path& place : places()) {
    std::error_code ignored;
    if (!fs::exists(place / "lib" / "libtorch_cpu.so", ignored)) continue;
    const std::string version = version_of(place);
    const bool cuda = fs::exists(place / "lib" / "libtorch_cuda.so", ignored);
    check.found =
        concat(version.empty() ? "of unknown version" : version, cuda ? " with CUDA" : ", CPU only",
               ", in ", fs::weakly_canonical(place, ignored).string());
    if (is_tested(version)) return check;
    check.grade = Grade::kWarn;
    check.remedy = concat("lockstep is tested with ", kMajor, ".", kFirstMinor, " to ", kMajor, ".",
                          kLastMinor);
    return check;
  }
  check.grade = Grade::kWarn;
  check.found = "not where Python, LD_LIBRARY_PATH or LOCKSTEP_TORCH_DIR have it";
  check.remedy =
      "a program that was linked with its place finds it all the same: ldd PROGRAM | grep torch";
  return check;
}

Check launchers() {
  Check check{"other launchers", Grade::kOk, "", ""};
  const auto folders = split(base::Env::of_process().text("PATH").value_or(""), ':');
  for (const char* name : {"mpirun", "mpiexec", "srun", "torchrun"}) {
    for (const std::string& folder : folders) {
      const fs::path path = fs::path(folder) / name;
      if (!base::is_executable(path)) continue;
      check.found += concat(check.found.empty() ? "" : ", ", path.string());
      break;
    }
  }
  if (check.found.empty()) check.found = "none; lockstep run needs none";
  return check;
}

}  // namespace

Checks software_checks() { return {libtorch(), launchers()}; }

}  // namespace lockstep::doctor
