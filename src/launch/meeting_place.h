#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "launch/run_options.h"

namespace lockstep::launch {

/// Where the nodes of a job meet.
struct MeetingPlace {
  std::string host;
  std::uint16_t port = 0;
};

/// From --rdzv-endpoint, else --master-addr and --master-port. Throws UsageError on a malformed
/// one.
MeetingPlace meeting_place(const RunOptions& options);

/// The MASTER_PORT that the user chose for a job of one node; nothing: any free one.
std::optional<std::uint16_t> chosen_port(const RunOptions& options);

}  // namespace lockstep::launch
