#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>

#include "support/reexec.h"

namespace lockstep::test {
namespace {

std::map<std::string, std::function<int(int, char**)>>& children() {
  static std::map<std::string, std::function<int(int, char**)>> registered;
  return registered;
}

int run_child(const std::string& name, int argc, char** argv) {
  const auto child = children().find(name);
  if (child == children().end())
    return std::fprintf(stderr, "no child program '%s'\n", name.c_str()), 127;
  try {
    return child->second(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

ChildProgram::ChildProgram(std::string name, std::function<int(int, char**)> body) {
  children().emplace(std::move(name), std::move(body));
}

std::string this_binary() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace lockstep::test

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.starts_with("--child="))
    return lockstep::test::run_child(first.substr(8), argc - 1, argv + 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
