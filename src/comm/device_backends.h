#pragma once
#include <c10/core/Device.h>

#include <map>
#include <mutex>
#include <string>

#include "comm/registry.h"

namespace lockstep::comm {

/// A backend made for a group.
struct Served {
  const BackendEntry* entry = nullptr;
  c10::intrusive_ptr<c10d::Backend> backend;
  int size = 1;
};

/// The backends of a group, by the device of the tensors. The text that names them is one name for
/// all devices ("gloo"), or one for each ("cpu:shm,cuda:nccl"); "auto" is the fastest for the CPU,
/// and nccl for CUDA.
class DeviceBackends {
 public:
  /// Makes the CPU's, or the only one. Throws UsageError when it cannot run here.
  DeviceBackends(std::string wanted, BackendContext context);

  /// Throws UsageError naming what is wrong with the text or the names in it.
  static void check(const std::string& wanted);

  /// Its row in the registry. Throws UsageError when the text names none for this device.
  const BackendEntry& entry(c10::DeviceType device) const;

  /// Collective at the first call for a device: it makes the backend.
  const Served& on(c10::DeviceType device);

  /// Local. The one made first.
  const Served& first() const { return made_.at(first_device_); }

  const std::string& wanted() const { return wanted_; }
  /// What became of it: "shm", or "cpu:shm,cuda:nccl".
  const std::string& text() const { return text_; }

  /// Ends what is under way on all of them. Thread-safe.
  void abort() noexcept;

 private:
  const std::string& name_for(c10::DeviceType device) const;
  const Served* find(c10::DeviceType device) const;

  const std::string wanted_;
  const BackendContext context_;
  std::map<c10::DeviceType, std::string> names_;
  c10::DeviceType first_device_ = c10::DeviceType::CPU;
  std::string text_;
  mutable std::mutex mutex_;  ///< of `made_` and `aborted_`
  std::map<c10::DeviceType, Served> made_;
  bool aborted_ = false;
};

}  // namespace lockstep::comm
