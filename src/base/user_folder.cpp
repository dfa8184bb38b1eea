#include "base/user_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/concat.h"
#include "base/os_error.h"
#include "lockstep/error.h"

namespace lockstep::base {

void make_user_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return;
  if (errno != EEXIST) throw os_error(concat("cannot make the folder ", path.string()));
  struct stat found {};
  const bool mine = ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                    found.st_uid == ::geteuid() && (found.st_mode & 0077) == 0;
  if (!mine)
    throw UsageError(concat(path.string(), " is not a folder of this user alone (mode 0700)"),
                     "remove it, or set MASTER_ADDR and MASTER_PORT on every rank");
}

}  // namespace lockstep::base
