#include "base/file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::base {
namespace fs = std::filesystem;
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST(AtomicFileTest, CommitReplacesWhole) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "state";
  std::ofstream(target) << "old";
  AtomicFile file(target);
  file.write(bytes_of("brand new"));
  EXPECT_EQ(content(target), "old");
  file.commit();
  EXPECT_EQ(content(target), "brand new");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFileTest, UnsyncedAndWithItsMode) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "state";
  AtomicFile file(target, 0600);
  file.write(bytes_of("brand new"));
  file.commit_unsynced();
  EXPECT_EQ(content(target), "brand new");
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFileTest, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "state";
  std::ofstream(target) << "old";
  { AtomicFile(target).write(bytes_of("half")); }
  EXPECT_EQ(content(target), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFileTest, SweepsWhatDeadWritersLeft) {
  const TemporaryFolder folder;
  const fs::path dead = folder.path() / ".state.999999999.abc.tmp";
  const fs::path alive = folder.path() / concat(".state.", ::getpid(), ".abc.tmp");
  std::ofstream(dead) << "torn";
  std::ofstream(alive) << "being written";
  AtomicFile(folder.path() / "state").commit();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
}

TEST(AtomicFileTest, MissingFolderIsAnErrorThatNamesIt) {
  try {
    AtomicFile file("/nonexistent/lockstep/state");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/lockstep"), std::string::npos) << error.what();
  }
}

TEST(ReadFileTest, ReadsAllAndHonoursTheLimit) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  const std::string text(3'000'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(read_file(path).size(), text.size());
  EXPECT_EQ(read_file(path, text.size()).size(), text.size());
  EXPECT_THROW(read_file(path, text.size() - 1), DataError);
  EXPECT_THROW(read_file(folder.path()), DataError);
  EXPECT_THROW(read_file(folder.path() / "none"), DataError);
  EXPECT_GT(read_file("/proc/self/status").size(), 100u);
}

TEST(TemporaryFolderTest, IsPrivateAndRemoved) {
  fs::path path;
  {
    const TemporaryFolder folder;
    path = folder.path();
    EXPECT_EQ(fs::status(path).permissions() & fs::perms::all, fs::perms::owner_all);
    std::ofstream(path / "x") << "y";
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace lockstep::base
