#include "launch/program.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/concat.h"
#include "base/stream_io.h"

namespace lockstep::launch {
namespace fs = std::filesystem;
namespace {

using base::concat;

// The first executable of that name on $PATH; empty when there is none.
std::string search(const std::string& name, const base::Env& env) {
  std::istringstream folders(env.text("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = concat(folder.empty() ? "." : folder, "/", name);
    if (base::is_executable(path)) return path;
  }
  return "";
}

// A script whose "#!" line names an interpreter that is not there fails with a misleading
// "No such file or directory" when executed.
void check_interpreter(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) return;
  std::istringstream words(line.substr(2));
  std::string interpreter;
  words >> interpreter;
  if (line.ends_with('\r'))
    throw ProgramError(
        kExitNotExecutable,
        concat(path, " has Windows line ends: its first line asks for an interpreter '",
               interpreter, "\\r'"),
        concat("convert it: sed -i 's/\\r$//' ", path));
  if (!base::is_executable(interpreter))
    throw ProgramError(kExitNotExecutable,
                       concat("the interpreter of ", path, ", '", interpreter,
                              "', does not exist or is not executable"),
                       concat("correct the first line of ", path));
}

void check_executable(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    if (fs::is_symlink(fs::symlink_status(path, error)))
      throw ProgramError(kExitNotFound,
                         concat(path, " is a link to '", fs::read_symlink(path, error).string(),
                                "', which does not exist"),
                         "correct the link");
    throw ProgramError(kExitNotFound, concat("program ", path, " does not exist"),
                       "check the path; is it built?");
  }
  if (status.type() == fs::file_type::directory)
    throw ProgramError(kExitNotExecutable, concat(path, " is a folder, not a program"),
                       "name a file inside it");
  if (status.type() == fs::file_type::none)
    throw ProgramError(kExitNotExecutable, concat("cannot look at ", path, ": ", error.message()),
                       "check the permissions of its folders");
  if (!base::is_executable(path))
    throw ProgramError(kExitNotExecutable, concat(path, " is not executable"),
                       concat("chmod +x ", path, ", or add --run-path if it is a Python script"));
  check_interpreter(path);
}

Program run_directly(const std::string& name, const base::Env& env) {
  if (name.find('/') != std::string::npos) {
    check_executable(name);
    return {name, {name}};
  }
  const std::string path = search(name, env);
  if (path.empty()) {
    std::error_code ignored;
    if (fs::exists(name, ignored))
      throw ProgramError(kExitNotFound, concat("program ", name, " was not found on PATH"),
                         concat("did you mean ./", name, "?"));
    throw ProgramError(kExitNotFound,
                       concat("program ", name, " was not found, neither here nor on PATH"),
                       "check the name; is it built?");
  }
  check_interpreter(path);
  return {path, {name}};
}

std::string find_python(const base::Env& env) {
  const auto chosen = env.text("PYTHON_EXEC");
  const std::string name = chosen.value_or("python3");
  std::string path = name.find('/') == std::string::npos ? search(name, env) : name;
  if (base::is_executable(path)) return path;
  throw ProgramError(kExitNotFound,
                     concat("python is needed for this program, but ", name,
                            chosen ? " (PYTHON_EXEC)" : "", " was not found"),
                     "install python3, or set PYTHON_EXEC to an interpreter's path");
}

}  // namespace

Program find_program(const RunOptions& options, const base::Env& env) {
  const std::string& name = options.program;
  const bool script = name.ends_with(".py") || options.run_path;
  if (options.no_python && !options.run_path) return run_directly(name, env);
  if (!script && !options.module) return run_directly(name, env);
  const std::string python = find_python(env);
  if (options.module) return {python, {python, "-u", "-m", name}};
  std::error_code ignored;
  if (!fs::exists(name, ignored))
    throw ProgramError(kExitNotFound, concat("script ", name, " does not exist"), "check the path");
  return {python, {python, "-u", name}};
}

}  // namespace lockstep::launch
