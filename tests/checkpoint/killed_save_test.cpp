#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "checkpoint/child.h"
#include "checkpoint/samples.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 10'000'000;  // 40 MB

Value numbered(std::int64_t number) {
  return Value::Dict{{"number", number},
                     {"weights", torch::full({kElements}, static_cast<float>(number))}};
}

// Saves numbered states for ever, and reports each number as a byte once its save has returned.
const ChildProgram kSaver("save-for-ever", [](int, char** argv) -> int {
  for (std::int64_t number = std::stoll(argv[2]);; ++number) {
    save(numbered(number), argv[1]);
    if (::write(STDOUT_FILENO, "+", 1) != 1) return 1;
  }
});

}  // namespace

// D67, row #32: a save that is killed, at whatever moment, costs nothing but itself.
TEST(KilledSaveTest, TheNewestCompleteStateLoads) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "state.pth";
  std::mt19937 random(67);
  std::int64_t next = 0;
  for (int kill = 0; kill < LOCKSTEP_KILLS; ++kill) {
    Child saver("save-for-ever", {path.string(), std::to_string(next)});
    std::int64_t saved = next - 1;
    ASSERT_EQ(saver.read(1), "+");
    ++saved;
    // The moment is what the test is about: any, from right after one save to far into the next
    // ones.
    ASSERT_FALSE(saver.ends_within(std::chrono::microseconds(random() % 250'000)));
    EXPECT_EQ(saver.kill().signal(), SIGKILL);
    saved += static_cast<std::int64_t>(saver.read(4096).size());

    const Value state = load_value(path);
    const auto number = state.at("number").integer();
    // One more than reported when the kill came between the rename and the report.
    EXPECT_TRUE(number == saved || number == saved + 1) << number << " instead of " << saved;
    const auto& weights = state.at("weights").tensor();
    EXPECT_EQ(weights.numel(), kElements);
    EXPECT_TRUE((weights == static_cast<float>(number)).all().item<bool>());
    next = number + 1;
  }
  save(numbered(next), path);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1)
      << "leftovers";
}

}  // namespace lockstep::test
