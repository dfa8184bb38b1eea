#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/process.h"

namespace lockstep::test {

/// A child program of this test binary (support/reexec.h) under way. Killed, if it still runs, by
/// the destructor.
class Child {
 public:
  Child(const std::string& name, std::vector<std::string> arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Reads what the child wrote to its standard output, up to `size` bytes; empty at its end.
  std::string read(std::size_t size);

  /// Whether it ended within that time.
  bool ends_within(std::chrono::microseconds limit) const;

  /// Ends it with SIGKILL if it runs, and gives its status.
  base::ExitStatus kill();

 private:
  base::Fd output_;
  base::Process process_;
};

/// What a child returns when this machine does not let it make what it needs.
inline constexpr int kSkipped = 77;

/// Runs a child to its end; past the limit it is killed.
base::ExitStatus run_child(const std::string& name, std::vector<std::string> arguments,
                           std::chrono::seconds limit);

}  // namespace lockstep::test
