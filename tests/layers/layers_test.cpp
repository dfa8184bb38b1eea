// Who may include whom: ARCHITECTURE.md's table as data, held against every #include of src and
// include.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace lockstep {
namespace fs = std::filesystem;
namespace {

const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

struct Room {
  bool torch;                   ///< may include torch, ATen, c10, caffe2
  std::set<std::string> rooms;  ///< whose headers it may include, beside its own
};

const std::map<std::string, Room> kRooms = {
    {"base", {false, {}}},
    {"rendezvous", {false, {"base"}}},
    {"host", {false, {"base"}}},
    {"launch", {false, {"base", "rendezvous"}}},
    {"doctor", {false, {"base"}}},
    {"data", {true, {"base"}}},
    {"checkpoint", {true, {"base"}}},
    {"comm", {true, {"base", "rendezvous", "host"}}},
    {"comm/backends", {true, {"base", "host", "comm"}}},
    {"ddp", {true, {"base", "comm"}}},
    {"tools", {false, {"base", "doctor", "launch"}}},
};

/// A room's public door is its own header; doors may include doors as rooms include rooms.
const std::map<std::string, std::string> kDoors = {
    {"lockstep/error.h", "base"},
    {"lockstep/version.h", "base"},
    {"lockstep/comm.h", "comm"},
    {"lockstep/ddp.h", "ddp"},
    {"lockstep/checkpoint.h", "checkpoint"},
    {"lockstep/data.h", "data"},
    {"lockstep/distributed_sampler.h", "data"},
};

std::string room_of(const std::string& path) {
  if (const auto door = kDoors.find(path); door != kDoors.end()) return door->second;
  if (path.starts_with("comm/backends/")) return "comm/backends";
  const std::string first = path.substr(0, path.find('/'));
  return kRooms.contains(first) ? first : "";
}

struct Include {
  std::string file;  ///< relative to src or include
  int line;
  std::string target;
};

std::vector<Include> all_includes() {
  std::vector<Include> found;
  const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  for (const char* top : {"src", "include"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      int number = 0;
      for (std::string line; std::getline(file, line);) {
        ++number;
        std::smatch match;
        if (std::regex_search(line, match, pattern))
          found.push_back({fs::relative(entry.path(), kRoot / top).string(), number, match[1]});
      }
    }
  }
  return found;
}

bool is_torch(const std::string& target) {
  for (const char* prefix : {"torch/", "ATen/", "c10/", "caffe2/", "gloo/"})
    if (target.starts_with(prefix)) return true;
  return false;
}

}  // namespace

TEST(LayersTest, EveryRoomIncludesOnlyWhatItMay) {
  const auto includes = all_includes();
  ASSERT_GT(includes.size(), 100u) << "the sources were not found";
  for (const Include& include : includes) {
    if (include.file == "lockstep/lockstep.h") continue;
    const std::string room = room_of(include.file), target = room_of(include.target);
    const std::string place =
        include.file + ":" + std::to_string(include.line) + " includes " + include.target;
    ASSERT_NE(room, "") << include.file << " is in no room";
    const Room& rules = kRooms.at(room);
    if (is_torch(include.target)) {
      EXPECT_TRUE(rules.torch) << place << ": " << room << " sees no torch";
    }
    if (target.empty() || target == room) continue;
    // The one place that names the backends.
    if (include.file == "comm/registry.cpp" && target == "comm/backends") continue;
    EXPECT_TRUE(rules.rooms.contains(target))
        << place << ": " << room << " may not include " << target;
  }
}

TEST(LayersTest, ABackendIsNamedOnlyInTheRegistry) {
  for (const Include& include : all_includes()) {
    if (!include.target.starts_with("comm/backends/") || include.file == "comm/registry.cpp")
      continue;
    const std::string own = include.target.substr(0, include.target.rfind('/'));
    EXPECT_TRUE(include.file.starts_with(own))
        << include.file << ":" << include.line << " names a backend";
  }
}

TEST(LayersTest, OnlyBaseCallsTheSystem) {
  // <unistd.h> (getpid) and <signal.h> (the signals' numbers) are vocabulary.
  for (const Include& include : all_includes()) {
    if (room_of(include.file) == "base") continue;
    const bool system = include.target.starts_with("sys/") ||
                        include.target.starts_with("netinet/") || include.target == "fcntl.h" ||
                        include.target == "poll.h" || include.target == "signal.h";
    EXPECT_FALSE(system) << include.file << ":" << include.line << " includes " << include.target;
  }
}

}  // namespace lockstep
