#include "launch/log_tree.h"

#include "base/concat.h"
#include "base/env.h"
#include "base/host.h"
#include "base/os_error.h"
#include "base/stream_io.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace fs = std::filesystem;
namespace {

using base::concat;

constexpr const char* kNowhere = "/dev/null";

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw UsageError(concat("cannot make the log folder ", path.string(), ": ", error.message()),
                     "choose another --log-dir");
}

// A run id may hold anything; a folder's name may not.
std::string as_name(std::string run_id) {
  for (char& letter : run_id)
    if (letter == '/' || letter == '\0') letter = '_';
  return run_id;
}

fs::path new_folder(const fs::path& parent, const std::string& head) {
  make_folders(parent);
  for (;;) {
    fs::path path = parent / concat(head, "_", base::random_hex(4));
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error)
      throw UsageError(
          concat("cannot make a log folder in ", parent.string(), ": ", error.message()),
          "choose another --log-dir");
  }
}

}  // namespace

LogTree::LogTree(const RunOptions& options, const std::string& run_id,
                 const fs::path& private_folder)
    : wanted_(options.redirects.any() || options.tee.any() || !options.stdout_filters.empty() ||
              !options.stderr_filters.empty() || !options.log_folder.empty()),
      discard_(options.log_folder == kNowhere) {
  if (!wanted_ || discard_) {
    job_folder_ = private_folder;
    return;
  }
  fs::path parent = options.log_folder;
  if (parent.empty())
    parent = fs::path(base::Env::of_process().text("TMPDIR").value_or("/tmp")) / "lockstep-logs";
  job_folder_ = new_folder(parent, as_name(run_id));
}

void LogTree::begin_attempt(int attempt, int local_world_size) {
  attempt_folder_ = job_folder_ / concat("attempt_", attempt);
  if (!wanted_ || discard_) return;
  for (int rank = 0; rank < local_world_size; ++rank)
    make_folders(attempt_folder_ / std::to_string(rank));
}

fs::path LogTree::flight_folder() const {
  return wanted_ && !discard_ ? job_folder_ / "flight" : fs::path();
}

fs::path LogTree::error_file(int local_rank) const {
  // In the private folder one file needs no folder of its own.
  if (!wanted_ || discard_) return concat(attempt_folder_.string(), ".", local_rank, ".error.json");
  return attempt_folder_ / std::to_string(local_rank) / "error.json";
}

fs::path LogTree::stream_file(int local_rank, Streams stream) const {
  if (discard_) return kNowhere;
  return attempt_folder_ / std::to_string(local_rank) /
         (stream == Streams::kOut ? "stdout.log" : "stderr.log");
}

fs::path LogTree::filtered_file(Streams stream) const {
  if (discard_) return kNowhere;
  return attempt_folder_ /
         (stream == Streams::kOut ? "filtered_stdout.log" : "filtered_stderr.log");
}

base::Fd create_file(const fs::path& path) {
  base::Fd fd = base::create_for_appending(path);
  if (!fd)
    throw UsageError(concat("cannot write ", path.string(), ": ", base::errno_text(errno)),
                     "choose another --log-dir");
  return fd;
}

}  // namespace lockstep::launch
