#include "ddp/model_check.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "base/concat.h"

namespace lockstep::ddp {
namespace {

using base::concat;

// Tensors from this size on travel as they are; smaller ones are packed into transfers of about
// this size.
constexpr std::size_t kTransferBytes = std::size_t{1} << 20;

std::string describe(const char* kind, const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  return concat(kind, " ", named.name, " ", tensor.scalar_type(), tensor.sizes(), " on ",
                tensor.device().type(), tensor.requires_grad() ? "" : ", frozen");
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void check_same_model(Group& group, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& buffers, const std::string& settings) {
  if (group.size() == 1) return;
  std::string mine = concat("settings ", settings, "\n");
  for (const NamedTensor& parameter : parameters) mine += describe("parameter", parameter) + "\n";
  for (const NamedTensor& buffer : buffers) mine += describe("buffer", buffer) + "\n";

  const auto digests =
      group.all_gather_text(concat(mine.size(), "/", std::hash<std::string>()(mine)));
  if (std::all_of(digests.begin(), digests.end(),
                  [&](const auto& digest) { return digest == digests.front(); }))
    return;

  const auto models = group.all_gather_text(mine);
  const auto expected = split_lines(models.front());
  for (std::size_t rank = 1; rank < models.size(); ++rank) {
    const auto found = split_lines(models[rank]);
    for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
      const std::string ours = i < expected.size() ? expected[i] : "nothing more";
      const std::string theirs = i < found.size() ? found[i] : "nothing more";
      if (ours == theirs) continue;
      ErrorContext context;
      context.rank = group.rank();
      context.world_size = group.size();
      context.op = "DistributedDataParallel";
      context.peer = static_cast<int>(rank);
      throw MismatchError(
          concat("the ranks' models differ: rank 0 has ", ours, ", rank ", rank, " has ", theirs),
          "build the same model, with the same options, on every rank", context);
    }
  }
  throw InternalError(
      "digests of the model differ between the ranks, but their descriptions do not");
}

void broadcast_tensors(Group& group, const std::vector<at::Tensor>& tensors, int root) {
  if (group.size() == 1) return;
  const torch::NoGradGuard no_grad;
  std::map<std::pair<at::ScalarType, c10::DeviceType>, std::vector<at::Tensor>> by_kind;
  const auto transfer = [&](std::vector<at::Tensor>& parts) {
    if (parts.empty()) return;
    std::vector<at::Tensor> flat;
    for (const at::Tensor& part : parts) flat.push_back(part.detach().reshape(-1));
    const at::Tensor whole = at::cat(flat);
    group.broadcast(whole, root);
    std::int64_t offset = 0;
    for (const at::Tensor& part : parts) {
      part.detach().copy_(whole.narrow(0, offset, part.numel()).view(part.sizes()));
      offset += part.numel();
    }
    parts.clear();
  };
  std::map<std::pair<at::ScalarType, c10::DeviceType>, std::size_t> bytes;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() >= kTransferBytes) {
      group.broadcast(tensor, root);
      continue;
    }
    const auto kind = std::make_pair(tensor.scalar_type(), tensor.device().type());
    by_kind[kind].push_back(tensor);
    bytes[kind] += tensor.nbytes();
    if (bytes[kind] < kTransferBytes) continue;
    transfer(by_kind[kind]);
    bytes[kind] = 0;
  }
  for (auto& [kind, parts] : by_kind) transfer(parts);
}

}  // namespace lockstep::ddp
