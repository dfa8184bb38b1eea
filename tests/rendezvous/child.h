#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace lockstep::rendezvous::test {

/// A process of a test, with its output. Killed and reaped by the destructor.
class Child {
 public:
  /// `arguments` with the program first, looked up in the path.
  explicit Child(std::vector<std::string> arguments);
  /// This test binary as one rank: meets, and then does what `then` says ("leave", "hold" or
  /// "vanish"). `prefix` comes before it on the command line, such as "ip netns exec a".
  Child(const std::string& init_method, int rank, int world_size, const std::string& then = "leave",
        std::chrono::milliseconds limit = std::chrono::seconds(20),
        std::vector<std::string> prefix = {});
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;

  void signal(int number) const;
  /// True once its output holds `text`; false at the deadline or at the output's end.
  bool says(const std::string& text, base::Deadline deadline);
  /// Its exit code, 128 + the signal's number, or -1 at the deadline.
  int wait(base::Deadline deadline);
  const std::string& output() const { return output_; }

 private:
  void start(std::vector<std::string> arguments);
  bool read_some(base::Deadline deadline);

  pid_t pid_ = -1;
  base::Fd pidfd_;
  base::Fd out_;
  std::string output_;
};

/// Runs a command to its end; its output. The test fails when the command does.
std::string run(const std::vector<std::string>& arguments);

}  // namespace lockstep::rendezvous::test
