#include "rendezvous/dial.h"

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::Deadline;
using std::chrono::milliseconds;

Deadline within(Deadline deadline, Deadline::Clock::duration limit) {
  return deadline.remaining() < limit ? deadline : Deadline::in(limit);
}

bool send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = base::send_some(fd, std::as_bytes(std::span(bytes)));
    if (sent.ended) return false;
    bytes.remove_prefix(sent.count);
    pollfd writable{fd, POLLOUT, 0};
    if (sent.would_block && !base::poll_until({&writable, 1}, deadline)) return false;
  }
  return true;
}

// What the other side did after our question.
struct Answer {
  enum Manner { kFrame, kNotOurs, kOtherVersion, kSilent, kClosed };
  Manner manner = kSilent;
  std::string frame;
};

Answer ask(int fd, FrameReader& reader, std::string_view question, Deadline deadline) {
  // A failure to send shows again when reading; what was said before it (a refusal) is still there.
  send_all(fd, question, deadline);
  std::byte buffer[4096];
  for (;;) {
    const auto got = base::receive_some(fd, buffer);
    if (got.ended) return {Answer::kClosed};
    reader.feed({buffer, got.count});
    if (const auto frame = reader.next()) return {Answer::kFrame, std::string(*frame)};
    if (reader.state() == FrameReader::State::kOtherVersion) return {Answer::kOtherVersion};
    if (reader.broken()) return {Answer::kNotOurs};
    pollfd readable{fd, POLLIN, 0};
    if (got.would_block && !base::poll_until({&readable, 1}, deadline)) return {Answer::kSilent};
  }
}

// The beginning of what a stranger said, fit for a message.
std::string excerpt(const std::string& bytes) {
  constexpr std::size_t kShown = 24;
  std::string text;
  for (const char byte : bytes.substr(0, kShown))
    text += std::isprint(static_cast<unsigned char>(byte)) ? byte : '.';
  return concat("it said '", text, bytes.size() > kShown ? "..." : "", "'");
}

std::string hello(const Member& self) {
  std::string frame = Packer(Kind::kHello).member(self, true).take();
  if (frame.size() > kHelloLimit) {
    throw UsageError(concat("job id, token and host name together are too long: ", frame.size(),
                            " of ", kHelloLimit, " bytes"),
                     "give the job a shorter id");
  }
  return greeting(kClientMagic) + frame;
}

Failure no_address(const std::string& host, const std::string& why) {
  return {.happened = concat("the host name '", host, "' is unknown here (", why, ")"),
          .remedy =
              "check its spelling, or give the IP address; a name that is new needs time until it "
              "is known"};
}

}  // namespace

Dialer::Dialer(Member self, std::string where)
    : self_(std::move(self)), hello_(hello(self_)), where_(std::move(where)) {}

std::optional<Admission> Dialer::attempt(const std::vector<base::SocketAddress>& addresses,
                                         Deadline deadline) {
  stranger_.reset();
  const milliseconds limit(addresses.size() > 1 ? 1000 : 5000);
  for (const auto& address : addresses) {
    auto [fd, error] = base::connect_to(address, within(deadline, limit));
    if (error != 0) {
      blame_errno(address, error);
      continue;
    }
    if (address.family() != AF_UNIX) base::watch_for_silence(fd.get());
    if (auto admission = introduce(std::move(fd), address, deadline)) return admission;
  }
  if (!stranger_) return std::nullopt;
  last_ = stranger_;
  // In a file that outlived its job another program may have the port by now; a port the user gave
  // is wrong.
  if (instance_.empty()) raise(*stranger_, self_, "rendezvous");
  return std::nullopt;
}

std::optional<Admission> Dialer::introduce(base::Fd fd, const base::SocketAddress& address,
                                           Deadline deadline) {
  Admission admission;
  const auto begin = Deadline::Clock::now();
  const Answer answer = ask(fd.get(), admission.reader, hello_, within(deadline, kHandshakeLimit));
  switch (answer.manner) {
    case Answer::kClosed:
      note_close(address);
      return std::nullopt;
    case Answer::kSilent:
      note_silence(address, Deadline::Clock::now() - begin, deadline);
      return std::nullopt;
    case Answer::kNotOurs:
      note_stranger(address, excerpt(admission.reader.buffered()));
      return std::nullopt;
    case Answer::kOtherVersion:
      raise({.happened = concat("the store at ", address.text(), " speaks version ",
                                admission.reader.version(),
                                " of the protocol, this process version ", kProtocolVersion),
             .remedy = "build all ranks with the same lockstep"},
            self_, "rendezvous");
    case Answer::kFrame:
      break;
  }
  if (!admitted(answer.frame, address, admission)) return std::nullopt;
  admission.fd = std::move(fd);
  return admission;
}

bool Dialer::admitted(const std::string& frame, const base::SocketAddress& address,
                      Admission& admission) {
  Unpacker fields(frame);
  const std::string instance = fields.text();
  admission.host = fields.member();
  const bool refused = fields.kind() == Kind::kRefused;
  const bool transient = refused && fields.number() != 0;
  const Failure refusal = refused ? fields.failure() : Failure{};
  if (!fields.complete() || (!refused && fields.kind() != Kind::kAdmitted)) {
    note_stranger(address, excerpt(frame));
    return false;
  }
  if (!instance_.empty() && instance != instance_) {
    blame({.happened = concat(address.text(), " is now the store of another job, '",
                              admission.host.job_id, "'")});
    return false;
  }
  if (!refused) return true;
  if (!transient) raise(refusal, self_, "rendezvous");
  blame(refusal);
  return false;
}

void Dialer::note_stranger(const base::SocketAddress& address, const std::string& manner) {
  stranger_ = Failure{
      .happened = concat(address.text(), " answers but is not a lockstep store: ", manner),
      .remedy = "give all ranks another port; `ss -ltnp` on that host shows who holds this one"};
}

void Dialer::note_silence(const base::SocketAddress& address, Deadline::Clock::duration time,
                          Deadline deadline) {
  // A last attempt just before the deadline proves nothing.
  if (time >= kHandshakeLimit || 2 * time >= deadline.limit())
    return note_stranger(address, concat("it said nothing for ", seconds(time)));
  if (!last_)
    blame({.happened = concat(address.text(), " accepts connections, but has not answered yet")});
}

void Dialer::note_close(const base::SocketAddress& address) {
  // A store that starts or ends may hang up once; one that always does is something else.
  if (!closing_) closing_ = Deadline::in(kHandshakeLimit);
  if (closing_->expired()) return note_stranger(address, "it closes the connection");
  blame({.happened =
             concat(address.text(), " accepts connections, but closes them without an answer"),
         .remedy = "see whether that is rank 0 of this job and what it prints"});
}

void Dialer::blame_errno(const base::SocketAddress& address, int error) {
  const std::string why = concat(address.text(), " (", base::errno_text(error), ")");
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:
      return blame(
          {.happened = concat("nothing listens at ", why),
           .remedy = "see whether rank 0 runs, and whether all ranks were given the same place"});
    case ETIMEDOUT:
      return blame({.happened = concat("no answer from ", why),
                    .remedy = "check the address, and that no firewall drops what goes there"});
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return blame({.happened = concat("no way from this host to ", why),
                    .remedy = "check the address and this host's network"});
    default:
      return blame({.happened = concat("cannot connect to ", why),
                    .remedy = base::os_error("", error).remedy()});
  }
}

void Dialer::give_up(Deadline deadline) const {
  Failure failure =
      last_.value_or(Failure{.happened = "the time was too short for a single attempt"});
  failure.happened =
      concat("no store at ", where_, " within ", seconds(deadline.limit()), ": ", failure.happened);
  if (failure.remedy.empty()) failure.remedy = "see whether rank 0 runs, or raise the time limit";
  raise(failure, self_, "rendezvous");
}

bool Backoff::pause(Deadline deadline) {
  if (deadline.expired()) return false;
  base::poll_until({}, within(deadline, step_));
  step_ = std::min(2 * step_, longest_);
  return true;
}

Admission dial(const Endpoint& endpoint, const Member& self, Deadline deadline) {
  Dialer dialer(self, endpoint.text());
  // Over a network each attempt costs others something; on the host itself waiting longer only
  // costs us.
  Backoff patient(milliseconds(250));
  Backoff eager(milliseconds(16));
  bool local = endpoint.kind == Endpoint::kUnix;
  do {
    base::Resolution found{{base::SocketAddress::unix_path(endpoint.path)}, ""};
    if (endpoint.kind == Endpoint::kTcp) {
      found = base::resolve(endpoint.host, endpoint.port, deadline);
      local = !found.addresses.empty() && found.addresses.front().is_loopback();
    }
    if (found.addresses.empty()) dialer.blame(no_address(endpoint.host, found.failure));
    if (auto admission = dialer.attempt(found.addresses, deadline)) return std::move(*admission);
  } while ((local ? eager : patient).pause(deadline));
  dialer.give_up(deadline);
}

std::optional<Identity> probe(const base::SocketAddress& address, Deadline deadline) {
  const auto [fd, error] = base::connect_to(address, deadline);
  if (error != 0) return std::nullopt;
  FrameReader reader(kServerMagic, kHelloLimit);
  const Answer answer =
      ask(fd.get(), reader, greeting(kClientMagic) + Packer(Kind::kProbe).take(), deadline);
  if (answer.manner != Answer::kFrame) return std::nullopt;
  Unpacker fields(answer.frame);
  Identity identity{fields.text(), fields.member()};
  if (fields.kind() != Kind::kIdentity || !fields.complete()) return std::nullopt;
  return identity;
}

}  // namespace lockstep::rendezvous
