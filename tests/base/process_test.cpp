#include "base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/poller.h"
#include "base/process_tree.h"
#include "base/signals.h"
#include "base/socket.h"
#include "base/stream_io.h"

namespace lockstep::base {
namespace {

Command shell(const std::string& script) {
  Command command;
  command.path = "/bin/sh";
  command.arguments = {"sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin"};
  return command;
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t count = 0; (count = ::read(fd, piece, sizeof piece)) != 0;)
    if (count > 0) text.append(piece, static_cast<std::size_t>(count));
  return text;
}

}  // namespace

TEST(ProcessTest, EndsAreDecoded) {
  EXPECT_EQ(spawn(shell("exit 7")).reap().code(), 7);
  const ExitStatus killed = spawn(shell("kill -TERM $$")).reap();
  EXPECT_EQ(killed.signal(), SIGTERM);
  EXPECT_EQ(killed.shell_code(), 143);
  EXPECT_EQ(killed.text(), "SIGTERM (signal 15)");
  EXPECT_EQ(ExitStatus::exited(3).text(), "exit code 3");
}

TEST(ProcessTest, AProgramThatCannotBeExecutedSaysWhy) {
  ExecFailures failures;
  Command command = shell("");
  command.path = "/no/such/program";
  command.failure_report = failures.report_end();
  Process process = spawn(command);
  const pid_t pid = process.pid;
  EXPECT_EQ(process.reap().code(), 127);
  EXPECT_EQ(failures.of(pid), ENOENT);
  EXPECT_EQ(failures.of(1), std::nullopt);
}

TEST(ProcessTest, AChildStartsWithDefaultSignalsInASessionOfItsOwn) {
  const SignalFd blocked(awaitable_signals());
  Pipe pipe = make_pipe();
  Command command = shell("grep SigBlk /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$");
  command.standard_output = pipe.write_end.get();
  Process process = spawn(command);
  pipe.write_end.reset();
  process.reap();
  const std::string said = read_all(pipe.read_end.get());
  EXPECT_THAT(said, testing::HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(said,
              testing::HasSubstr(std::to_string(process.pid) + "\n" + std::to_string(process.pid)));
}

TEST(ProcessTreeTest, DescendantsAreFoundInAnySessionAndKilled) {
  // In a child, which may become a subreaper without taking the test's own processes over.
  const auto family = [] {
    become_subreaper();
    Pipe pipe = make_pipe();
    Command command = shell("setsid sleep 300 & sleep 300 & echo up; exit 0");
    command.standard_output = pipe.write_end.get();
    spawn(command).reap();
    if (descendants(::getpid()).size() != 2) return 1;
    if (!kill_descendants(5).empty()) return 2;
    return look_for_ended_child().exists ? 3 : 0;
  };
  EXPECT_EQ(fork_child(family).reap().code(), 0);
}

TEST(SignalsTest, NamesGoBothWays) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    EXPECT_EQ(signal_number(signal_name(signal)), signal);
  EXPECT_EQ(signal_number("TERM"), SIGTERM);
  EXPECT_EQ(signal_number("10"), SIGUSR1);
  EXPECT_EQ(signal_number("SIGNOPE"), std::nullopt);
  EXPECT_EQ(signal_number("0"), std::nullopt);
}

TEST(SignalsTest, WhatTheProcessWasStartedToIgnoreStaysIgnored) {
  const auto nohup = [] {
    ::signal(SIGHUP, SIG_IGN);
    const sigset_t signals = awaitable_signals();
    return ::sigismember(&signals, SIGHUP) == 0 && ::sigismember(&signals, SIGTERM) == 1 ? 0 : 1;
  };
  EXPECT_EQ(fork_child(nohup).reap().code(), 0);
}

TEST(SignalsTest, ComeAsEvents) {
  const auto body = [] {
    SignalFd signals(awaitable_signals());
    ::raise(SIGUSR1);
    return signals.next() == SIGUSR1 && !signals.next() ? 0 : 1;
  };
  EXPECT_EQ(fork_child(body).reap().code(), 0);
}

TEST(PollerTest, TellsEndsInTheirOrder) {
  Poller poller;
  std::vector<pid_t> order;
  std::vector<Process> processes;
  for (const char* delay : {"0.2", "0", "0.1"})
    processes.push_back(spawn(shell(std::string("sleep ") + delay)));
  for (const Process& process : processes)
    poller.watch(process.pidfd.get(), EPOLLIN,
                 [&, pid = process.pid, fd = process.pidfd.get()](std::uint32_t) {
                   order.push_back(pid);
                   poller.forget(fd);
                 });
  // All three have ended before the one wait that tells of them.
  pollfd last{processes[0].pidfd.get(), POLLIN, 0};
  ASSERT_TRUE(poll_until({&last, 1}, Deadline::in(std::chrono::seconds(10))));
  poller.wait(std::nullopt);
  EXPECT_THAT(order, testing::ElementsAre(processes[1].pid, processes[2].pid, processes[0].pid));
  for (Process& process : processes) process.reap();
}

TEST(PollerTest, AHandlerMayForgetAnyDescriptor) {
  Poller poller;
  EventFd one;
  EventFd two;
  int told = 0;
  const auto forget_both = [&](std::uint32_t) {
    ++told;
    poller.forget(one.get());
    poller.forget(two.get());
  };
  poller.watch(one.get(), EPOLLIN, forget_both);
  poller.watch(two.get(), EPOLLIN, forget_both);
  one.raise();
  two.raise();
  poller.wait(std::nullopt);
  EXPECT_EQ(told, 1);
}

}  // namespace lockstep::base
