#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/socket.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/failure.h"
#include "rendezvous/member.h"
#include "rendezvous/wire.h"

namespace lockstep::rendezvous {

/// A connection whose server has admitted this process.
struct Admission {
  base::Fd fd;
  FrameReader reader{kServerMagic, kFrameLimit};  ///< may hold frames that came with the admission
  Member host;                                    ///< the process that serves
};

/// How long something that accepted a connection may say nothing before it counts as a stranger.
inline constexpr std::chrono::seconds kHandshakeLimit{5};

/// One process's attempts to be admitted to a store. Remembers what stood in the way last.
class Dialer {
 public:
  /// `where` is how the user gave the store's place. Throws UsageError when `self` has too long an
  /// id.
  Dialer(Member self, std::string where);

  /// With an instance given, only that server will do: others at those addresses are passed over.
  void expect(std::string instance) { instance_ = std::move(instance); }

  /// Tries the addresses in turn. Nothing: try again. Throws what no further attempt would change.
  std::optional<Admission> attempt(const std::vector<base::SocketAddress>& addresses,
                                   base::Deadline deadline);

  /// Remembers something else that stands in the way.
  void blame(Failure failure) { last_ = std::move(failure); }
  const std::optional<Failure>& blamed() const { return last_; }

  /// Throws for a deadline that has passed.
  [[noreturn]] void give_up(base::Deadline deadline) const;

 private:
  std::optional<Admission> introduce(base::Fd fd, const base::SocketAddress& address,
                                     base::Deadline deadline);
  bool admitted(const std::string& frame, const base::SocketAddress& address, Admission& admission);
  void blame_errno(const base::SocketAddress& address, int error);
  void note_stranger(const base::SocketAddress& address, const std::string& manner);
  void note_close(const base::SocketAddress& address);
  void note_silence(const base::SocketAddress& address, base::Deadline::Clock::duration time,
                    base::Deadline deadline);

  Member self_;
  std::string hello_;
  std::string where_;
  std::string instance_;
  std::optional<Failure> last_;
  std::optional<Failure> stranger_;
  std::optional<base::Deadline> closing_;  ///< since when the other side hangs up without a word
};

/// Waits that double from 1 ms to `longest`.
class Backoff {
 public:
  explicit Backoff(std::chrono::milliseconds longest) : longest_(longest) {}
  /// False once the deadline has passed.
  bool pause(base::Deadline deadline);

 private:
  std::chrono::milliseconds step_{1};
  std::chrono::milliseconds longest_;
};

/// Is admitted to the store at `endpoint`, retrying until the deadline: the server may be yet to
/// come.
Admission dial(const Endpoint& endpoint, const Member& self, base::Deadline deadline);

/// Who serves the store at `address`; nothing when no store of ours answers by the deadline.
struct Identity {
  std::string instance;
  Member host;
};
std::optional<Identity> probe(const base::SocketAddress& address, base::Deadline deadline);

}  // namespace lockstep::rendezvous
