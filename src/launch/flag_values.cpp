#include "launch/flag_values.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "base/concat.h"
#include "base/env.h"
#include "base/signals.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using base::concat;

[[noreturn]] void refuse(const FlagValue& value, const std::string& wanted) {
  throw UsageError(concat(value.origin, " '", value.text, "' is not ", wanted));
}

[[noreturn]] void refuse(const FlagValue& value, const std::string& wanted,
                         const std::string& remedy) {
  throw UsageError(concat(value.origin, " '", value.text, "' is not ", wanted), remedy);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

long number(const FlagValue& value, long least, long most) {
  const auto parsed = base::parse_number(value.text);
  if (!parsed || *parsed < least || *parsed > most)
    refuse(value, most >= 1'000'000 ? concat("a whole number of at least ", least)
                                    : concat("a whole number from ", least, " to ", most));
  return *parsed;
}

bool truth(const FlagValue& value) {
  for (const char* yes : {"1", "true", "True", "TRUE", "yes", "on"})
    if (value.text == yes) return true;
  for (const char* no : {"", "0", "false", "False", "FALSE", "no", "off"})
    if (value.text == no) return false;
  refuse(value, "0 or 1");
}

std::chrono::duration<double> seconds(const FlagValue& value) {
  double parsed = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, parsed);
  if (error != std::errc() || stop != end || !std::isfinite(parsed) || parsed < 0 || parsed > 1e9)
    refuse(value, "a number of seconds, 0 or more");
  return std::chrono::duration<double>(parsed);
}

StreamChoice stream_choice(const FlagValue& value) {
  const std::string wanted =
      "0 (none), 1 (stdout), 2 (stderr), 3 (both), or a list such as 0:1,10:3 (local rank:streams)";
  const auto streams = [&](const std::string& text) {
    const auto parsed = base::parse_number(text);
    if (!parsed || *parsed < 0 || *parsed > 3) refuse(value, wanted);
    return static_cast<Streams>(*parsed);
  };
  StreamChoice result;
  if (value.text.ends_with(',')) refuse(value, wanted);
  if (value.text.find(':') == std::string::npos) {
    result.all = streams(value.text);
    return result;
  }
  for (const std::string& part : split(value.text)) {
    const auto colon = part.find(':');
    const auto rank =
        colon == std::string::npos ? std::nullopt : base::parse_number(part.substr(0, colon));
    if (!rank || *rank < 0 || *rank > 1'000'000) refuse(value, wanted);
    result.by_local_rank[static_cast<int>(*rank)] = streams(part.substr(colon + 1));
  }
  return result;
}

std::set<int> rank_set(const FlagValue& value) {
  std::set<int> ranks;
  for (const std::string& part : split(value.text)) {
    const auto rank = base::parse_number(part);
    if (!rank || *rank < 0 || *rank > 1'000'000)
      refuse(value, "a list of local ranks such as 0,1,2");
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

std::vector<std::string> text_list(const FlagValue& value) {
  std::vector<std::string> texts(1);
  for (std::size_t i = 0; i < value.text.size(); ++i) {
    if (value.text[i] != ',') {
      texts.back() += value.text[i];
    } else if (value.text.substr(i + 1, 1) == ",") {
      texts.back() += value.text[i++];
    } else {
      texts.emplace_back();
    }
  }
  return texts;
}

std::map<std::string, std::string> settings(const FlagValue& value) {
  std::map<std::string, std::string> result;
  for (const std::string& part : split(value.text)) {
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      refuse(value, "a list such as timeout=900,read_timeout=60");
    result[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return result;
}

std::vector<int> signal_list(const FlagValue& value) {
  std::vector<int> signals;
  for (const std::string& part : split(value.text)) {
    const auto begin = part.find_first_not_of(' ');
    const auto end = part.find_last_not_of(' ');
    const auto signal = begin == std::string::npos
                            ? std::nullopt
                            : base::signal_number(part.substr(begin, end - begin + 1));
    if (!signal) refuse(value, "a list of signals such as SIGTERM,SIGUSR1");
    signals.push_back(*signal);
  }
  return signals;
}

CpuBinding cpu_binding(const FlagValue& value) {
  if (value.text == "node") return CpuBinding::kNode;
  if (value.text == "socket") return CpuBinding::kSocket;
  if (value.text == "exclusive") return CpuBinding::kExclusive;
  if (value.text == "core-complex") return CpuBinding::kCoreComplex;
  refuse(value, "node, socket, exclusive or core-complex");
}

std::string choice(const FlagValue& value, const std::vector<std::string>& allowed) {
  std::string list;
  for (const std::string& one : allowed) {
    if (one == value.text) return one;
    list += (list.empty() ? "" : ", ") + one;
  }
  refuse(value, "one of " + list);
}

int node_count(const FlagValue& value) {
  const auto colon = value.text.find(':');
  const FlagValue least{value.text.substr(0, colon), value.origin};
  const FlagValue most{colon == std::string::npos ? least.text : value.text.substr(colon + 1),
                       value.origin};
  const auto from = base::parse_number(least.text);
  const auto to = base::parse_number(most.text);
  if (!from || !to || *from < 1 || *to < *from || *to > 1'000'000)
    refuse(value, "a number of nodes, 1 or more", "write --nnodes 2");
  if (*from != *to)
    refuse(value, "supported yet: a job whose number of nodes may change needs dynamic rendezvous",
           concat("give one number, such as --nnodes ", *to));
  return static_cast<int>(*from);
}

std::string worker_count(const FlagValue& value) {
  for (const char* word : {"auto", "cpu", "gpu"})
    if (value.text == word) return value.text;
  const auto count = base::parse_number(value.text);
  if (!count || *count < 1 || *count > 65536)
    refuse(value, "a number of workers from 1 to 65536, auto, cpu or gpu",
           "write --nproc-per-node 2, or auto for one a device");
  return value.text;
}

}  // namespace lockstep::launch
