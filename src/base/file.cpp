#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>

#include "base/concat.h"
#include "base/env.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace fs = std::filesystem;
namespace {

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Removes what a killed writer of the same target left behind: .<name>.<pid>.<random>.tmp
void sweep(const fs::path& target) {
  const std::string head = "." + target.filename().string() + ".";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(target), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(head) || !name.ends_with(".tmp")) continue;
    const std::string pid = name.substr(head.size(), name.find('.', head.size()) - head.size());
    const auto owner = parse_number(pid);
    if (!owner || *owner <= 0) continue;
    if (::kill(static_cast<pid_t>(*owner), 0) == 0 || errno != ESRCH) continue;
    fs::remove(entry.path(), ignored);
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path target, unsigned mode) : target_(std::move(target)) {
  sweep(target_);
  std::random_device random;
  temporary_ = folder_of(target_) / concat(".", target_.filename().string(), ".", ::getpid(), ".",
                                           std::hex, random(), ".tmp");
  fd_ = Fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd_) throw os_error(concat("cannot create a file in ", folder_of(target_)));
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw os_error(concat("cannot write ", target_, " at offset ", written_));
    written_ += static_cast<std::size_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) throw os_error(concat("cannot sync ", target_));
  commit_unsynced();
  // The rename is durable once the folder is; a file system that cannot sync folders has nothing to
  // sync.
  const Fd folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && ::fsync(folder.get()) != 0 && errno != EINVAL)
    throw os_error(concat("cannot sync the folder of ", target_));
}

void AtomicFile::commit_unsynced() {
  fd_.reset();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    throw os_error(concat("cannot replace ", target_));
  temporary_.clear();
}

std::vector<std::byte> read_file(const fs::path& path, std::size_t limit) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd)
    throw DataError(concat("cannot open ", path, ": ", errno_text(errno)),
                    "check the path and its permissions");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw os_error(concat("cannot stat ", path));
  if (S_ISDIR(info.st_mode)) throw DataError(concat(path, " is a folder, not a file"));
  std::vector<std::byte> bytes;
  bytes.reserve(std::min<std::size_t>(static_cast<std::size_t>(info.st_size) + 1, limit));
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  for (;;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + std::max<std::size_t>(bytes.capacity() - had, had == 0 ? 4096 : kChunk));
    const auto count = ::read(fd.get(), bytes.data() + had, bytes.size() - had);
    bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw DataError(concat("cannot read ", path, " at offset ", had, ": ", errno_text(errno)));
    if (count == 0) return bytes;
    if (bytes.size() > limit)
      throw DataError(concat(path, " is larger than the ", limit, " bytes allowed here"));
  }
}

fs::path make_unique_folder(const std::string& base, const std::string& prefix) {
  std::string name = concat(base, "/", prefix, "-XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) throw os_error(concat("cannot make a folder in ", base));
  return name;
}

TemporaryFolder::TemporaryFolder(const std::string& prefix)
    : path_(make_unique_folder(Env::of_process().text("TMPDIR").value_or("/tmp"), prefix)) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!keep_) fs::remove_all(path_, ignored);
}

}  // namespace lockstep::base
