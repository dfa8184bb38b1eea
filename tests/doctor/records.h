#pragma once
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/concat.h"

namespace lockstep::doctor::test {

/// One collective of group "world" as a record has it.
inline nlohmann::json call(int rank, int sequence, const std::string& op, const std::string& state,
                           int line = 30) {
  return {{"rank", rank},
          {"group", "world"},
          {"sequence", sequence},
          {"op", op},
          {"reduce_op", ""},
          {"dtype", "float32"},
          {"dims", {4}},
          {"root", -1},
          {"tag", ""},
          {"file", "train.cpp"},
          {"line", line},
          {"state", state},
          {"begin_ns", 1'000'000'000},
          {"end_ns", state == "waiting" ? 0 : 2'000'000'000}};
}

/// The record that `rank` of three, all on one host, wrote when call 2 failed; without calls.
inline nlohmann::json record(int rank) {
  nlohmann::json members = nlohmann::json::array();
  for (int member = 0; member < 3; ++member)
    members.push_back({{"rank", member},
                       {"host", "n1"},
                       {"pid", 100 + member},
                       {"state", "asleep"},
                       {"gone", ""}});
  return {{"version", 1},
          {"job", "j1"},
          {"attempt", 0},
          {"rank", rank},
          {"world_size", 3},
          {"host", "n1"},
          {"pid", 100 + rank},
          {"backend", "shm"},
          {"error",
           {{"kind", "TimeoutError"},
            {"text", "late"},
            {"op", "all_reduce"},
            {"sequence", 2},
            {"group", "world"},
            {"members", {0, 1, 2}}}},
          {"written_ns", 3'000'000'000},
          {"members", members},
          {"calls", nlohmann::json::array()}};
}

inline std::string write(const std::filesystem::path& folder, const std::string& name,
                         const std::string& text) {
  const std::filesystem::path path = folder / name;
  std::ofstream(path) << text;
  return path.string();
}

inline std::string write(const std::filesystem::path& folder, const nlohmann::json& record) {
  return write(folder, base::concat("rank", record.at("rank").get<int>(), ".json"), record.dump());
}

}  // namespace lockstep::doctor::test
