#include "launch/flags.h"

#include <algorithm>
#include <cctype>
#include <climits>

#include "launch/flag_values.h"

namespace lockstep::launch {
namespace {

using V = const FlagValue&;
using O = RunOptions&;

// What the flag asks for cannot change anything here; its value is still checked where it has a
// form.
void accept(V, O) {}

constexpr const char* kWorkers = "Workers";
constexpr const char* kProgram = "Program";
constexpr const char* kOutput = "Output";
constexpr const char* kNodes = "Several nodes";
constexpr const char* kEnds = "Failures and signals";
constexpr const char* kOther = "Other";

const Flag kFlags[] = {
    {kWorkers, "nproc-per-node", 'n', "N|auto|cpu|gpu", "1",
     "Workers on this node. auto: one a GPU, without GPUs one a processor",
     [](V v, O o) { o.workers = worker_count(v); }},
    {kWorkers, "standalone", 0, nullptr, "off",
     "One node that needs nobody else; the rendezvous flags are ignored",
     [](V v, O o) { o.standalone = truth(v); }},
    {kWorkers, "role", 0, "NAME", "default", "ROLE_NAME of the workers, also in the line prefix",
     [](V v, O o) { o.role = v.text; }},
    {kWorkers, "virtual-local-rank", 0, nullptr, "off",
     "LOCAL_RANK=0 for every worker, CUDA_VISIBLE_DEVICES cut to its one device",
     [](V v, O o) { o.virtual_local_rank = truth(v); }},
    {kWorkers, "numa-binding", 0, "node|socket|exclusive|core-complex", "none",
     "Bind each worker to processors near its device",
     [](V v, O o) { o.cpu_binding = cpu_binding(v); }},

    {kProgram, "module", 'm', nullptr, "off",
     "The program is a Python module, started as by python -m",
     [](V v, O o) { o.module = truth(v); }},
    {kProgram, "no-python", 0, nullptr, "off",
     "Run the program as it is, even when its name ends in .py",
     [](V v, O o) { o.no_python = truth(v); }},
    {kProgram, "run-path", 0, nullptr, "off", "The program is a Python script, whatever its name",
     [](V v, O o) { o.run_path = truth(v); }},
    {kProgram, "use-env", 0, nullptr, "off",
     "Of lockstep launch: do not add --local-rank=N to the arguments",
     [](V v, O o) { o.use_env = truth(v); }},

    {kOutput, "redirects", 'r', "S|RANK:S,...", "0",
     "Streams that go to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or by "
     "local rank",
     [](V v, O o) { o.redirects = stream_choice(v); }},
    {kOutput, "tee", 't', "S|RANK:S,...", "0",
     "Streams that go to files and, with a prefix, to the console",
     [](V v, O o) { o.tee = stream_choice(v); }},
    {kOutput, "log-dir", 0, "FOLDER", "a new folder",
     "Where log files go; made when files are asked for", [](V v, O o) { o.log_folder = v.text; }},
    {kOutput, "log-line-prefix-template", 0, "TEXT", "[${role_name}${rank}]:",
     "Prefix of console lines, with ${role_name} ${local_rank} ${rank} ${hostname}; when given, on "
     "every line",
     [](V v, O o) { o.prefix_template = v.text; }},
    {kOutput, "local-ranks-filter", 0, "RANK,...", "all",
     "Local ranks whose output reaches the console",
     [](V v, O o) { o.shown_local_ranks = rank_set(v); }},
    {kOutput, "duplicate-stdout-filters", 0, "TEXT,...", "none",
     "Copy stdout lines that hold one of the texts to filtered_stdout.log",
     [](V v, O o) { o.stdout_filters = text_list(v); }},
    {kOutput, "duplicate-stderr-filters", 0, "TEXT,...", "none",
     "Copy stderr lines that hold one of the texts to filtered_stderr.log",
     [](V v, O o) { o.stderr_filters = text_list(v); }},

    {kEnds, "max-restarts", 0, "N", "0", "How often all workers are started again after one failed",
     [](V v, O o) { o.max_restarts = static_cast<int>(number(v, 0, INT_MAX)); }},
    {kEnds, "shutdown-timeout", 0, "SECONDS", "30",
     "From the signal that asks workers to end to SIGKILL, on every path",
     [](V v, O o) { o.grace = seconds(v); }},
    {kEnds, "signals-to-handle", 0, "SIGNAL,...", "SIGTERM,SIGINT,SIGHUP",
     "Signals that are passed on to the workers and end the job",
     [](V v, O o) { o.handled_signals = signal_list(v); }},

    {kNodes, "nnodes", 0, "N", "1", "Nodes of the job; every node runs this command",
     [](V v, O o) { o.nodes = node_count(v); }},
    {kNodes, "node-rank", 0, "N", "0", "Which of them this one is",
     [](V v, O o) { o.node_rank = static_cast<int>(number(v, 0, 999'999)); }},
    {kNodes, "rdzv-endpoint", 0, "HOST[:PORT]", "none",
     "Where the nodes meet: an address of node 0; port 29400 if left out",
     [](V v, O o) { o.rendezvous_endpoint = v.text; }},
    {kNodes, "master-addr", 0, "HOST", "127.0.0.1", "The same, in two flags",
     [](V v, O o) { o.master_address = v.text; }},
    {kNodes, "master-port", 0, "PORT", "29500",
     "The same, in two flags; on one node the MASTER_PORT of the workers",
     [](V v, O o) { o.master_port = static_cast<std::uint16_t>(number(v, 1, 65535)); }},
    {kNodes, "rdzv-backend", 0, "static|c10d", "static", "Both meet the same static way as yet",
     [](V v, O o) {
       o.rendezvous_backend = choice(v, {"static", "c10d"});
     }},
    {kNodes, "rdzv-id", 0, "NAME", "none",
     "Name of the job: TORCHELASTIC_RUN_ID and the log folder",
     [](V v, O o) { o.rendezvous_id = v.text; }},
    {kNodes, "rdzv-conf", 0, "KEY=VALUE,...", "timeout=900",
     "timeout or join_timeout: seconds to wait for the other nodes",
     [](V v, O o) { o.rendezvous_settings = settings(v); }},
    {kNodes, "local-addr", 0, "ADDRESS", "found",
     "Address of this node that the other nodes can reach",
     [](V v, O o) { o.local_address = v.text; }},

    {kOther, "monitor-interval", 0, "SECONDS", "0.1",
     "Accepted: workers are watched by events, without an interval", [](V v, O) { seconds(v); }},
    {kOther, "start-method", 0, "spawn|fork|forkserver", "spawn",
     "Accepted: workers are always programs of their own",
     [](V v, O) {
       choice(v, {"spawn", "fork", "forkserver"});
     }},
    {kOther, "event-log-handler", 0, "NAME", "null", "Accepted, without effect", accept},
    {kOther, "logs-specs", 0, "NAME", "none", "Accepted, without effect", accept},
    {kOther, "print-completion", 0, "bash|zsh|tcsh", "", "Print a completion script for the shell",
     [](V v, O o) {
       o.completion_shell = choice(v, {"bash", "zsh", "tcsh"});
     },
     true},
    {kOther, "help", 'h', nullptr, "off", "Print this text", [](V v, O o) { o.help = truth(v); },
     true},
};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

std::string variable_of(const Flag& flag) {
  std::string name = "PET_";
  for (const char* letter = flag.name; *letter != '\0'; ++letter)
    name +=
        *letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*letter)));
  return name;
}

}  // namespace lockstep::launch
