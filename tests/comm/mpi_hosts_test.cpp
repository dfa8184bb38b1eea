// mpirun over two hosts, with nothing but its own connection between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "comm/mpirun.h"
#include "launch/two_hosts.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += word + " ";
  return text;
}

/// What mpirun calls in ssh's place: `SCRIPT [OPTIONS] ADDRESS COMMAND...`. Both MPIs tell hosts
/// apart by their names.
std::filesystem::path write_remote_shell(const TwoHosts& hosts,
                                         const std::filesystem::path& folder) {
  const auto path = folder / "remote_shell";
  std::ofstream script(path);
  script << "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\ncase $1 in\n";
  for (const int host : {0, 1})
    script << TwoHosts::address(host) << ") name=node" << host << "; there=\""
           << words(hosts.on(host)) << "\" ;;\n";
  script << "esac\nshift\nexec $there unshare --uts sh -c \"hostname $name; $*\"\n";
  script.close();
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace

class MpiHostsTest : public testing::TestWithParam<MpiLauncher> {};
INSTANTIATE_TEST_SUITE_P(Launchers, MpiHostsTest, testing::ValuesIn(mpi_launchers()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MpiHostsTest, RanksOfTwoHostsMeetWithoutAnAddress) {
  const MpiLauncher& launcher = GetParam();
  if (launcher.program.empty()) GTEST_SKIP() << "no mpirun and module of " << launcher.name;
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  const base::TemporaryFolder folder;
  const std::string shell = write_remote_shell(hosts, folder.path()).string();
  const std::string both = TwoHosts::address(0) + "," + TwoHosts::address(1);
  const std::vector<std::string> options =
      launcher.name == "OpenMpi"
          ? std::vector<std::string>{"--mca", "plm_rsh_agent", shell, "-H", both}
          : std::vector<std::string>{"-launcher", "ssh", "-launcher-exec", shell, "-hosts", both};
  // mpirun itself runs on the first host.
  std::vector<std::string> first = hosts.on(0);
  first.insert(first.end(), {"unshare", "--uts", "sh", "-c", "hostname node0; exec \"$@\"", "sh"});
  const Finished end = mpirun(launcher, 2, "meeting", {}, {}, options, first)
                           .finish(base::Deadline::in(std::chrono::seconds(60)));
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("rank 0 is done on 1 of 2 hosts"));
  EXPECT_THAT(end.out, HasSubstr("rank 1 is done on 2 of 2 hosts"));
}

}  // namespace lockstep::test
