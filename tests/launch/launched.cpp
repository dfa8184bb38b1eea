#include "launch/launched.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/concat.h"
#include "base/env.h"
#include "base/host.h"
#include "base/os_error.h"

namespace lockstep::test {
namespace {

using base::concat;

constexpr const char* kMark = "LOCKSTEP_TEST_MARK";

std::vector<std::string> environment_with(const Launched::Variables& variables,
                                          const std::string& mark) {
  std::vector<std::string> environment;
  for (const std::string& entry : base::current_environment()) {
    const std::string name = entry.substr(0, entry.find('='));
    // What a launcher around the tests may have set is not part of the test.
    const bool foreign = name.starts_with("PET_") || name.starts_with("TORCHELASTIC_") ||
                         name.starts_with("LOCKSTEP_") || name == "OMP_NUM_THREADS" ||
                         name == "CUDA_VISIBLE_DEVICES";
    if (!foreign && !variables.contains(name)) environment.push_back(entry);
  }
  for (const auto& [name, value] : variables)
    if (!value.empty()) environment.push_back(concat(name, "=", value));
  environment.push_back(concat(kMark, "=", mark));
  return environment;
}

base::Fd pipe_into(base::Fd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw base::os_error("cannot make a pipe");
  write_end = base::Fd(ends[1]);
  return base::Fd(ends[0]);
}

Program lockstep_command(const std::vector<std::string>& arguments,
                         std::vector<std::string> words) {
  words.push_back(LOCKSTEP_COMMAND);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return {std::move(words)};
}

}  // namespace

Launched::Launched(const std::vector<std::string>& arguments, const Variables& variables,
                   const std::vector<std::string>& wrapper)
    : Launched(lockstep_command(arguments, wrapper), variables) {}

Launched::Launched(const Program& program, const Variables& variables)
    : mark_(base::random_hex(8)), began_(base::Deadline::Clock::now()) {
  base::Fd out_end;
  base::Fd err_end;
  out_ = pipe_into(out_end);
  err_ = pipe_into(err_end);
  const base::Fd nothing = base::open_null();
  base::Command command;
  command.arguments = program.words;
  command.path = program.words.front();
  command.environment = environment_with(variables, mark_);
  command.standard_input = nothing.get();
  command.standard_output = out_end.get();
  command.standard_error = err_end.get();
  process_ = base::spawn(command);
}

Launched::~Launched() {
  if (process_.pidfd) {
    ::kill(process_.pid, SIGKILL);
    process_.reap();
  }
  for (const pid_t pid : offspring()) ::kill(pid, SIGKILL);
}

void Launched::signal(int number) const { ::kill(process_.pid, number); }

// One wait for output; false when there will be none, or at the deadline.
bool Launched::read_more(const base::Deadline& deadline) {
  pollfd sources[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  if (!out_ && !err_) return false;
  if (::poll(sources, 2, deadline.poll_timeout()) <= 0) return false;
  char piece[65536];
  for (const int i : {0, 1}) {
    if (sources[i].revents == 0) continue;
    base::Fd& source = i == 0 ? out_ : err_;
    const auto count = ::read(source.get(), piece, sizeof piece);
    if (count <= 0) {
      source.reset();
    } else {
      (i == 0 ? finished_.out : finished_.err).append(piece, static_cast<std::size_t>(count));
    }
  }
  return true;
}

bool Launched::wait_for(const std::string& text, int times, base::Deadline deadline) {
  const auto found = [&] {
    int count = 0;
    for (const std::string* said : {&finished_.out, &finished_.err})
      for (auto at = said->find(text); at != std::string::npos; at = said->find(text, at + 1))
        ++count;
    return count >= times;
  };
  while (!found())
    if (!read_more(deadline)) return found();
  return true;
}

Finished Launched::finish(base::Deadline deadline) {
  while (read_more(deadline)) {
  }
  pollfd ended{process_.pidfd.get(), POLLIN, 0};
  finished_.in_time = ::poll(&ended, 1, deadline.poll_timeout()) == 1;
  if (finished_.in_time) finished_.code = process_.reap().shell_code();
  finished_.seconds = std::chrono::duration<double>(base::Deadline::Clock::now() - began_).count();
  return finished_;
}

std::vector<pid_t> Launched::offspring() const {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = base::parse_number(entry.path().filename().string());
    if (!pid || *pid == process_.pid) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(in), {}};
    if (environment.find(concat(kMark, "=", mark_)) != std::string::npos)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

std::size_t Launched::offspring_left(base::Deadline deadline) const {
  for (;;) {
    const std::vector<pid_t> left = offspring();
    if (left.empty() || deadline.expired()) return left.size();
    for (const pid_t pid : left) {
      try {
        const base::Fd fd = base::open_pidfd(pid);
        pollfd ended{fd.get(), POLLIN, 0};
        ::poll(&ended, 1, deadline.poll_timeout());
      } catch (const Error&) {
        continue;  // gone between the two looks
      }
    }
  }
}

Finished lockstep(const std::vector<std::string>& arguments, const Launched::Variables& variables) {
  return Launched(arguments, variables).finish();
}

Finished run_shell(std::vector<std::string> arguments, const std::string& script,
                   const Launched::Variables& variables) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"sh", "-c", script});
  return lockstep(arguments, variables);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace lockstep::test
