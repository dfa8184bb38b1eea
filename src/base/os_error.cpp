#include "base/os_error.h"

#include <system_error>

namespace lockstep::base {
namespace {

const char* usual_remedy(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EAGAIN:
      return "raise the limit of processes (ulimit -u)";
    case ENOMEM:
      return "free memory, or start fewer workers";
    case ENOSPC:
    case EDQUOT:
      return "free space on that file system";
    case EACCES:
    case EPERM:
      return "check owner and permissions";
    default:
      return "";
  }
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

InternalError os_error(const std::string& what, int error) {
  return InternalError(what + ": " + errno_text(error), usual_remedy(error));
}

}  // namespace lockstep::base
