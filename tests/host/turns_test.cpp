#include "host/turns.h"

#include <gmock/gmock.h>

#include <atomic>

#include "host/members.h"

namespace lockstep::host {
namespace {

using test::Member;
using test::on_members;
using test::soon;
using testing::HasSubstr;

}  // namespace

TEST(TurnsTest, WhatAllWroteIsSeenByAllAndPlacesAreExchanged) {
  on_members(3, [](Member& member) {
    const Place mine = member.arena->allocate(2 * sizeof(int));
    auto* const numbers = reinterpret_cast<int*>(member.arena->segment()->at(mine));
    for (int turn = 0; turn < 2000; ++turn) {
      numbers[turn & 1] = turn * 10 + member.rank;
      member.turns->begin(static_cast<std::uint64_t>(turn), soon());
      member.turns->take(mine);
      for (int rank = 0; rank < member.size; ++rank) {
        const auto* const theirs =
            reinterpret_cast<int*>(member.arena->segment()->at(member.turns->place_of(rank)));
        ASSERT_EQ(theirs[turn & 1], turn * 10 + rank);
      }
    }
  });
}

TEST(TurnsTest, MoreMembersThanCoresComeAlong) {
  on_members(12, [](Member& member) {
    for (std::uint64_t turn = 1; turn <= 200; ++turn) {
      member.turns->begin(turn, soon());
      member.turns->take();
    }
  });
}

TEST(TurnsTest, DifferentDigestsAreADisagreementOnEveryMemberAndTheNextTurnWorks) {
  std::atomic<int> disagreed = 0;
  on_members(3, [&](Member& member) {
    member.turns->begin(member.rank == 1 ? 7 : 5, soon());
    try {
      member.turns->take();
    } catch (const Disagreement&) {
      ++disagreed;
    }
    EXPECT_EQ(member.turns->agrees(1), member.rank == 1);
    member.turns->begin(6, soon());
    EXPECT_NO_THROW(member.turns->take());
  });
  EXPECT_EQ(disagreed, 3);
}

TEST(TurnsTest, TheDeadlineNamesWhoIsMissingAndALateMemberCatchesUp) {
  std::atomic<int> named = 0;
  on_members(3, [&](Member& member) {
    if (member.rank == 2) {
      while (named < 2) std::this_thread::yield();
      for (std::uint64_t turn = 1; turn <= 2; ++turn) {
        member.turns->begin(turn, soon());
        member.turns->take();
      }
      return;
    }
    member.turns->begin(1, base::Deadline::in(std::chrono::milliseconds(100)));
    try {
      member.turns->take();
      ADD_FAILURE() << "member 2 had not come";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("missing: 2"));
    }
    ++named;
    member.turns->begin(2, soon());
    EXPECT_NO_THROW(member.turns->take());
  });
}

TEST(TurnsTest, AMemberThatIsGoneEndsTheWaitButNotWhatItHasTakenPartIn) {
  on_members(2, [&](Member& member) {
    member.turns->begin(1, soon());
    if (member.rank == 1) {
      member.turns->take();
      return;
    }
    member.turns->take();
    member.turns->rounds().gone(1);
    member.turns->begin(2, soon());
    EXPECT_THROW(member.turns->take(), PeerLost);
  });
}

TEST(TurnsTest, AMemberThatCannotGoOnIsToldToTheOthers) {
  std::atomic<int> told = 0;
  on_members(3, [&](Member& member) {
    member.turns->begin(1, soon());
    if (member.rank == 2) {
      member.turns->rounds().fail();
      return;
    }
    try {
      member.turns->take();
    } catch (const InternalError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2 could not go on"));
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
}

TEST(TurnsTest, AbortEndsAWaitThatSleeps) {
  on_members(2, [&](Member& member) {
    if (member.rank == 1) return;
    member.turns->begin(1, soon());
    std::thread other([&] {
      // Long enough that the wait has usually gone to sleep; right whether it has or not.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      member.turns->rounds().abort();
    });
    EXPECT_THROW(member.turns->take(), PeerLost);
    other.join();
  });
}

TEST(TurnsTest, AWaitThatLastsIsNoticed) {
  std::atomic<int> notices = 0;
  std::vector<int> named;
  on_members(
      2,
      [&](Member& member) {
        member.turns->begin(1, soon());
        if (member.rank == 1)
          while (notices == 0) std::this_thread::yield();
        member.turns->take();
      },
      std::chrono::seconds(1),
      [&](const std::vector<int>& missing, std::chrono::seconds waited) {
        EXPECT_EQ(waited.count(), notices + 1);
        named = missing;
        ++notices;
      });
  EXPECT_GE(notices, 1);
  EXPECT_EQ(named, std::vector<int>{1});
}

}  // namespace lockstep::host
