#pragma once
#include <filesystem>

namespace lockstep::base {

/// A shared library that is loaded while the program runs. It stays loaded until the process ends:
/// its threads and exit handlers may outlive whoever asked for it.
class SharedLibrary {
 public:
  /// Loads `path`, with all it depends on. Its symbols serve whatever it loads itself: the plugins
  /// of some libraries count on that. Throws UsageError with the loader's words.
  explicit SharedLibrary(const std::filesystem::path& path);

  /// Address of an exported symbol; nullptr when there is none.
  void* symbol(const char* name) const;

 private:
  void* handle_;
};

/// Address of a symbol in what this process has loaded so far; nullptr when there is none.
void* loaded_symbol(const char* name);

/// The folder of the program or shared library that holds the code at `address`; empty when the
/// loader does not know.
std::filesystem::path folder_of_code(const void* address);

}  // namespace lockstep::base
