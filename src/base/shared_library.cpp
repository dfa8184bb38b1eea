#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::base {

SharedLibrary::SharedLibrary(const std::filesystem::path& path)
    : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)) {
  if (handle_ == nullptr)
    throw UsageError(concat("cannot load ", path.string(), ": ", ::dlerror()),
                     "install what it needs, or build lockstep on this system");
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

void* loaded_symbol(const char* name) { return ::dlsym(RTLD_DEFAULT, name); }

std::filesystem::path folder_of_code(const void* address) {
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) return {};
  // A program is named as it was started, which may be relative to a folder it has left since.
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path named(found.dli_fname);
  const bool program = !failed && named.filename() == self.filename() && !named.is_absolute();
  return program ? self.parent_path()
                 : std::filesystem::weakly_canonical(named, failed).parent_path();
}

}  // namespace lockstep::base
