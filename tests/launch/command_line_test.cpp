#include "launch/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "launch/flags.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

RunOptions parse(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  return parse_command_line(Verb::kRun, arguments, base::Env(variables));
}

std::string refusal(const std::vector<std::string>& arguments, const Variables& variables = {},
                    Verb verb = Verb::kRun) {
  try {
    parse_command_line(verb, arguments, base::Env(variables));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST(CommandLineTest, ReadsTheClassicTwoMachineCommand) {
  const RunOptions options =
      parse({"--nproc_per_node", "8", "--nnodes", "2", "--node_rank", "1", "--rdzv_endpoint",
             "10.192.2.1:62111", "train.py", "--epochs", "3"});
  EXPECT_EQ(options.workers, "8");
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.rendezvous_endpoint, "10.192.2.1:62111");
  EXPECT_EQ(options.program, "train.py");
  EXPECT_THAT(options.arguments, ElementsAre("--epochs", "3"));
}

TEST(CommandLineTest, DashesUnderscoresEqualsAndUniqueBeginningsMeanTheSame) {
  for (const auto& form : std::vector<std::vector<std::string>>{{"--max-restarts", "3"},
                                                                {"--max_restarts", "3"},
                                                                {"--max-restarts=3"},
                                                                {"--max_restarts=3"},
                                                                {"--max-r", "3"}}) {
    std::vector<std::string> arguments = form;
    arguments.push_back("prog");
    EXPECT_EQ(parse(arguments).max_restarts, 3) << form.front();
  }
  EXPECT_EQ(parse({"-n4", "prog"}).workers, "4");
  EXPECT_THAT(refusal({"--log", "x", "prog"}),
              HasSubstr("may mean --log-dir, --log-line-prefix-template"));
}

TEST(CommandLineTest, D61ProgramArgumentsPassExactly) {
  const RunOptions options = parse(
      {"-n", "2", "prog", "--nnodes", "9", "--local-rank", "x", "--", "-y", "${local_rank}", ""});
  EXPECT_EQ(options.nodes, 1);
  EXPECT_THAT(options.arguments,
              ElementsAre("--nnodes", "9", "--local-rank", "x", "--", "-y", "${local_rank}", ""));
  EXPECT_EQ(parse({"--", "prog", "-n"}).program, "prog");
  EXPECT_EQ(parse({"-", "x"}).program, "-");
}

TEST(CommandLineTest, EveryFlagIsReadFromItsVariableAndTheCommandLineWins) {
  const Variables variables = {{"PET_NPROC_PER_NODE", "3"},
                               {"PET_MODULE", "1"},
                               {"PET_STANDALONE", "0"},
                               {"PET_MAX_RESTARTS", "2"},
                               {"PET_ROLE", ""}};
  const RunOptions options = parse({"--max-restarts", "5", "prog"}, variables);
  EXPECT_EQ(options.workers, "3");
  EXPECT_TRUE(options.module);
  EXPECT_FALSE(options.standalone);
  EXPECT_EQ(options.max_restarts, 5);
  EXPECT_EQ(options.role, "default");
  EXPECT_THAT(refusal({"prog"}, {{"PET_MAX_RESTARTS", "many"}}),
              HasSubstr("PET_MAX_RESTARTS 'many'"));
}

TEST(CommandLineTest, StreamsAreChosenForAnyLocalRank) {
  const RunOptions options = parse({"-r", "3", "-t", "10:1,2:3", "prog"});
  EXPECT_TRUE(options.redirects.includes(7, Streams::kErr));
  EXPECT_TRUE(options.tee.includes(10, Streams::kOut));
  EXPECT_FALSE(options.tee.includes(10, Streams::kErr));
  EXPECT_TRUE(options.tee.includes(2, Streams::kErr));
  EXPECT_FALSE(options.tee.includes(0, Streams::kOut));
  for (const char* wrong : {"4", "x", "1:", ":1", "1:4", "0:1,", "-1:2"})
    EXPECT_THAT(refusal({"-r", wrong, "prog"}), HasSubstr("0:1,10:3")) << wrong;
}

TEST(CommandLineTest, ValuesOfEveryKind) {
  const RunOptions options =
      parse({"--duplicate-stdout-filters", "a,b,,c", "--signals-to-handle", "SIGTERM, USR1",
             "--shutdown-timeout", "0.5", "--rdzv-conf", "timeout=7,read_timeout=8",
             "--local-ranks-filter", "0,12", "--numa-binding", "core-complex", "prog"});
  EXPECT_THAT(options.stdout_filters, ElementsAre("a", "b,c"));
  EXPECT_THAT(options.handled_signals, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_DOUBLE_EQ(options.grace.count(), 0.5);
  EXPECT_EQ(options.rendezvous_settings.at("timeout"), "7");
  EXPECT_THAT(options.shown_local_ranks, ElementsAre(0, 12));
  EXPECT_EQ(options.cpu_binding, CpuBinding::kCoreComplex);
}

TEST(CommandLineTest, TheGraceComesFromTorchrunsVariableUnlessGiven) {
  EXPECT_DOUBLE_EQ(parse({"prog"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "12"}}).grace.count(), 12);
  EXPECT_DOUBLE_EQ(
      parse({"--shutdown-timeout", "3", "prog"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "12"}})
          .grace.count(),
      3);
}

TEST(CommandLineTest, BadInputIsRefusedWithTheRemedy) {
  for (const char* count : {"0", "-1", "two", "1.5", "", "99999999999999999999"})
    EXPECT_THAT(refusal({"--nproc-per-node", count, "prog"}), HasSubstr("number of workers"))
        << count;
  EXPECT_THAT(refusal({"-n", "2"}), HasSubstr("no program to run"));
  EXPECT_THAT(refusal({"--nproc-per-nodes", "2", "prog"}),
              HasSubstr("did you mean --nproc-per-node?"));
  EXPECT_THAT(refusal({"--banana", "prog"}), HasSubstr("lockstep run --help"));
  EXPECT_THAT(refusal({"--role"}), HasSubstr("--role needs a value: NAME"));
  EXPECT_THAT(refusal({"--module=1", "prog"}), HasSubstr("--module takes no value"));
  EXPECT_THAT(refusal({"--module", "--no-python", "prog"}), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal({"--nnodes", "1:4", "prog"}), HasSubstr("such as --nnodes 4"));
  EXPECT_THAT(refusal({"--nnodes", "0", "prog"}), HasSubstr("--nnodes '0'"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--node-rank", "2", "prog"}),
              HasSubstr("outside of --nnodes 2"));
  EXPECT_THAT(refusal({"--rdzv-backend", "etcd", "prog"}), HasSubstr("static, c10d"));
  EXPECT_THAT(refusal({"--shutdown-timeout", "-1", "prog"}), HasSubstr("seconds"));
  EXPECT_THAT(refusal({"--signals-to-handle", "SIGNOPE", "prog"}), HasSubstr("SIGTERM,SIGUSR1"));
  EXPECT_THAT(refusal({"--master-port", "70000", "prog"}), HasSubstr("from 1 to 65535"));
}

TEST(CommandLineTest, TheLegacyLauncherAddsTheLocalRankUnlessToldNotTo) {
  EXPECT_TRUE(parse_command_line(Verb::kLaunch, {"prog"}, base::Env({})).legacy_local_rank);
  EXPECT_FALSE(
      parse_command_line(Verb::kLaunch, {"--use_env", "prog"}, base::Env({})).legacy_local_rank);
  EXPECT_FALSE(parse({"--use-env", "prog"}).legacy_local_rank);
  EXPECT_THAT(refusal({"--no-python", "prog"}, {}, Verb::kLaunch), HasSubstr("--use-env"));
}

TEST(CommandLineTest, HelpCompletionsAndDocsNameEveryFlag) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/launch.md");
  const std::string docs{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(docs, HasSubstr(flags_as_markdown())) << "docs/launch.md must hold this table";
  for (const Flag& flag : flags()) {
    const std::string name = std::string("--") + flag.name;
    EXPECT_THAT(help_text(Verb::kRun), HasSubstr(name));
    for (const char* shell : {"bash", "zsh", "tcsh"})
      EXPECT_THAT(completion_script(shell), HasSubstr(name)) << shell;
  }
}

}  // namespace lockstep::launch
