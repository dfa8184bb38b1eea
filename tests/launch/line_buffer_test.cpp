#include "launch/line_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/line_prefix.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines_of_pieces(const std::vector<std::string>& pieces) {
  LineBuffer buffer;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) buffer.append(piece, keep);
  buffer.finish(keep);
  return lines;
}

}  // namespace

TEST(LineBufferTest, CutsWholeLinesHoweverTheBytesArrive) {
  EXPECT_THAT(lines_of_pieces({"one\ntw", "o\n", "\nlast"}), ElementsAre("one", "two", "", "last"));
  EXPECT_THAT(lines_of_pieces({"crlf\r\nnext\n"}), ElementsAre("crlf", "next"));
}

TEST(LineBufferTest, AReturnStartsTheLineAnew) {
  EXPECT_THAT(lines_of_pieces({"10%\r20%\r", "100%\ndone\n"}), ElementsAre("100%", "done"));
  EXPECT_THAT(lines_of_pieces({"\r 10%", "\r 20%"}), ElementsAre(" 20%"));
}

TEST(LineBufferTest, TheUnfinishedLineIsWhatATerminalShows) {
  LineBuffer buffer;
  const auto ignore = [](std::string_view) {};
  buffer.append("\r 10%", ignore);
  EXPECT_EQ(buffer.unfinished(), " 10%");
  buffer.append("\r 20%\r", ignore);
  EXPECT_EQ(buffer.unfinished(), " 20%");
  buffer.append("\nPassword: ", ignore);
  EXPECT_EQ(buffer.unfinished(), "Password: ");
}

TEST(LineBufferTest, EndlessLinesAreCut) {
  const auto lines = lines_of_pieces({std::string(2 * LineBuffer::kLongest + 5, 'x')});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), LineBuffer::kLongest);
  EXPECT_EQ(lines[2].size(), 5u);
}

TEST(TailTest, KeepsTheLastLines) {
  Tail tail;
  for (int i = 0; i < 25; ++i) tail.add(std::to_string(i));
  EXPECT_EQ(tail.lines().size(), Tail::kLines);
  EXPECT_EQ(tail.lines().front(), "5");
  EXPECT_EQ(tail.lines().back(), "24");
}

TEST(LinePrefixTest, ExpandsAsPythonsTemplateDoes) {
  const std::map<std::string, std::string> values = {{"rank", "3"}, {"hostname", "n1"}};
  EXPECT_EQ(expand_template("${hostname}:${rank}: ", values), "n1:3: ");
  EXPECT_EQ(expand_template("$rank/$other/${other}/$$/${rank", values),
            "3/$other/${other}/$/${rank");
}

}  // namespace lockstep::launch
