#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/rename.h"
#include "base/socket.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

/// What a rendezvous file says: where rank 0's store listens, and whose it is.
struct Notice {
  Member owner;          ///< with the secret that admits, where the job had none
  std::string instance;  ///< of the server
  std::string boot_id;   ///< with pid namespace, pid and start time: a process, for good
  std::string pid_namespace;
  std::uint64_t start_time = 0;
  std::vector<base::SocketAddress> addresses;  ///< each reaches the store from somewhere

  std::string json() const;
  /// Nothing when `text` is something else.
  static std::optional<Notice> parse(std::string_view text);

  /// The addresses in the order in which this host should try them.
  std::vector<base::SocketAddress> addresses_from_here() const;
};

/// The notice of a store in this process, which listens on all interfaces at `port`.
Notice notice_here(const Member& owner, const std::string& instance, std::uint16_t port, bool ipv6);

/// A file as it was found.
struct Finding {
  bool exists = false;
  base::HeldFile file;
  std::string content;
  std::optional<Notice> notice;  ///< none: absent, empty, or not ours

  bool foreign() const { return exists && !notice && !content.empty(); }
};

/// Throws RendezvousError for a file that is something else (it is left as it is) or cannot be
/// read.
Finding read_notice(const std::filesystem::path& path, const Member& self);

/// Whether the store of a notice may still be served.
enum class Life { kDead, kAlive, kUnknown };
Life life_of(const Notice& notice, base::Deadline deadline);

/// A notice for as long as this object lives.
class Publication {
 public:
  /// Replaces an empty file and one whose store is dead. Throws RendezvousError: the store of
  /// another job is, or may be, alive; or the file cannot be written.
  Publication(std::filesystem::path path, const Notice& notice);
  /// Removes the file, if it is still this one.
  ~Publication();
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

 private:
  std::filesystem::path path_;
  base::HeldFile file_;
};

}  // namespace lockstep::rendezvous
