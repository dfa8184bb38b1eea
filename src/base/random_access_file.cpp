#include "base/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {

RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!fd_) {
    throw DataError(concat("cannot open ", path_, ": ", errno_text(errno)),
                    "check the path and its permissions");
  }
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0)
    throw DataError(concat("cannot stat ", path_, ": ", errno_text(errno)));
  if (!S_ISREG(info.st_mode))
    throw DataError(concat(path_, " is not a regular file"), "check the path");
  size_ = static_cast<std::uint64_t>(info.st_size);
}

void RandomAccessFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const auto count = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw DataError(
          concat("cannot read ", path_, " at offset ", offset, ": ", errno_text(errno)));
    if (count == 0)
      throw DataError(
          concat(path_, " ends at offset ", offset, ", ", into.size(), " bytes too soon"));
    offset += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace lockstep::base
