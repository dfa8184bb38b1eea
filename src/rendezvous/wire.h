#pragma once
/// The bytes between client and server.
///
/// Each side first sends its magic (8 bytes) with the protocol's version (u32), then frames: a
/// length (u32), that many bytes, of which the first is the frame's kind. Numbers are
/// little-endian; a text is its length (u32) with its bytes. docs/rendezvous.md lists what each
/// kind holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/failure.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

inline constexpr std::string_view kClientMagic = "LSTEP-c\n";
inline constexpr std::string_view kServerMagic = "LSTEP-s\n";
inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kHelloLimit = 1024;
inline constexpr std::size_t kFrameLimit = std::size_t{64} << 20;

enum class Kind : std::uint8_t {
  // client to server
  kHello = 1,
  kProbe,
  kSet,
  kGet,
  kAdd,
  kCompareSet,
  kErase,
  kHas,
  kWait,
  kCount,
  kAppend,
  kCancel,
  kWaitForAll,
  kGiveUp,
  kGoodbye,
  // server to client
  kAdmitted = 64,
  kRefused,
  kIdentity,
  kReply,
  kError,
  kDeparted,
  kOver,
  kClosing,
};

/// Builds one frame.
class Packer {
 public:
  explicit Packer(Kind kind);
  Packer& number(std::uint64_t value);
  Packer& integer(std::int64_t value) { return number(static_cast<std::uint64_t>(value)); }
  Packer& text(std::string_view value);
  Packer& texts(const std::vector<std::string>& values);
  /// Without the token, unless asked for.
  Packer& member(const Member& member, bool with_token = false);
  Packer& failure(const Failure& failure);
  /// The frame with its length in front.
  std::string take();

 private:
  std::string bytes_;
};

/// Reads a frame's fields. Past the end, or on nonsense, it turns bad for good and yields zeros.
class Unpacker {
 public:
  explicit Unpacker(std::string_view frame);
  Kind kind() const { return kind_; }
  std::uint64_t number();
  std::int64_t integer() { return static_cast<std::int64_t>(number()); }
  std::string text();
  std::vector<std::string> texts();
  Member member();
  Failure failure();
  bool good() const { return good_; }
  /// Good, and nothing is left over.
  bool complete() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  Kind kind_{};
  bool good_ = true;
};

/// Magic and version, as `magic`'s owner sends them.
std::string greeting(std::string_view magic);

/// Cuts a stream into frames. Holds no more than what arrived, and refuses a frame over the limit
/// by its length, before any of it is stored.
class FrameReader {
 public:
  enum class State { kGreeting, kFrames, kNotOurs, kOtherVersion, kTooLong };

  FrameReader(std::string_view magic, std::size_t limit) : magic_(magic), limit_(limit) {}

  void feed(std::span<const std::byte> bytes);
  /// The next whole frame; valid until the next call of `feed` or `next`.
  std::optional<std::string_view> next();
  State state() const { return state_; }
  bool broken() const { return state_ != State::kGreeting && state_ != State::kFrames; }
  std::uint32_t version() const { return version_; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  /// What came before the stream turned out not to be ours.
  const std::string& buffered() const { return buffer_; }

 private:
  void read_greeting();

  std::string_view magic_;
  std::size_t limit_;
  State state_ = State::kGreeting;
  std::uint32_t version_ = 0;
  std::string buffer_;
  std::size_t used_ = 0;
};

}  // namespace lockstep::rendezvous
