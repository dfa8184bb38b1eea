#include "launch/command_line.h"

#include <algorithm>

#include "base/concat.h"
#include "launch/flag_values.h"
#include "launch/flags.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using base::concat;

// Edit distance, to guess what a misspelt flag was meant to be.
std::size_t distance(const std::string& left, const std::string& right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t above = row[j];
      row[j] =
          std::min({above + 1, row[j - 1] + 1, diagonal + (left[i - 1] == right[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[right.size()];
}

[[noreturn]] void unknown(const std::string& given, const std::string& name) {
  const Flag* nearest = nullptr;
  for (const Flag& flag : flags())
    if (nearest == nullptr || distance(name, flag.name) < distance(name, nearest->name))
      nearest = &flag;
  const bool near = !name.empty() && distance(name, nearest->name) <= 3;
  throw UsageError(
      concat("unknown flag ", given),
      near ? concat("did you mean --", nearest->name, "?") : "lockstep run --help lists all flags");
}

const Flag& find_by_name(const std::string& given, std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<const Flag*> starting;
  for (const Flag& flag : flags()) {
    if (name == flag.name) return flag;
    if (!name.empty() && std::string(flag.name).starts_with(name)) starting.push_back(&flag);
  }
  if (starting.empty()) unknown(given, name);
  if (starting.size() == 1) return *starting.front();
  std::string list;
  for (const Flag* flag : starting) list += concat(list.empty() ? "--" : ", --", flag->name);
  throw UsageError(concat(given, " may mean ", list), "write the name out");
}

const Flag& find_by_letter(const std::string& given) {
  for (const Flag& flag : flags())
    if (flag.letter != 0 && flag.letter == given[1]) return flag;
  unknown(given, "");
}

void apply_environment(const base::Env& env, RunOptions& options) {
  for (const Flag& flag : flags()) {
    if (flag.only_typed) continue;
    const std::string variable = variable_of(flag);
    if (const auto text = env.text(variable)) flag.apply({*text, variable}, options);
  }
}

// Walks over the arguments up to the program.
class Reader {
 public:
  Reader(const std::vector<std::string>& arguments, RunOptions& options)
      : arguments_(arguments), options_(options) {}

  void read() {
    while (next_ < arguments_.size()) {
      const std::string argument = arguments_[next_];
      if (argument == "--") {
        ++next_;
        break;
      }
      if (argument.size() < 2 || argument[0] != '-') break;
      ++next_;
      argument.starts_with("--") ? read_long(argument) : read_short(argument);
    }
    if (next_ == arguments_.size()) return;
    options_.program = arguments_[next_++];
    options_.arguments.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                              arguments_.end());
  }

 private:
  void read_long(const std::string& argument) {
    const auto equals = argument.find('=');
    const std::string given = argument.substr(0, equals);
    const Flag& flag = find_by_name(given, given.substr(2));
    const std::string origin = concat("--", flag.name);
    if (equals != std::string::npos) {
      if (flag.value == nullptr)
        throw UsageError(concat(origin, " takes no value"), concat("write just ", origin));
      return flag.apply({argument.substr(equals + 1), origin}, options_);
    }
    flag.apply({flag.value == nullptr ? "1" : value_after(flag, origin), origin}, options_);
  }

  void read_short(const std::string& argument) {
    const Flag& flag = find_by_letter(argument);
    const std::string origin = concat("-", flag.letter);
    const std::string attached = argument.substr(2);
    if (flag.value == nullptr) {
      if (!attached.empty()) unknown(argument, "");
      return flag.apply({"1", origin}, options_);
    }
    if (attached.empty()) return flag.apply({value_after(flag, origin), origin}, options_);
    flag.apply({attached[0] == '=' ? attached.substr(1) : attached, origin}, options_);
  }

  std::string value_after(const Flag& flag, const std::string& origin) {
    if (next_ == arguments_.size())
      throw UsageError(concat(origin, " needs a value: ", flag.value));
    return arguments_[next_++];
  }

  const std::vector<std::string>& arguments_;
  RunOptions& options_;
  std::size_t next_ = 0;
};

// What only makes sense, or none, together.
void check_together(Verb verb, const RunOptions& options) {
  if (options.program.empty())
    throw UsageError("no program to run", concat("lockstep ", verb == Verb::kRun ? "run" : "launch",
                                                 " --nproc-per-node 2 PROGRAM [ARGUMENTS]"));
  if (options.module && options.no_python)
    throw UsageError("--module and --no-python exclude each other", "leave one of them out");
  if (verb == Verb::kLaunch && options.no_python && !options.use_env)
    throw UsageError("lockstep launch with --no-python needs --use-env as well",
                     "use lockstep run, which passes the rank by LOCAL_RANK");
  if (!options.standalone && options.node_rank >= options.nodes)
    throw UsageError(
        concat("--node-rank ", options.node_rank, " is outside of --nnodes ", options.nodes),
        concat("nodes are numbered from 0 to ", options.nodes - 1));
}

}  // namespace

RunOptions parse_command_line(Verb verb, const std::vector<std::string>& arguments,
                              const base::Env& env) {
  RunOptions options;
  options.handled_signals = signal_list({"SIGTERM,SIGINT,SIGHUP", ""});
  // torchrun's own variable for the grace, below PET_SHUTDOWN_TIMEOUT.
  if (const auto grace = env.text("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"))
    options.grace = seconds({*grace, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"});
  if (const auto prefix = env.text("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"))
    options.prefix_template = *prefix;
  apply_environment(env, options);
  Reader(arguments, options).read();
  if (options.help || !options.completion_shell.empty()) return options;
  check_together(verb, options);
  if (options.standalone) {
    options.nodes = 1;
    options.node_rank = 0;
    options.rendezvous_endpoint.clear();
    options.master_port.reset();
    options.rendezvous_id = "none";
  }
  options.legacy_local_rank = verb == Verb::kLaunch && !options.use_env;
  return options;
}

}  // namespace lockstep::launch
