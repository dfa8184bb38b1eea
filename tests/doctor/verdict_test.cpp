// What records come to: made by hand, one for each thing that can be told.
#include "doctor/verdict.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "doctor/doctor.h"
#include "doctor/records.h"

namespace lockstep::doctor {
namespace {

using test::call;
using test::record;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Answer answer_to(const std::vector<Json>& records) {
  const base::TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const Json& each : records) paths.push_back(test::write(folder.path(), each));
  return doctor(paths, false);
}

Json with_calls(int rank, const std::vector<Json>& calls) {
  Json json = record(rank);
  json["calls"] = calls;
  return json;
}

}  // namespace

TEST(VerdictTest, DifferentCallsAtOneNumber) {
  const Answer answer = answer_to(
      {with_calls(1, {call(0, 1, "barrier", "done"), call(0, 2, "all_reduce", "failed", 31),
                      call(1, 1, "barrier", "done"), call(1, 2, "broadcast", "failed", 40),
                      call(2, 1, "barrier", "done"), call(2, 2, "all_reduce", "failed", 31)})});
  EXPECT_EQ(answer.code, kExitFound);
  EXPECT_THAT(answer.text,
              AllOf(HasSubstr("job j1, attempt 0, 3 ranks; records of rank 1\n"),
                    HasSubstr("different calls at number 2 of group world: ranks 0 and 2 called "
                              "all_reduce(float32[4]) at train.cpp:31, rank 1 called "
                              "broadcast(float32[4]) at train.cpp:40. What differs is the "
                              "operation."),
                    HasSubstr("\n  remedy: ")));
}

TEST(VerdictTest, ARankThatLeavesACallOutIsToldByEarlierRounds) {
  std::vector<Json> calls;
  for (int rank = 0; rank < 3; ++rank) {
    calls.push_back(call(rank, 1, "all_reduce", "done", 31));
    calls.push_back(call(rank, 2, "broadcast", "done", 32));
    calls.push_back(call(rank, 3, "barrier", "done", 33));
    calls.push_back(rank == 2 ? call(rank, 4, "broadcast", "failed", 32)
                              : call(rank, 4, "all_reduce", "failed", 31));
  }
  const Answer answer = answer_to({with_calls(0, calls)});
  EXPECT_THAT(answer.text, HasSubstr("rank 2 is a call short: earlier all_reduce at train.cpp:31 "
                                     "came right before broadcast at train.cpp:32."));
}

TEST(VerdictTest, ADeadRankComesBeforeOneThatDiedOfIt) {
  Json first = with_calls(0, {call(0, 2, "all_reduce", "failed"), call(1, 1, "barrier", "done", 29),
                              call(2, 2, "all_reduce", "failed")});
  first["members"][1]["state"] = "dead";
  first["members"][1]["gone"] = "lost";
  // Rank 2 threw what rank 0 threw, and was gone when rank 0 wrote.
  first["members"][2]["state"] = "dead";
  first["members"][2]["gone"] = "lost";
  const Answer answer = answer_to({first});
  EXPECT_EQ(answer.code, kExitFound);
  EXPECT_THAT(answer.text,
              AllOf(HasSubstr("rank 1 (host n1, pid 101) died without an error of its own. Its "
                              "last call was barrier(float32[4]) at train.cpp:29, number 1 of "
                              "group world, done 1.0 s before the first error; ranks 0 and 2 "
                              "were in all_reduce(float32[4]) at train.cpp:30, number 2."),
                    Not(HasSubstr("rank 2 (host"))));
}

TEST(VerdictTest, AStoppedProcess) {
  Json json = with_calls(0, {call(0, 2, "all_reduce", "failed"), call(1, 2, "all_reduce", "failed"),
                             call(2, 2, "all_reduce", "waiting")});
  json["members"][2]["state"] = "stopped (T)";
  const Answer answer = answer_to({json});
  EXPECT_THAT(answer.text, AllOf(HasSubstr("The process of rank 2 (host n1, pid 102) was stopped"),
                                 HasSubstr("not done"), HasSubstr("kill -CONT 102")));
}

TEST(VerdictTest, ARankThatMakesNoFurtherCalls) {
  const Answer answer = answer_to(
      {with_calls(0, {call(0, 2, "all_reduce", "failed"), call(1, 1, "barrier", "done", 29),
                      call(2, 2, "all_reduce", "failed")})});
  EXPECT_EQ(answer.code, kExitFound);
  EXPECT_THAT(answer.text, AllOf(HasSubstr("rank 1 (host n1, pid 101) made no further calls."),
                                 HasSubstr("Its process was asleep."), HasSubstr("gdb -p 101")));
}

TEST(VerdictTest, ARankThatLeavesBeforeTheOthers) {
  Json json = with_calls(0, {call(0, 2, "all_reduce", "failed"), call(1, 2, "all_reduce", "failed"),
                             call(2, 1, "all_reduce", "done")});
  json["members"][2]["gone"] = "left";
  json["members"][2]["state"] = "dead";
  const Answer answer = answer_to({json});
  EXPECT_THAT(answer.text,
              AllOf(HasSubstr("rank 2 (host n1, pid 102) ended in order while others still called"),
                    HasSubstr("same number of calls")));
}

TEST(VerdictTest, HostsWithoutARecordAreMissed) {
  Json json = with_calls(0, {call(0, 2, "all_reduce", "failed")});
  for (const int rank : {1, 2}) {
    json["members"][static_cast<std::size_t>(rank)]["host"] = "n2";
    json["members"][static_cast<std::size_t>(rank)]["state"] = "";
  }
  const Answer answer = answer_to({json});
  EXPECT_EQ(answer.code, kExitNotFound);
  EXPECT_THAT(answer.text, AllOf(HasSubstr("nothing is known of ranks 1 and 2"),
                                 HasSubstr("no rank that differs")));
}

TEST(VerdictTest, EqualRanksAreNoCause) {
  const Answer answer = answer_to(
      {with_calls(0, {call(0, 2, "all_reduce", "failed"), call(1, 2, "all_reduce", "failed"),
                      call(2, 2, "all_reduce", "failed")})});
  EXPECT_EQ(answer.code, kExitNotFound);
  EXPECT_THAT(answer.text, HasSubstr("all that are known were in all_reduce(float32[4])"));
}

}  // namespace lockstep::doctor
