#include "base/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/file.h"
#include "base/rename.h"
#include "lockstep/error.h"

namespace lockstep::base {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::string content(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST(HostTest, NamesThisProcessForGood) {
  const auto start = process_start_time(this_pid());
  ASSERT_TRUE(start);
  EXPECT_TRUE(process_alive(this_pid(), *start));
  EXPECT_FALSE(process_alive(this_pid(), *start - 1));
  EXPECT_FALSE(process_start_time(999'999'999));
  EXPECT_EQ(boot_id().size(), 36u);
  EXPECT_EQ(boot_id(), boot_id());
  EXPECT_NE(pid_namespace(), "");
  EXPECT_NE(host_name(), "");
}

TEST(HostTest, ListsLoopback) {
  const auto addresses = interface_addresses();
  EXPECT_TRUE(std::ranges::any_of(
      addresses, [](const auto& each) { return each.address.host() == "127.0.0.1"; }));
}

TEST(HostTest, RandomTextsDiffer) {
  EXPECT_EQ(random_hex(8).size(), 16u);
  EXPECT_NE(random_hex(8), random_hex(8));
}

TEST(RenameTest, ANameInUseIsRespected) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "name";
  EXPECT_TRUE(write_if_absent(path, "first"));
  EXPECT_FALSE(write_if_absent(path, "second"));
  EXPECT_EQ(content(path), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_THROW(write_if_absent("/nonexistent/lockstep/name", ""), InternalError);
}

TEST(RenameTest, OnlyTheSameFileIsRemoved) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "name";
  EXPECT_TRUE(write_if_absent(path, "first"));
  const HeldFile first(path);
  fs::remove(path);
  EXPECT_TRUE(write_if_absent(path, "second"));
  first.remove(path);
  EXPECT_TRUE(first.remove_exclusively(path, Deadline::in(1s)));
  EXPECT_EQ(content(path), "second");
  HeldFile(path).remove(path);
  EXPECT_FALSE(fs::exists(path));
  HeldFile(path).remove(path);
}

}  // namespace lockstep::base
