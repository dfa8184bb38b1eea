#include "checkpoint/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include "base/os_error.h"
#include "support/reexec.h"

namespace lockstep::test {

Child::Child(const std::string& name, std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw base::os_error("cannot make a pipe");
  output_ = base::Fd(ends[0]);
  const base::Fd write_end(ends[1]);
  base::Command command;
  command.path = this_binary();
  command.arguments = {command.path, "--child=" + name};
  for (auto& argument : arguments) command.arguments.push_back(std::move(argument));
  command.environment = base::current_environment();
  command.standard_output = write_end.get();
  process_ = base::spawn(command);
}

Child::~Child() {
  if (process_.pid > 0) kill();
}

std::string Child::read(std::size_t size) {
  std::string bytes(size, '\0');
  const auto count = ::read(output_.get(), bytes.data(), bytes.size());
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

bool Child::ends_within(std::chrono::microseconds limit) const {
  pollfd ended{.fd = process_.pidfd.get(), .events = POLLIN, .revents = 0};
  const timespec time{.tv_sec = limit.count() / 1'000'000,
                      .tv_nsec = limit.count() % 1'000'000 * 1000};
  return ::ppoll(&ended, 1, &time, nullptr) == 1;
}

base::ExitStatus Child::kill() {
  if (!ends_within(std::chrono::microseconds(0))) ::kill(process_.pid, SIGKILL);
  const auto status = process_.reap();
  process_.pid = -1;
  return status;
}

base::ExitStatus run_child(const std::string& name, std::vector<std::string> arguments,
                           std::chrono::seconds limit) {
  Child child(name, std::move(arguments));
  child.ends_within(limit);
  return child.kill();
}

}  // namespace lockstep::test
