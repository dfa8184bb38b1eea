#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "rendezvous/dial.h"
#include "rendezvous/member.h"
#include "rendezvous/server.h"

namespace lockstep::rendezvous {

/// The path of "file:///PATH". Throws UsageError: not absolute, no folder.
std::filesystem::path rendezvous_path(const std::string& init_method);

/// A store that a file tells of, for as long as it lives. `secret` is what admits to it.
struct AdvertisedServer {
  std::shared_ptr<Server> server;
  std::string secret;
};
AdvertisedServer serve_by_file(const std::filesystem::path& path, const Member& host);

/// Is admitted to the store that the file tells of, or will tell of before the deadline. Without a
/// token of its own this process shows the secret that the file holds.
Admission dial_by_file(const std::filesystem::path& path, Member self, base::Deadline deadline);

}  // namespace lockstep::rendezvous
