#pragma once
#include <functional>
#include <string>

namespace lockstep::test {

/// Registers a body that this test binary runs, instead of its tests, when started as
/// `<binary> --child=<name> [arguments]`. Its return value is the exit status.
/// Processes in tests are made this way, never by fork: libtorch's threads do not survive one.
struct ChildProgram {
  ChildProgram(std::string name, std::function<int(int argc, char** argv)> body);
};

/// Path of the running test binary.
std::string this_binary();

}  // namespace lockstep::test
