#pragma once
#include <utility>

namespace lockstep::base {

/// Owns one file descriptor and closes it.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// An event one thread raises and another polls for: a wait that can be ended from outside.
class EventFd {
 public:
  EventFd();
  int get() const { return fd_.get(); }
  void raise() const noexcept;
  void drain() const noexcept;

 private:
  Fd fd_;
};

}  // namespace lockstep::base
