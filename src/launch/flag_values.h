#pragma once
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launch/flags.h"
#include "launch/run_options.h"

namespace lockstep::launch {

/// The kinds of values that flags take. Each throws UsageError naming origin, value and what is
/// allowed.
long number(const FlagValue& value, long least, long most);
bool truth(const FlagValue& value);
std::chrono::duration<double> seconds(const FlagValue& value);
StreamChoice stream_choice(const FlagValue& value);
std::set<int> rank_set(const FlagValue& value);
std::vector<std::string> text_list(const FlagValue& value);  ///< commas separate; two stand for one
std::map<std::string, std::string> settings(
    const FlagValue& value);  ///< "timeout=900,read_timeout=60"
std::vector<int> signal_list(const FlagValue& value);
CpuBinding cpu_binding(const FlagValue& value);
std::string choice(const FlagValue& value, const std::vector<std::string>& allowed);
int node_count(const FlagValue& value);
std::string worker_count(const FlagValue& value);

}  // namespace lockstep::launch
