#pragma once
#include <cerrno>
#include <string>

#include "lockstep/error.h"

namespace lockstep::base {

/// The text of an errno, such as "Permission denied".
std::string errno_text(int error);

/// "<what>: <errno's text>", with a remedy for the errors that have a usual one
/// (descriptor and process limits, full disk, permissions). Call it before errno changes.
InternalError os_error(const std::string& what, int error = errno);

}  // namespace lockstep::base
