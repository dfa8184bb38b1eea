#include "checkpoint/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

Pickle read(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)),
                     [](std::string_view name) { return name == "torch.Size"; });
}

std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

template <class T>
T round_trip(void (PickleWriter::*write)(T), T value) {
  PickleWriter writer;
  (writer.*write)(value);
  return std::get<T>(read(writer.finish()).root->value);
}

std::string text_round_trip(const std::string& text) {
  PickleWriter writer;
  writer.text(text);
  return std::get<std::string>(read(writer.finish()).root->value);
}

const std::string kHead = "\x80\x02";

}  // namespace

TEST(PickleTest, NumbersKeepTheirBits) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{INT32_MAX}, std::int64_t{INT32_MIN},
        std::int64_t{INT32_MAX} + 1, std::int64_t{INT32_MIN} - 1, Limits::max(), Limits::min()}) {
    EXPECT_EQ(round_trip(&PickleWriter::integer, value), value);
  }
  for (const double value : {0.0, -0.5, 1e308, 5e-324, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(round_trip(&PickleWriter::real, value), value);
  }
  EXPECT_TRUE(round_trip(&PickleWriter::boolean, true));
}

// As CPython's pickle.encode_long writes them.
TEST(PickleTest, LongsOfAnyLength) {
  const auto value = [](const std::string& body) {
    return std::get<std::int64_t>(read(kHead + body + ".").root->value);
  };
  using namespace std::string_literals;
  EXPECT_EQ(value("\x8a\x00"s), 0);
  EXPECT_EQ(value("\x8a\x01\xff"s), -1);
  EXPECT_EQ(value("\x8a\x02\xff\x00"s), 255);
  EXPECT_EQ(value("\x8a\x05\x00\x00\x00\x80\x00"s), std::int64_t{1} << 31);
  EXPECT_THAT(refusal(kHead + "\x8a\x09" + std::string(9, '\1') + "."),
              HasSubstr("more than 64 bits"));
}

TEST(PickleTest, TextIsUtf8) {
  for (const char* text : {"", "fc1.weight", "naïve ✓ 日本 \U0001F600"})
    EXPECT_EQ(text_round_trip(text), text);
  for (const char* text : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x9c"}) {
    EXPECT_THROW(text_round_trip(text), CheckpointError) << text;
  }
}

TEST(PickleTest, GlobalsAreOnTheListOrNamed) {
  EXPECT_EQ(refusal(kHead + "ctorch\nSize\n."), "no error");
  EXPECT_THAT(refusal(kHead + "cos\nsystem\n(X\2\0\0\0lstR."), HasSubstr("'os.system'"));
  EXPECT_THAT(refusal(kHead + "ctorch\nSize"), HasSubstr("ends at byte"));
}

TEST(PickleTest, NothingIsCalled) {
  const auto pickle = read(kHead + "ctorch\nSize\n)R.");
  const auto& call = std::get<PickleNode::Call>(pickle.root->value);
  EXPECT_EQ(describe(*call.function), "torch.Size");
  EXPECT_THAT(refusal(kHead + "))R."), HasSubstr("a tuple is called with a tuple"));
}

TEST(PickleTest, StackFaultsAreErrors) {
  for (const char* body : {".", "t.", "u.", "s.", "a.", "\x86.", "(.", "(N0", "Q.", "R.", "b.", "q",
                           "h\7.", "}(Nu.", "N(Na.", "NNb."}) {
    EXPECT_NE(refusal(kHead + body), "no error") << body;
  }
  EXPECT_THAT(refusal(kHead), HasSubstr("ends at byte 2"));
  EXPECT_THAT(refusal(kHead + "\x93."), HasSubstr("opcode 147"));
}

TEST(PickleTest, AnnouncedLengthsCostNothing) {
  using namespace std::string_literals;
  EXPECT_THAT(refusal(kHead + "X\xff\xff\xff\xff."s), HasSubstr("4294967295 more are announced"));
  EXPECT_THAT(refusal(kHead + "\x8a\xff."), HasSubstr("255 more"));
}

TEST(PickleTest, DeepNestingNeedsNoStack) {
  const std::size_t depth = 1'000'000;
  const auto pickle = read(kHead + std::string(depth, ']') + std::string(depth - 1, 'a') + ".");
  EXPECT_EQ(pickle.nodes.size(), depth);
}

TEST(PickleTest, ObjectsMayContainThemselves) {
  const auto pickle = read(kHead + "]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a.");
  EXPECT_EQ(std::get<PickleNode::List>(pickle.root->value).items[0], pickle.root);
}

}  // namespace lockstep::checkpoint
