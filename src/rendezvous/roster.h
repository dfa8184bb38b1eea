#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/failure.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

/// Who may join, who has joined and who is gone, as the server's process sees it. Not thread-safe.
class Roster {
 public:
  /// `host` serves the store: its job, token, attempt and world size are what the others are held
  /// against.
  explicit Roster(Member host) : host_(std::move(host)) {}

  struct Refusal {
    Failure failure;
    bool transient = false;  ///< the newcomer may try again: this store is about to go
    bool ends_meeting =
        false;  ///< the settings contradict each other: nobody here can ever be complete
  };

  /// Why `newcomer` cannot join; nothing when it can.
  std::optional<Refusal> refusal(const Member& newcomer) const;

  void join(const Member& member);
  void depart(int rank, Departure how);

  bool complete() const { return joined() == static_cast<std::size_t>(host_.world_size); }
  std::size_t joined() const { return entries_.size(); }

  /// Everyone who joined, by rank.
  std::vector<Member> members() const;

  struct Departed {
    Member member;
    Departure how;
  };
  /// In the order of departure.
  const std::vector<Departed>& departed() const { return departed_; }

  /// What is said when the meeting ends before all are there; the same on every rank.
  Failure missing() const;
  /// Why the meeting can never be complete: somebody went before it was.
  std::optional<Failure> broken() const;

  const Member& host() const { return host_; }

 private:
  std::string missing_ranks() const;
  std::optional<Refusal> wrong_settings(const Member& newcomer) const;
  Refusal taken(const Member& newcomer, const Member& owner) const;

  Member host_;
  std::map<int, Member> entries_;
  std::vector<Departed> departed_;
};

}  // namespace lockstep::rendezvous
