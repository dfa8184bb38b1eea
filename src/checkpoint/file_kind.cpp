#include "checkpoint/file_kind.h"

#include <algorithm>
#include <string_view>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;

constexpr const char* kSaveAgain =
    "in Python: state = torch.load('old.pth', weights_only=True); torch.save(state, 'new.pth')";

constexpr std::string_view kZip("PK\3\4", 4);
// The first object of a file in PyTorch's format before 1.6: a pickled number, its magic.
constexpr std::string_view kLegacyMagic("\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
constexpr std::string_view kPickle("\x80", 1);
constexpr std::size_t kTarMagicOffset = 257;
constexpr std::string_view kTarMagic = "ustar";
constexpr std::size_t kSafetensorsHeaderOffset = 8;

std::string first_bytes(const ByteSource& source) {
  std::string head(std::min<std::uint64_t>(source.size, 512), '\0');
  source.read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

bool holds(const std::string& head, std::string_view magic, std::size_t offset = 0) {
  return head.size() >= offset && std::string_view(head).substr(offset).starts_with(magic);
}

}  // namespace

void check_is_pth(const ByteSource& source) {
  const std::string head = first_bytes(source);
  if (holds(head, kZip)) return;
  if (head.empty()) throw CheckpointError("the file is empty", "use an earlier checkpoint");
  if (holds(head, kLegacyMagic)) {
    throw CheckpointError("a file in the format of PyTorch before 1.6 (a bare pickle)", kSaveAgain);
  }
  if (holds(head, kTarMagic, kTarMagicOffset)) {
    throw CheckpointError("a tar file, the format of PyTorch before 0.2", kSaveAgain);
  }
  if (holds(head, kPickle))
    throw CheckpointError("a bare Python pickle, not a file of torch.save",
                          "save it with torch.save");
  if (holds(head, "{", kSafetensorsHeaderOffset)) {
    throw CheckpointError("it begins as a safetensors file does, not as a .pth",
                          "read it with load_safetensors()");
  }
  if (holds(head, "version https://git-lfs")) {
    throw CheckpointError("a Git LFS pointer, not the file itself", "run 'git lfs pull'");
  }
  throw CheckpointError(
      "it does not begin as a file of torch.save does: damaged, or of another kind",
      "check the path, or use an earlier checkpoint");
}

void check_is_not_torchscript(const ZipReader& zip, const std::string& root) {
  if (zip.find(root + "constants.pkl") == nullptr) return;
  throw CheckpointError(
      "a TorchScript archive (torch.jit.save in Python, torch::save in C++), not a state_dict",
      "read it with torch::jit::load or torch::load, and save its state_dict with lockstep::save");
}

}  // namespace lockstep::checkpoint
