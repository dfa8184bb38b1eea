#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>

namespace lockstep::checkpoint {

/// Every save and load runs inside one of these: whatever goes wrong leaves as a CheckpointError
/// that names the file. For a save it also tells the space that `needed` bytes lack, where that is
/// so; `needed` is read when the error has happened.
void saving(const std::filesystem::path& path, const std::size_t& needed,
            const std::function<void()>& work);
void loading(const std::filesystem::path& path, const std::function<void()>& work);

}  // namespace lockstep::checkpoint
