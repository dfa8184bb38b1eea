// What reaches the console, the log files and the failure report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/concat.h"
#include "base/file.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using base::concat;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The one folder of the job below a log folder.
fs::path job_folder(const fs::path& logs) {
  for (const auto& entry : fs::directory_iterator(logs)) return entry.path();
  return {};
}

// Runs the command with a terminal of 40 columns as stdout and stderr; returns what the terminal
// got.
std::string on_terminal(const std::vector<std::string>& arguments) {
  int master = -1;
  int slave = -1;
  winsize size{};
  size.ws_col = 40;
  if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) return "no terminal";
  const base::Fd source(master);
  base::Fd terminal(slave);
  base::Command command;
  command.path = LOCKSTEP_COMMAND;
  command.arguments = {"lockstep", "run"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.environment = base::current_environment();
  command.standard_output = command.standard_error = terminal.get();
  base::Process process = base::spawn(command);
  terminal.reset();
  std::string text;
  char piece[4096];
  for (ssize_t count = 0; (count = ::read(source.get(), piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(count));
  process.reap();
  return text;
}

}  // namespace

TEST(OutputTest, LinesPassUnprefixedAndTheLastOneNeedsNoNewline) {
  const Finished run = run_shell({"-n", "2"}, "echo out $RANK; printf 'err %s' $RANK >&2");
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre("out 0", "out 1"));
  EXPECT_THAT(lines_of(run.err), UnorderedElementsAre("err 0", "err 1"));
}

TEST(OutputTest, Row9D58BlocksOfEightWorkersStayWholeLines) {
  const base::TemporaryFolder folder;
  const std::string script =
      "i=0; while [ $i -lt 200 ]; do echo \"block $RANK line $i of a traceback that is long enough "
      "to be cut\"; i=$((i+1)); done";
  const Finished run = run_shell({"-n", "8", "-t", "1", "--log-dir", folder.path()}, script);
  EXPECT_EQ(run.code, 0);
  const auto lines = lines_of(run.out);
  EXPECT_THAT(lines, SizeIs(8 * 200));
  EXPECT_THAT(lines, Each(MatchesRegex("\\[default([0-7])\\]:block [0-7] line [0-9]+ of a "
                                       "traceback that is long enough to be cut")));
  std::map<std::string, int> next;  // in order within each rank
  for (const std::string& line : lines) {
    const std::string rank = line.substr(8, 1);
    EXPECT_THAT(line, HasSubstr(concat("block ", rank, " line ", next[rank]++, " ")));
  }
  EXPECT_THAT(lines_of(content(job_folder(folder.path()) / "attempt_0/7/stdout.log")), SizeIs(200));
}

TEST(OutputTest, D58TheReportHoldsTheLastLinesOfTheFirstToFail) {
  const base::TemporaryFolder folder;
  const std::string script =
      "i=0; while [ $i -lt 200 ]; do echo \"rank $RANK line $i\" >&2; i=$((i+1)); done; test $RANK "
      "= 3 && exit 9; sleep 100";
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{}, {"-t", "3"}, {"-r", "3"}}) {
    std::vector<std::string> arguments = {
        "-n", "8", "--log-dir",
        folder.path() / concat(flags.size(), flags.empty() ? "" : flags[0])};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = run_shell(arguments, script);
    EXPECT_EQ(run.code, 9);
    const std::string report = run.err.substr(run.err.find("lockstep: rank 3 failed"));
    EXPECT_THAT(report, HasSubstr("its last lines of stderr:\n  | rank 3 line 180\n"));
    EXPECT_THAT(report,
                HasSubstr("  | rank 3 line 199\n  stopped by the launcher: ranks 0-2, 4-7\n"));
    EXPECT_THAT(report, Not(HasSubstr("line 179\n")));
  }
}

TEST(OutputTest, TheLogTreeIsTorchruns) {
  const base::TemporaryFolder folder;
  const Finished run =
      run_shell({"-n", "2", "-r", "0:1,1:2", "--log-dir", folder.path(), "--rdzv-id", "job/7",
                 "--master-port", "29877"},
                "echo out $RANK; echo err $RANK >&2; echo $TORCHELASTIC_ERROR_FILE >&2");
  const fs::path job = job_folder(folder.path());
  EXPECT_THAT(job.filename().string(), MatchesRegex("job_7_[0-9a-f]{8}"));
  EXPECT_EQ(content(job / "attempt_0/0/stdout.log"), "out 0\n");
  EXPECT_EQ(content(job / "attempt_0/1/stderr.log"),
            concat("err 1\n", (job / "attempt_0/1/error.json").string(), "\n"));
  EXPECT_EQ(run.out, "out 1\n");
  EXPECT_THAT(run.err, HasSubstr("err 0\n"));
  EXPECT_FALSE(fs::exists(job / "attempt_0/0/stderr.log"));
}

TEST(OutputTest, Row13AnyLocalRankMayBeChosen) {
  const base::TemporaryFolder folder;
  run_shell({"-n", "11", "-r", "10:1", "--log-dir", folder.path()}, "echo out $RANK");
  EXPECT_EQ(content(job_folder(folder.path()) / "attempt_0/10/stdout.log"), "out 10\n");
}

TEST(OutputTest, PrefixTemplateAndRankFilter) {
  const Finished run =
      run_shell({"-n", "3", "--log-line-prefix-template", "<${role_name} ${local_rank}/${rank}> ",
                 "--local-ranks-filter", "0,2"},
                "echo hello");
  EXPECT_THAT(lines_of(run.out),
              UnorderedElementsAre("<default 0/0> hello", "<default 2/2> hello"));
}

TEST(OutputTest, MatchingLinesAreCopied) {
  const base::TemporaryFolder folder;
  run_shell({"-n", "2", "--duplicate-stdout-filters", "apple,pear", "--log-dir", folder.path()},
            "echo apple $RANK; echo plum; echo a pear");
  EXPECT_THAT(lines_of(content(job_folder(folder.path()) / "attempt_0/filtered_stdout.log")),
              UnorderedElementsAre("apple 0", "a pear", "apple 1", "a pear"));
}

TEST(OutputTest, ALogFolderThatCannotBeMadeIsRefused) {
  const Finished run =
      run_shell({"-n", "2", "-r", "3", "--log-dir", "/proc/nowhere"}, "echo started");
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("/proc/nowhere"));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST(OutputTest, ProgressBarsBecomeOneLineInAFile) {
  EXPECT_EQ(
      run_shell({}, "printf '\\r 10%%'; printf '\\r 55%%'; printf '\\r100%%\\n'; echo done").out,
      "100%\ndone\n");
}

TEST(OutputTest, ProgressBarsAreLiveOnATerminal) {
  const std::string text = on_terminal(
      {"-n", "2", "sh", "-c",
       "test $RANK = 1 && { sleep 0.2; echo other; exit; }; printf '\\r 10%%'; sleep 0.1; "
       "printf '\\r 55%%'; sleep 0.3; printf '\\r100%%\\n'"});
  EXPECT_THAT(text, HasSubstr(" 10%"));
  // Another worker's line erases the bar, which is then drawn again below it.
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kother\r\n 55%"));
  EXPECT_THAT(text, HasSubstr("100%\r\n"));
}

TEST(OutputTest, AloneOnATerminalAProgramHasIt) {
  EXPECT_THAT(on_terminal({"sh", "-c", "test -t 1 && echo yes"}), HasSubstr("yes"));
  EXPECT_THAT(on_terminal({"-n", "2", "sh", "-c", "test -t 1 || echo no"}), HasSubstr("no"));
}

TEST(OutputTest, AReaderThatStopsReadingDoesNotKeepSignalsAway) {
  Launched run({"run", "-n", "2", "--shutdown-timeout", "5", "sh", "-c",
                "echo up >&2; exec yes 'a line of some length'"});
  ASSERT_TRUE(run.wait_for("up", 2));
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish().code, 143);
}

TEST(OutputTest, AClosedConsoleEndsThoseWhoWriteToIt) {
  const Finished run =
      run_shell({}, concat("'", LOCKSTEP_COMMAND, "' run -n 2 yes | head -n 1; echo over"));
  EXPECT_EQ(run.out, "y\nover\n");
}

}  // namespace lockstep::test
