// Groups over several hosts: shared memory inside each, Gloo between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "base/concat.h"
#include "base/env.h"
#include "comm/conformance.h"
#include "launch/launched.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::HasSubstr;

/// Takes part as one of `hosts`, given as a letter for each rank: "aab" is two ranks on one host
/// and one on another.
Group join_as_host(const std::string& hosts) {
  const auto rank = static_cast<std::size_t>(place().rank);
  ::setenv("LOCKSTEP_HOST_ID", std::string(1, hosts.at(rank)).c_str(), 1);
  ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  return init_process_group({.timeout = std::chrono::seconds(20)});
}

Finished run_on_hosts(const std::string& child, const std::string& hosts) {
  Launched run(
      {"run", "-n", std::to_string(hosts.size()), this_binary(), "--child=" + child, hosts},
      {{"OMP_NUM_THREADS", "1"}});
  return run.finish(base::Deadline::in(std::chrono::seconds(50)));
}

const ChildProgram conformance("conformance-over-hosts", [](int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Group world = join_as_host(argv[1]);
  for (const ConformanceCase& one : conformance_cases()) {
    one.check(world);
    world.barrier();
  }
  std::printf("%s on %s\n", testing::Test::HasFailure() ? "failed" : "all passed",
              world.backend().c_str());
  destroy_process_group();
  return testing::Test::HasFailure() ? 1 : 0;
});

const ChildProgram unlike("unlike-calls-over-hosts", [](int, char** argv) {
  Group world = join_as_host(argv[1]);
  torch::Tensor tensor = torch::ones({world.rank() == world.size() - 1 ? 7 : 5});
  try {
    world.all_reduce(tensor);
  } catch (const MismatchError& error) {
    std::printf("told: %s\n", error.what());
  }
  world.barrier();
  destroy_process_group();
  return 0;
});

}  // namespace

class HostsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Layouts, HostsTest, testing::Values("aabb", "aaab", "abab", "aabc", "ab"));

TEST_P(HostsTest, EveryConformanceCase) {
  const std::string hosts = GetParam();
  const Finished run = run_on_hosts("conformance-over-hosts", hosts);
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out,
              HasSubstr(hosts == "ab" ? "all passed on gloo" : "all passed on hierarchical"));
}

TEST_P(HostsTest, UnlikeCallsAreToldOnEveryHost) {
  const std::string hosts = GetParam();
  const Finished run = run_on_hosts("unlike-calls-over-hosts", hosts);
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  std::size_t told = 0;
  for (const std::string& line : lines_of(run.out))
    if (line.find("told: ") != std::string::npos &&
        line.find("rank 0 called all_reduce(sum, float32[5]) at") != std::string::npos &&
        line.find(concat("rank ", hosts.size() - 1, " called all_reduce(sum, float32[7]) at")) !=
            std::string::npos)
      ++told;
  EXPECT_EQ(told, hosts.size()) << run.out;
}

}  // namespace lockstep::test
