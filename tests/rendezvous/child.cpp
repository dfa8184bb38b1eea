#include "rendezvous/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <utility>

#include "base/host.h"
#include "base/process.h"
#include "base/socket.h"
#include "rendezvous/meet.h"
#include "rendezvous/party.h"
#include "support/reexec.h"

namespace lockstep::rendezvous::test {
namespace {

// --child=rank INIT_METHOD RANK WORLD_SIZE LIMIT_MS THEN
int be_a_rank(int, char** argv) {
  Member self = member(std::stoi(argv[2]), std::stoi(argv[3]));
  self.host = base::host_name();
  self.pid = base::this_pid();
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(std::stol(argv[4])));
  const std::string then = argv[5];
  const Meeting meeting = meet(argv[1], self, deadline);
  // Everybody hears everybody.
  meeting.client->set("hello/" + std::to_string(self.rank), std::to_string(self.pid));
  for (const auto& other : meeting.members)
    if (meeting.client->get("hello/" + std::to_string(other.rank), deadline) !=
        std::to_string(other.pid))
      return 3;
  std::cout << "met " << meeting.members.size() << " by " << meeting.client->local_address()
            << std::endl;
  meeting.client->on_departure([](const Member& gone, Departure how) {
    std::cout << gone.rank << (how == Departure::kLost ? " is lost" : " has left") << std::endl;
  });
  std::cout << "ready" << std::endl;
  if (then == "vanish") ::_exit(0);
  if (then == "hold") meeting.client->get("never", Deadline::in(60s));
  // The one that serves goes last.
  if (meeting.client->add("done", 1) == self.world_size) meeting.client->set("all done", "");
  if (self.rank == 0) meeting.client->get("all done", deadline);
  return 0;
}

const lockstep::test::ChildProgram kRank("rank", be_a_rank);

std::vector<std::string> command_of(std::vector<std::string> prefix,
                                    std::vector<std::string> rest) {
  prefix.insert(prefix.end(), rest.begin(), rest.end());
  return prefix;
}

}  // namespace

Child::Child(std::vector<std::string> arguments) { start(std::move(arguments)); }

Child::Child(const std::string& init_method, int rank, int world_size, const std::string& then,
             std::chrono::milliseconds limit, std::vector<std::string> prefix) {
  start(command_of(std::move(prefix), {lockstep::test::this_binary(), "--child=rank", init_method,
                                       std::to_string(rank), std::to_string(world_size),
                                       std::to_string(limit.count()), then}));
}

void Child::start(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  out_ = base::Fd(ends[0]);
  const base::Fd write_end(ends[1]);
  ::fcntl(out_.get(), F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int error = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ASSERT_EQ(error, 0) << arguments[0];
  pidfd_ = base::open_pidfd(pid_);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      out_(std::move(other.out_)),
      output_(std::move(other.output_)) {}

Child::~Child() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) const { ::kill(pid_, number); }

bool Child::read_some(Deadline deadline) {
  pollfd readable{out_.get(), POLLIN, 0};
  if (!base::poll_until({&readable, 1}, deadline)) return false;
  std::array<char, 4096> buffer;
  const auto count = ::read(out_.get(), buffer.data(), buffer.size());
  if (count > 0) output_.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

bool Child::says(const std::string& text, Deadline deadline) {
  while (output_.find(text) == std::string::npos)
    if (!read_some(deadline)) return false;
  return true;
}

int Child::wait(Deadline deadline) {
  while (read_some(deadline)) {
  }
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (!base::poll_until({&ended, 1}, deadline)) return -1;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string run(const std::vector<std::string>& arguments) {
  Child child(arguments);
  EXPECT_EQ(child.wait(Deadline::in(10s)), 0) << arguments[0] << ": " << child.output();
  return child.output();
}

}  // namespace lockstep::rendezvous::test
