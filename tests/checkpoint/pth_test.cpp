#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Value round_trip(const Value& value) {
  const base::TemporaryFolder folder;
  save(value, folder.path() / "value.pth");
  return load_value(folder.path() / "value.pth");
}

void write(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

bool same_state(const StateDict& left, const StateDict& right) {
  if (left.keys() != right.keys()) return false;
  for (const auto& item : left) {
    if (!same(item.value(), right[item.key()])) return false;
  }
  return true;
}

}  // namespace

TEST(PthTest, EveryDtype) {
  EXPECT_TRUE(same_state(round_trip(every_dtype()).state_dict(), every_dtype()));
}

TEST(PthTest, ViewsShareStorages) {
  const StateDict found = round_trip(views()).state_dict();
  EXPECT_TRUE(same_state(found, views().state_dict()));
  EXPECT_EQ(found["transposed"].const_data_ptr(), found["base"].const_data_ptr());
  EXPECT_EQ(found["row"].strides(), (std::vector<std::int64_t>{0, 1}));
  found["base"][2][3] = 99;
  EXPECT_EQ(found["scalar"].item<float>(), 99);
}

TEST(PthTest, TreesKeepTheirTypes) {
  const Value value = round_trip(Value::Dict{
      {"none", Value()},
      {"bool", true},
      {"int", -7},
      {"big", std::int64_t{1} << 60},
      {"float", 0.1},
      {"text", "naïve ✓"},
      {"list", Value::List{1, 2.5, "three", Value::List{}}},
      {"tuple", Value::Tuple{{1, Value::Tuple{}}}},
      {12, Value::Dict{}},
  });
  EXPECT_TRUE(value.at("none").is_none());
  EXPECT_TRUE(value.at("bool").boolean());
  EXPECT_EQ(value.at("int").integer(), -7);
  EXPECT_EQ(value.at("big").integer(), std::int64_t{1} << 60);
  EXPECT_EQ(value.at("float").real(), 0.1);
  EXPECT_EQ(value.at("text").text(), "naïve ✓");
  EXPECT_EQ(value.at("list").items()[2].text(), "three");
  EXPECT_TRUE(std::holds_alternative<Value::Tuple>(value.at("tuple").data()));
  EXPECT_TRUE(value.at(12).dict().items.empty());
}

TEST(PthTest, NamesMayHoldAnything) {
  StateDict state;
  for (const char* name : {"a.b.c", "", "π/weight", "with space", "it's"})
    state.insert(name, torch::ones(2));
  EXPECT_TRUE(same_state(round_trip(state).state_dict(), state));
}

TEST(PthTest, WrongKindsAreNamed) {
  const Value value = Value::Dict{{"epoch", 3}, {"lr", 0.1}};
  EXPECT_THAT(refusal([&] { value.at("epoch").text(); }), HasSubstr("is an int, not a str"));
  EXPECT_THAT(refusal([&] { value.at("model"); }), HasSubstr("no 'model'; it has 'epoch', 'lr'"));
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.pth";
  save(value, path);
  const std::string text = refusal([&] { load(path); });
  EXPECT_THAT(text, HasSubstr(path.string()));
  EXPECT_THAT(text, HasSubstr("its entry 'epoch' is an int"));
}

// D69: what cannot be saved is found before the old file is touched.
TEST(PthTest, AnObjectThatCannotBeSavedLeavesTheOldFile) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "state.pth";
  save(Value(torch::ones(1000)), path);
  const auto before = base::read_file(path);
  const auto good = torch::ones(100'000);
  const std::pair<Value, const char*> bad[] = {
      {at::Tensor(), "undefined tensor"},
      {torch::ones({2, 2}).to_sparse(), "convert it to a dense tensor"},
      {torch::ones(2, at::TensorOptions(at::kMeta)), "convert it to a dense tensor"},
      {std::string("\xff"), "UTF-8"},
  };
  for (const auto& [value, text] : bad) {
    const std::string error = refusal([&] {
      save(Value::Dict{{"good", good}, {"list", Value::List{good, value}}}, path);
    });
    EXPECT_THAT(error, HasSubstr(text));
    EXPECT_THAT(error, HasSubstr(path.string()));
    EXPECT_EQ(base::read_file(path), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  }
}

// Row #33: of 300 random one-bit flips none may change a tensor silently.
TEST(PthTest, FlippedBitsAreNeverSilent) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "state.pth";
  StateDict state;
  state.insert("weight", torch::arange(3000, torch::kFloat));
  state.insert("bias", torch::arange(100, torch::kDouble));
  state.insert("count", torch::tensor(7));
  save(state, path);
  const auto good = base::read_file(path);
  std::mt19937 random(33);
  int refused = 0;
  const auto try_flip = [&](std::size_t byte, unsigned bit) {
    auto bytes = good;
    bytes[byte] ^= std::byte{1} << bit;
    write(path, bytes);
    try {
      EXPECT_TRUE(same_state(load(path), state)) << "byte " << byte << " bit " << bit;
    } catch (const CheckpointError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  };
  for (int round = 0; round < 300; ++round) try_flip(random() % good.size(), random() % 8);
  EXPECT_GT(refused, 250);
  // The structure around the data is small, and every bit of it is tried.
  for (std::size_t byte = good.size() - 900; byte < good.size(); ++byte)
    try_flip(byte, random() % 8);
}

// Row #34: cut anywhere, one kind of error that names the file.
TEST(PthTest, TruncationIsOneKindOfError) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "state.pth";
  save(state_dict(*network()), path);
  const auto good = base::read_file(path);
  for (std::size_t size = 0; size < good.size(); size += size < good.size() - 200 ? 37 : 1) {
    write(path, std::span(good).first(size));
    EXPECT_THAT(refusal([&] { load(path); }), HasSubstr(path.string())) << size;
  }
}

TEST(PthTest, OtherFilesAreRefusedInWords) {
  const base::TemporaryFolder folder;
  const auto say = [&](const std::string& content) {
    write(folder.path() / "x", std::as_bytes(std::span(content)));
    return refusal([&] { load(folder.path() / "x"); });
  };
  EXPECT_THAT(say(""), HasSubstr("empty"));
  EXPECT_THAT(say("hello, world"), HasSubstr("does not begin as a file of torch.save"));
  EXPECT_THAT(say("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(say(std::string(257, '\0') + "ustar"), HasSubstr("tar"));
  EXPECT_THAT(refusal([&] { load(folder.path() / "none"); }), HasSubstr("No such file"));
  EXPECT_THAT(refusal([&] { load(folder.path()); }), HasSubstr("not a regular file"));
}

}  // namespace lockstep::test
