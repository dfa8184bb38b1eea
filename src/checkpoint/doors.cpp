#include "checkpoint/doors.h"

#include <system_error>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;

// Asked after the unfinished file is gone, so that "free" is what a second try would find.
std::string space_note(const std::filesystem::path& path, std::size_t needed) {
  std::error_code unknown;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const auto space = std::filesystem::space(folder, unknown);
  if (unknown || needed == 0 || space.available >= needed) return "";
  return concat("; it needs ", needed, " bytes, and ", space.available, " are free there");
}

// Errors of libtorch carry a trace after their first line.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void saving(const std::filesystem::path& path, const std::size_t& needed,
            const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    throw CheckpointError(
        concat("cannot save ", path, ": ", error.happened(), space_note(path, needed)),
        error.remedy());
  } catch (const std::exception& error) {
    throw CheckpointError(concat("cannot save ", path, ": ", first_line(error.what())));
  }
}

void loading(const std::filesystem::path& path, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    throw CheckpointError(concat("cannot load ", path, ": ", error.happened()), error.remedy());
  } catch (const std::exception& error) {
    throw CheckpointError(concat("cannot load ", path, ": ", first_line(error.what())));
  }
}

}  // namespace lockstep::checkpoint
