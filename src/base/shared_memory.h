#pragma once
#include <cstddef>
#include <string>

#include "base/fd.h"

namespace lockstep::base {

/// Memory that processes of one host map together. It has no page until one is committed, so its
/// size may exceed what the machine has.
class SharedMemory {
 public:
  /// Anonymous: nothing is left behind, however the processes end. Reachable for processes of the
  /// same user and pid namespace by `path()` while this object lives.
  static SharedMemory create(const std::string& name, std::size_t bytes);

  /// As a new file of mode 0600 in `folder`; `remove_name()` once all have opened it.
  static SharedMemory create_in(const std::string& folder, const std::string& name,
                                std::size_t bytes);

  /// What another process made, by its path. Throws InternalError when it cannot be opened or has
  /// another size.
  static SharedMemory open(const std::string& path, std::size_t bytes);

  SharedMemory(SharedMemory&&) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const std::string& path() const { return path_; }

  /// Gives [offset, offset + bytes) its pages, so that touching them cannot fail any more (a page
  /// that cannot be had when it is touched is a SIGBUS). Throws InternalError naming the bytes
  /// needed. Pages that are there already keep their content.
  void commit(std::size_t offset, std::size_t bytes) const;

  /// Returns the pages that lie wholly in the range; they read as zeros when committed again.
  void release(std::size_t offset, std::size_t bytes) const noexcept;

  void remove_name() noexcept;

 private:
  SharedMemory(Fd fd, std::string path, std::size_t bytes, bool named);

  Fd fd_;
  std::string path_;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
  bool named_ = false;
};

/// Bytes of physical memory in this machine.
std::size_t physical_memory();

}  // namespace lockstep::base
