#include "rendezvous/wire.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::rendezvous {
namespace {

template <class Number>
void put(std::string& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i)));
}

template <class Number>
Number read(std::string_view bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |=
        static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  return value;
}

constexpr std::size_t kLengthSize = sizeof(std::uint32_t);
constexpr std::size_t kIdleCapacity = std::size_t{64} << 10;

}  // namespace

Packer::Packer(Kind kind) : bytes_(kLengthSize, '\0') { bytes_.push_back(static_cast<char>(kind)); }

Packer& Packer::number(std::uint64_t value) {
  put(bytes_, value);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  put(bytes_, static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

Packer& Packer::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const auto& value : values) text(value);
  return *this;
}

Packer& Packer::member(const Member& member, bool with_token) {
  text(member.job_id)
      .text(with_token ? member.token : "")
      .integer(member.attempt)
      .integer(member.rank);
  return integer(member.world_size).text(member.host).integer(member.pid);
}

Packer& Packer::failure(const Failure& failure) {
  number(failure.kind).text(failure.happened).text(failure.remedy);
  return integer(failure.peer.value_or(-1));
}

std::string Packer::take() {
  std::string length;
  put(length, static_cast<std::uint32_t>(bytes_.size() - kLengthSize));
  std::copy(length.begin(), length.end(), bytes_.begin());
  return std::move(bytes_);
}

Unpacker::Unpacker(std::string_view frame) : rest_(frame) {
  good_ = !frame.empty();
  if (!good_) return;
  kind_ = static_cast<Kind>(frame.front());
  rest_.remove_prefix(1);
}

std::uint64_t Unpacker::number() {
  good_ = good_ && rest_.size() >= sizeof(std::uint64_t);
  if (!good_) return 0;
  const auto value = read<std::uint64_t>(rest_);
  rest_.remove_prefix(sizeof value);
  return value;
}

std::string Unpacker::text() {
  good_ = good_ && rest_.size() >= kLengthSize;
  if (!good_) return "";
  const auto size = read<std::uint32_t>(rest_);
  rest_.remove_prefix(kLengthSize);
  good_ = rest_.size() >= size;
  if (!good_) return "";
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

std::vector<std::string> Unpacker::texts() {
  std::vector<std::string> values;
  const std::uint64_t count = number();
  // A lying count ends where the bytes end: nothing is reserved for it.
  for (std::uint64_t i = 0; i < count && good_; ++i) values.push_back(text());
  return good_ ? values : std::vector<std::string>();
}

Member Unpacker::member() {
  const auto small = [this] {
    const std::int64_t value = integer();
    good_ = good_ && value >= std::numeric_limits<int>::min() &&
            value <= std::numeric_limits<int>::max();
    return static_cast<int>(value);
  };
  Member member;
  member.job_id = text();
  member.token = text();
  member.attempt = small();
  member.rank = small();
  member.world_size = small();
  member.host = text();
  member.pid = small();
  return member;
}

Failure Unpacker::failure() {
  Failure failure;
  const std::uint64_t kind = number();
  good_ = good_ && kind <= Failure::kPeerLost;
  failure.kind = good_ ? static_cast<Failure::Kind>(kind) : Failure::kRendezvous;
  failure.happened = text();
  failure.remedy = text();
  const std::int64_t peer = integer();
  if (peer >= 0 && peer <= std::numeric_limits<int>::max()) failure.peer = static_cast<int>(peer);
  return failure;
}

std::string greeting(std::string_view magic) {
  std::string bytes(magic);
  put(bytes, kProtocolVersion);
  return bytes;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (broken()) return;
  buffer_.erase(0, std::exchange(used_, 0));
  // A large value that has passed does not stay reserved for as long as the connection lives.
  if (buffer_.empty() && buffer_.capacity() > kIdleCapacity) buffer_.shrink_to_fit();
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (state_ == State::kGreeting) read_greeting();
}

void FrameReader::read_greeting() {
  const std::size_t known = std::min(buffer_.size(), magic_.size());
  if (buffer_.compare(0, known, magic_, 0, known) != 0) {
    state_ = State::kNotOurs;
    return;
  }
  if (buffer_.size() < magic_.size() + sizeof version_) return;
  version_ = read<std::uint32_t>(std::string_view(buffer_).substr(magic_.size()));
  used_ = magic_.size() + sizeof version_;
  state_ = version_ == kProtocolVersion ? State::kFrames : State::kOtherVersion;
}

std::optional<std::string_view> FrameReader::next() {
  if (state_ != State::kFrames) return std::nullopt;
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < kLengthSize) return std::nullopt;
  const auto size = read<std::uint32_t>(rest);
  if (size > limit_) {
    state_ = State::kTooLong;
    return std::nullopt;
  }
  if (rest.size() < kLengthSize + size) return std::nullopt;
  used_ += kLengthSize + size;
  return rest.substr(kLengthSize, size);
}

}  // namespace lockstep::rendezvous
