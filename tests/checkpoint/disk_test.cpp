#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/concat.h"
#include "base/file.h"
#include "checkpoint/child.h"
#include "checkpoint/samples.h"
#include "support/reexec.h"

/// Disks that are full, read-only or limited. Each case runs in a process of its own, since it
/// changes what that process sees.
namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using base::concat;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void require_text(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, concat("'", part, "' is not in: ", text));
}

at::Tensor megabytes(int count) { return torch::ones(count * 250'000); }

// A small file system on `folder` that this process alone sees; false where that is not allowed.
bool mount_small(const fs::path& folder, const char* options) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("lockstep-test", folder.c_str(), "tmpfs", 0, options) == 0;
}

std::string refusal(const Value& value, const fs::path& path) {
  try {
    save(value, path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

void require_untouched(const fs::path& path, const std::vector<std::byte>& before) {
  require(base::read_file(path) == before, "the old file has changed");
  const auto files =
      std::distance(fs::directory_iterator(path.parent_path()), fs::directory_iterator());
  require(files == 1, concat(files, " files instead of one"));
}

// Row #31, D68: 100 saves that do not fit, then one that does.
const ChildProgram kFullDisk("full-disk", [](int, char** argv) {
  const fs::path folder = argv[1];
  if (!mount_small(folder, "size=12m")) return kSkipped;
  const fs::path path = folder / "state.pth";
  save(megabytes(4), path);
  const auto before = base::read_file(path);
  const Value large(megabytes(16));
  for (int time = 0; time < 100; ++time) {
    const std::string text = refusal(large, path);
    require_text(text, path.string());
    require_text(text, "No space left on device");
    require_text(text, "it needs 1600");
    require_text(text, "are free there");
    require_untouched(path, before);
  }
  require(load_value(path).tensor().numel() == 1'000'000, "the old file does not load");
  save(megabytes(5), path);
  require(load_value(path).tensor().numel() == 1'250'000, "the new file does not load");
  return 0;
});

const ChildProgram kReadOnly("read-only-disk", [](int, char** argv) {
  const fs::path folder = argv[1];
  if (!mount_small(folder, "size=12m")) return kSkipped;
  const fs::path path = folder / "state.pth";
  save(megabytes(1), path);
  const auto before = base::read_file(path);
  require(::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0,
          "cannot remount");
  const std::string text = refusal(megabytes(1), path);
  require_text(text, path.string());
  require_text(text, "Read-only file system");
  require_untouched(path, before);
  return 0;
});

const ChildProgram kForbidden("forbidden-folder", [](int, char** argv) {
  constexpr uid_t kNobody = 65534;
  const fs::path folder = argv[1];
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec |
                              fs::perms::others_read);
  if (::geteuid() == 0)
    require(::setresuid(kNobody, kNobody, kNobody) == 0, "cannot become nobody");
  const std::string text = refusal(megabytes(1), folder / "state.pth");
  require_text(text, (folder / "state.pth").string());
  require_text(text, "Permission denied");
  require_text(text, "check owner and permissions");
  return 0;
});

// A write that fails in the middle of the file, without a special file system.
const ChildProgram kLimited("limited-file-size", [](int, char** argv) {
  const fs::path path = fs::path(argv[1]) / "state.pth";
  save(megabytes(1), path);
  const auto before = base::read_file(path);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 2'000'000, .rlim_max = 2'000'000};
  require(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "cannot set the limit");
  const std::string text =
      refusal(Value::Dict{{"a", megabytes(1)}, {"b", megabytes(1)}, {"c", megabytes(1)}}, path);
  require_text(text, "File too large");
  require_untouched(path, before);
  return 0;
});

}  // namespace

class DiskTest : public testing::TestWithParam<const char*> {};

TEST_P(DiskTest, AnErrorAndTheOldFile) {
  const base::TemporaryFolder folder;
  const auto status = run_child(GetParam(), {folder.path().string()}, std::chrono::seconds(60));
  if (status.code() == kSkipped)
    GTEST_SKIP() << "this machine does not let the test mount a file system";
  EXPECT_TRUE(status.success()) << status.text();
}

INSTANTIATE_TEST_SUITE_P(All, DiskTest,
                         testing::Values("full-disk", "read-only-disk", "forbidden-folder",
                                         "limited-file-size"));

}  // namespace lockstep::test
