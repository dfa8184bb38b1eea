#pragma once
#include <filesystem>

namespace lockstep::base {

/// Makes `path`, a folder that only this user may look into, unless it is there already. Processes
/// that share nothing but their user meet there. Throws UsageError when something else has the
/// name: in /tmp, anybody could have put it there.
void make_user_folder(const std::filesystem::path& path);

}  // namespace lockstep::base
