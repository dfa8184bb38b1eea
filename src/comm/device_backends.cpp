#include "comm/device_backends.h"

#include <sstream>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using base::concat;
using c10::DeviceType;

constexpr const char* kOnCuda = "nccl";

std::map<DeviceType, std::string> parse(const std::string& wanted) {
  if (wanted.find(':') == std::string::npos) {
    check_backend_name(wanted);
    return {{DeviceType::CPU, wanted}, {DeviceType::CUDA, wanted == "auto" ? kOnCuda : wanted}};
  }
  std::map<DeviceType, std::string> names;
  std::istringstream parts(wanted);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t colon = part.find(':');
    const std::string device = part.substr(0, colon);
    const bool known = device == "cpu" || device == "cuda";
    if (colon == std::string::npos || !known)
      throw UsageError(concat("'", part, "' in the backend '", wanted, "' is not DEVICE:NAME"),
                       "write it like cpu:shm,cuda:nccl");
    const std::string name = part.substr(colon + 1);
    check_backend_name(name);
    const DeviceType type = device == "cpu" ? DeviceType::CPU : DeviceType::CUDA;
    if (!names.emplace(type, type == DeviceType::CUDA && name == "auto" ? kOnCuda : name).second)
      throw UsageError(concat("the backend '", wanted, "' names two for ", device),
                       "name one for each device");
  }
  return names;
}

}  // namespace

void DeviceBackends::check(const std::string& wanted) { parse(wanted); }

DeviceBackends::DeviceBackends(std::string wanted, BackendContext context)
    : wanted_(std::move(wanted)), context_(std::move(context)), names_(parse(wanted_)) {
  first_device_ = names_.begin()->first;
  text_ = on(first_device_).entry->name;
  if (wanted_.find(':') == std::string::npos) return;
  text_.clear();
  for (const auto& [device, name] : names_)
    text_ += concat(text_.empty() ? "" : ",", device == DeviceType::CPU ? "cpu:" : "cuda:",
                    device == first_device_ ? first().entry->name : name);
}

const std::string& DeviceBackends::name_for(DeviceType device) const {
  const auto found = names_.find(device);
  if (found != names_.end()) return found->second;
  throw UsageError(concat("the backend '", wanted_, "' names none for tensors on ", device),
                   "name one: cpu:shm,cuda:nccl");
}

const Served* DeviceBackends::find(DeviceType device) const {
  const std::lock_guard lock(mutex_);
  const auto made = made_.find(device);
  return made == made_.end() ? nullptr : &made->second;
}

const BackendEntry& DeviceBackends::entry(DeviceType device) const {
  if (const Served* const made = find(device)) return *made->entry;
  return entry_called(name_for(device));
}

const Served& DeviceBackends::on(DeviceType device) {
  if (const Served* const made = find(device)) return *made;
  const std::string& name = name_for(device);
  Served served{nullptr, nullptr, context_.size};
  // One name for all devices is one backend.
  const Served* const made = names_.contains(first_device_) ? find(first_device_) : nullptr;
  if (made != nullptr && (name == made->entry->name || context_.size == 1)) {
    served = *made;
  } else {
    served.entry = &choose_backend(name, context_);
    served.backend = served.entry->create(context_);
  }
  const std::lock_guard lock(mutex_);
  if (aborted_) served.backend->abort();
  return made_[device] = std::move(served);
}

void DeviceBackends::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& [device, served] : made_) served.backend->abort();
}

}  // namespace lockstep::comm
