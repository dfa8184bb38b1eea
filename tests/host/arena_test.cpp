#include "host/arena.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "host/table.h"
#include "lockstep/error.h"

namespace lockstep::host {
namespace {

using testing::HasSubstr;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

}  // namespace

TEST(ArenaTest, PiecesDoNotOverlapAndComeBackWhole) {
  const auto segment = Segment::create(2, "test");
  Arena arena(segment, 1);
  std::mt19937 random(1);
  struct Piece {
    Place place;
    std::size_t bytes;
    unsigned char fill;
  };
  std::vector<Piece> pieces;
  for (int step = 0; step < 4000; ++step) {
    if (pieces.size() < 40 && random() % 2 == 0) {
      const std::size_t bytes = random() % 3 == 0 ? random() % 3000000 : random() % 5000;
      const Piece piece{arena.allocate(bytes), bytes, static_cast<unsigned char>(random())};
      ASSERT_EQ(piece.place % 128, 0u);
      ASSERT_GE(piece.place, segment->arena_begin(1));
      ASSERT_LE(piece.place + bytes, segment->arena_end(1));
      std::memset(segment->at(piece.place), piece.fill, bytes);
      pieces.push_back(piece);
    } else if (!pieces.empty()) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const Piece piece = pieces.back();
      const std::string expected(piece.bytes, static_cast<char>(piece.fill));
      ASSERT_EQ(std::memcmp(segment->at(piece.place), expected.data(), piece.bytes), 0);
      arena.free(piece.place);
      pieces.pop_back();
    }
  }
  for (const Piece& piece : pieces) arena.free(piece.place);
  EXPECT_EQ(arena.in_use(), 0u);
  // All of it is one hole again.
  const std::size_t half = (segment->arena_end(1) - segment->arena_begin(1)) / 2;
  EXPECT_THROW(arena.allocate(2 * half), InternalError);
}

TEST(ArenaTest, WhatDoesNotFitIsAnErrorThatNamesTheBytes) {
  const auto segment = Segment::create(1, "test");
  Arena arena(segment, 0);
  try {
    arena.allocate(std::size_t{1} << 50);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1125899906842624 bytes"));
  }
}

TEST(TableTest, IsGivenBackWhenTheLastMemberLetsGo) {
  const auto segment = Segment::create(2, "test");
  const auto arena = std::make_shared<Arena>(segment, 0);
  const std::size_t before = arena->in_use();
  const Place place = Table::create(arena, 2);
  auto first = std::make_unique<Table>(segment, place, 0, 2);
  auto second = std::make_unique<Table>(segment, place, 1, 2);
  std::memset(second->stage(1), 1, Table::kStageBytes);
  first.reset();
  EXPECT_GT(arena->in_use(), before);
  second.reset();
  EXPECT_EQ(arena->in_use(), before);
}

TEST(SegmentTest, AnotherMappingSeesTheSameBytes) {
  const auto made = Segment::create(2, "one");
  const auto opened = Segment::open(made->path(), 2, "one");
  Arena arena(made, 0);
  const Place place = arena.allocate(100);
  std::strcpy(reinterpret_cast<char*>(made->at(place)), "seen");
  EXPECT_STREQ(reinterpret_cast<char*>(opened->at(place)), "seen");
  EXPECT_TRUE(opened->holds(opened->at(place), 100));
  EXPECT_FALSE(opened->holds(made->at(place), 100));
  EXPECT_EQ(opened->place_of(opened->at(place)), place);
}

TEST(SegmentTest, AStrangersIsRefused) {
  const auto made = Segment::create(2, "one");
  EXPECT_THROW(Segment::open(made->path(), 2, "two"), InternalError);
  EXPECT_THROW(Segment::open(made->path(), 3, "one"), InternalError);
  EXPECT_THROW(Segment::open("/proc/self/fd/9999", 2, "one"), InternalError);
}

TEST(SegmentTest, AFileIsPrivateAndGoesWhenAllHaveIt) {
  const base::TemporaryFolder folder;
  {
    const auto made = Segment::create(2, "one", folder.path().string());
    EXPECT_EQ(std::filesystem::status(made->path()).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const auto opened = Segment::open(made->path(), 2, "one");
    made->remove_name();
    EXPECT_FALSE(std::filesystem::exists(made->path()));
  }
  // Without that call too.
  Segment::create(2, "one", folder.path().string());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SegmentTest, NothingIsLeaked) {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) {
    const auto made = Segment::create(4, "one");
    Segment::open(made->path(), 4, "one");
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace lockstep::host
