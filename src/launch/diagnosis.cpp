#include "launch/diagnosis.h"

#include <csignal>
#include <ctime>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/file.h"
#include "base/log.h"

namespace lockstep::launch {
namespace {

using base::concat;
using Json = nlohmann::json;

constexpr std::size_t kLargestErrorFile = std::size_t{1} << 20;

std::string mebibytes(std::uint64_t bytes) { return concat(bytes >> 20, " MiB"); }

bool out_of_memory(const SystemBefore& before) {
  const auto now = base::Cgroup().out_of_memory_kills();
  return now && before.out_of_memory_kills && *now > *before.out_of_memory_kills;
}

std::string out_of_memory_text() {
  const auto limit = base::Cgroup().memory_limit();
  const std::string where =
      limit ? concat(" (this job's memory limit is ", mebibytes(*limit), ")") : std::string();
  return concat("killed by the kernel's out-of-memory killer", where,
                "; use smaller batches or fewer workers, or give the job more memory");
}

std::string shared_memory_text() {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space("/dev/shm", error);
  if (error || space.capacity == 0) return "";
  if (space.available > space.capacity / 50 && space.available > (std::uintmax_t{16} << 20))
    return "";
  return concat("/dev/shm is full (", mebibytes(space.available), " of ", mebibytes(space.capacity),
                " free): touching shared memory beyond it raises SIGBUS; give it more (docker run "
                "--shm-size)");
}

// How the dynamic loader begins its complaints.
constexpr const char* kMissingLibrary = "error while loading shared libraries: ";
constexpr const char* kMissingSymbol = "symbol lookup error: ";

std::string library_text(const WorkerOutcome& worker) {
  for (const std::string& line : worker.last_lines) {
    if (line.find(kMissingSymbol) != std::string::npos)
      return "a shared library is not of the version that the program was built with; look at "
             "LD_LIBRARY_PATH, or build it again";
    const auto found = line.find(kMissingLibrary);
    if (found == std::string::npos) continue;
    const std::string rest = line.substr(found + std::string(kMissingLibrary).size());
    return concat("shared library ", rest.substr(0, rest.find(':')),
                  " was not found; set LD_LIBRARY_PATH or the program's rpath");
  }
  return "a shell found no program of that name, or a library is missing";
}

}  // namespace

SystemBefore SystemBefore::now() { return {base::Cgroup().out_of_memory_kills()}; }

std::string explain(const WorkerOutcome& worker, const SystemBefore& before) {
  switch (worker.status.signal()) {
    case 0:
      return worker.status.code() == 127 ? library_text(worker) : "";
    case SIGKILL:
      return out_of_memory(before)
                 ? out_of_memory_text()
                 : "killed from outside: by kill -9, or by a batch system's limit";
    case SIGBUS:
      return shared_memory_text();
    case SIGSEGV:
      return "the program touched memory that is not its own";
    case SIGABRT:
      return "the program gave up: an uncaught exception, a failed assertion, or heap damage";
    case SIGILL:
      return "the program uses processor instructions that this machine does not have, or is "
             "damaged";
    case SIGXCPU:
      return "the limit of processor time (ulimit -t) was used up";
    case SIGXFSZ:
      return "a file grew beyond the limit of file size (ulimit -f)";
    default:
      return "";
  }
}

void read_error_file(const std::filesystem::path& path, WorkerOutcome& worker) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || std::filesystem::file_size(path, ignored) == 0)
    return;
  try {
    const auto bytes = base::read_file(path, kLargestErrorFile);
    worker.error_file_content.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const Json parsed = Json::parse(worker.error_file_content);
    const Json& message = parsed.at("message");
    worker.error =
        message.is_object() ? message.at("message").get<std::string>() : message.get<std::string>();
  } catch (const std::exception& error) {
    base::log(base::LogLevel::kInfo,
              concat("the error file of rank ", worker.rank, " is not understood: ", error.what()));
    worker.error_file_content.clear();
  }
}

void write_error_file(const std::filesystem::path& path, const WorkerOutcome& cause) {
  try {
    Json content;
    if (!cause.error_file_content.empty()) {
      content = Json::parse(cause.error_file_content);
    } else {
      const std::string text =
          concat("rank ", cause.rank, " on ", cause.host, ": ", cause.status.text(),
                 cause.cause.empty() ? "" : ": ", cause.cause);
      content["message"] = {{"message", text},
                            {"extraInfo", {{"timestamp", std::to_string(std::time(nullptr))}}}};
    }
    if (content.at("message").is_object())
      content["message"]["errorCode"] = cause.status.shell_code();
    const std::string text = content.dump(-1, ' ', false, Json::error_handler_t::replace);
    base::AtomicFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const std::exception& error) {
    base::log(base::LogLevel::kWarning,
              concat("cannot hand the error up to ", path.string(), ": ", error.what()));
  }
}

}  // namespace lockstep::launch
