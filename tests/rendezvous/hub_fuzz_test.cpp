#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "rendezvous/hub.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
using namespace test;

namespace {

/// A hub with its peers' connections played by a seeded random generator.
class Scene {
 public:
  explicit Scene(unsigned seed)
      : random_(seed),
        hub_(member(0, 4), "instance",
             {.send =
                  [this](Hub::Peer peer, std::string bytes) {
                    EXPECT_TRUE(open_.contains(peer));
                    sent_ += bytes.size();
                  },
              .drop =
                  [this](Hub::Peer peer) {
                    EXPECT_TRUE(open_.contains(peer));
                    dropped_.insert(peer);
                  }}) {}

  void play(int frames) {
    for (int i = 0; i < frames; ++i) {
      if (open_.size() < 8) arrive();
      const Hub::Peer peer =
          *std::next(open_.begin(), static_cast<std::ptrdiff_t>(below(open_.size())));
      deliver(peer, spoil(frame()));
      std::vector<Hub::Peer> gone(dropped_.begin(), dropped_.end());
      if (below(20) == 0) gone.push_back(peer);
      for (const Hub::Peer each : gone)
        if (open_.erase(each) > 0) hub_.close(each);
      dropped_.clear();
    }
  }

  std::size_t joined() const { return hub_.joined(); }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void arrive() {
    const Hub::Peer peer = ++last_;
    open_.insert(peer);
    hub_.open(peer);
    if (below(8) == 0) return;
    Member self = member(static_cast<int>(below(5)), below(40) == 0 ? 3 : 4);
    deliver(peer, spoil(greeting(kClientMagic) + Packer(Kind::kHello).member(self, true).take()));
  }

  // The stream comes in pieces of any size.
  void deliver(Hub::Peer peer, const std::string& bytes) {
    auto rest = std::as_bytes(std::span(bytes));
    while (!rest.empty()) {
      const auto piece = rest.first(1 + below(rest.size()));
      hub_.receive(peer, piece);
      rest = rest.subspan(piece.size());
    }
  }

  std::string frame() {
    Packer packer(static_cast<Kind>(below(17)));
    if (below(10) > 0) packer.number(below(50));
    for (std::size_t fields = below(4); fields > 0; --fields) {
      if (below(3) > 0) packer.text(std::string(below(4), 'k'));
      if (below(4) == 0) packer.integer(static_cast<std::int64_t>(random_()) << below(32));
      if (below(4) == 0) packer.texts({"a", "b", std::string(below(3), 'k')});
    }
    return packer.take();
  }

  std::string spoil(std::string bytes) {
    if (bytes.empty()) return bytes;
    switch (below(8)) {
      case 0:
        bytes[below(bytes.size())] ^= static_cast<char>(1u << below(8));
        break;
      case 1:
        bytes.resize(1 + below(bytes.size()));
        break;
      case 2:
        bytes.insert(below(bytes.size()), std::string(1 + below(5), static_cast<char>(random_())));
        break;
      default:
        break;
    }
    return bytes;
  }

  std::mt19937_64 random_;
  std::set<Hub::Peer> open_;
  std::set<Hub::Peer> dropped_;
  Hub::Peer last_ = 0;
  std::size_t sent_ = 0;
  Hub hub_;
};

}  // namespace

TEST(HubFuzzTest, Row38TwentyThousandFramesOfAnyKindDoNoHarm) {
  std::size_t joined = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Scene scene(seed);
    scene.play(200);
    joined += scene.joined();
  }
  // The frames got beyond the handshake, so the requests behind it were fuzzed, too.
  EXPECT_GT(joined, 100u);
}

TEST(FrameReaderTest, HoldsNothingForALengthThatIsNotThere) {
  FrameReader reader(kClientMagic, kFrameLimit);
  const std::string head =
      greeting(kClientMagic) + std::string("\x00\x00\x00\x04", 4);  // 64 MiB to come
  reader.feed(std::as_bytes(std::span(head)));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.broken());
  EXPECT_LT(reader.buffered().capacity(), 4096u);
}

TEST(FrameReaderTest, RefusesALengthOverTheLimit) {
  FrameReader reader(kClientMagic, kHelloLimit);
  const std::string head = greeting(kClientMagic) + std::string("\x01\x04\x00\x00", 4);
  reader.feed(std::as_bytes(std::span(head)));
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.state(), FrameReader::State::kTooLong);
}

}  // namespace lockstep::rendezvous
