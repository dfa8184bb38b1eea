#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/concat.h"
#include "base/host.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace {

void set_size(const Fd& fd, const std::string& path, std::size_t bytes) {
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw os_error(concat("cannot make shared memory of ", bytes, " bytes at ", path));
}

}  // namespace

SharedMemory::SharedMemory(Fd fd, std::string path, std::size_t bytes, bool named)
    : fd_(std::move(fd)), path_(std::move(path)), size_(bytes), named_(named) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    remove_name();
    throw os_error(concat("cannot map ", bytes, " bytes of shared memory"), error);
  }
  data_ = static_cast<std::byte*>(address);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      size_(other.size_),
      data_(std::exchange(other.data_, nullptr)),
      named_(std::exchange(other.named_, false)) {}

SharedMemory::~SharedMemory() {
  remove_name();
  if (data_ != nullptr) ::munmap(data_, size_);
}

SharedMemory SharedMemory::create(const std::string& name, std::size_t bytes) {
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd) throw os_error("cannot make shared memory (memfd_create)");
  ::fchmod(fd.get(), 0600);
  std::string path = concat("/proc/", this_pid(), "/fd/", fd.get());
  set_size(fd, path, bytes);
  return SharedMemory(std::move(fd), std::move(path), bytes, false);
}

SharedMemory SharedMemory::create_in(const std::string& folder, const std::string& name,
                                     std::size_t bytes) {
  std::string path = concat(folder, "/", name);
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) throw os_error(concat("cannot make shared memory at ", path));
  try {
    set_size(fd, path, bytes);
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
  return SharedMemory(std::move(fd), std::move(path), bytes, true);
}

SharedMemory SharedMemory::open(const std::string& path, std::size_t bytes) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw os_error(concat("cannot open shared memory ", path));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    throw InternalError(concat("shared memory ", path, " is not the one expected: it has ",
                               status.st_size, " bytes instead of ", bytes));
  return SharedMemory(std::move(fd), path, bytes, false);
}

void SharedMemory::commit(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return;
  int error = 0;
  do {
    error = ::posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error == 0) return;
  throw InternalError(concat("shared memory has no room for ", bytes, " bytes more (", path_,
                             "): ", errno_text(error)),
                      error == ENOSPC
                          ? concat("make its file system larger by at least ", bytes,
                                   " bytes (docker run --shm-size, mount -o remount,size=)")
                          : "free memory, or start fewer workers");
}

void SharedMemory::release(std::size_t offset, std::size_t bytes) const noexcept {
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void SharedMemory::remove_name() noexcept {
  if (std::exchange(named_, false)) ::unlink(path_.c_str());
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
}

}  // namespace lockstep::base
