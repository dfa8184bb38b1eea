#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/fd.h"

namespace lockstep::base {

struct Pipe {
  Fd read_end;  ///< non-blocking
  Fd write_end;
};
Pipe make_pipe();

/// What one read or write did.
struct IoResult {
  std::size_t count = 0;
  bool would_block = false;
  bool ended = false;  ///< read: all writers are gone; write: nobody reads, see `error`
  int error = 0;
};

IoResult read_some(int fd, std::span<char> into);

/// Writes some of the text now, or nothing when that would block; also where `fd` itself is
/// blocking.
IoResult write_without_blocking(int fd, std::string_view text);

/// Writes all of it, blocking; returns the errno, 0 when it is written.
int write_all(int fd, std::string_view text);

/// Opens a file for appending, empty at first. The descriptor is empty (with errno) when it cannot.
Fd create_for_appending(const std::filesystem::path& path);

/// A regular file that this process may execute.
bool is_executable(const std::filesystem::path& path);

}  // namespace lockstep::base
