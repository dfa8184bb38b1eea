#include "launch/guardian.h"

#include <csignal>
#include <optional>

#include "base/concat.h"
#include "base/env.h"
#include "base/held_port.h"
#include "base/host.h"
#include "base/poller.h"
#include "base/port_claim.h"
#include "base/private_folder.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/signals.h"
#include "base/stream_io.h"
#include "launch/agent.h"
#include "launch/devices.h"
#include "launch/meeting_place.h"
#include "launch/program.h"

namespace lockstep::launch {
namespace {

using base::concat;

constexpr double kKillSeconds = 10;

// Waits for the agent's end, passing on to it every signal that comes.
base::ExitStatus watch(base::Process& agent) {
  base::Poller poller;
  base::SignalFd signals(base::awaitable_signals());
  std::optional<base::ExitStatus> status;
  poller.watch(signals.get(), EPOLLIN, [&](std::uint32_t) {
    while (const auto signal = signals.next())
      if (*signal != SIGCHLD) base::send_signal(agent.pid, *signal);
  });
  const int agent_fd = agent.pidfd.get();
  poller.watch(agent_fd, EPOLLIN, [&](std::uint32_t) {
    poller.forget(agent_fd);
    status = agent.reap();
  });
  while (!status) poller.wait(std::nullopt);
  return *status;
}

// The port that the user chose for a job of one node, from here to the end.
struct KeptPort {
  explicit KeptPort(const RunOptions& options)
      : number(options.nodes == 1 ? chosen_port(options) : std::nullopt) {
    if (!number) return;
    claim.emplace(*number);
    held.emplace(*number);
  }
  std::optional<std::uint16_t> number;
  std::optional<base::PortClaim> claim;
  std::optional<base::HeldPort> held;
};

void say_agent_lost(const base::ExitStatus& status) {
  const std::string text = concat("lockstep: the agent that watches the workers was killed by ",
                                  status.text(), "; all workers were killed with it\n");
  base::write_all(2, text);
}

}  // namespace

int run_job(RunOptions options) {
  const base::Env env = base::Env::of_process();
  const Program program = find_program(options, env);
  options.local_world_size = local_world_size(options.workers, env);
  base::open_standard_streams();
  const KeptPort port(options);
  const base::PrivateFolder folder("lockstep-run");
  // Blocked from before the fork on: a signal that comes in between waits for its reader.
  const base::SignalFd blocked(base::awaitable_signals());
  base::become_subreaper();
  const base::Fd self = base::open_pidfd(base::this_pid());
  base::Process agent = base::fork_child([&] {
    return run_agent({options, program, folder, port.number, self.get()});
  });
  const base::ExitStatus status = watch(agent);
  if (base::look_for_ended_child().exists) base::kill_descendants(kKillSeconds);
  if (status.signal() != 0) say_agent_lost(status);
  return status.shell_code();
}

}  // namespace lockstep::launch
