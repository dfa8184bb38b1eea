// Files that a user may give by mistake, and damaged ones.
#include "doctor/flight_file.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "doctor/doctor.h"
#include "doctor/records.h"
#include "support/message_of.h"

namespace lockstep::doctor {
namespace {

using lockstep::test::message_of;
using test::record;
using test::write;
using testing::AllOf;
using testing::HasSubstr;

std::string complaint(const std::vector<std::string>& arguments) {
  return message_of<DataError>([&] { doctor(arguments, false); });
}

}  // namespace

TEST(FlightFileTest, AMissingFileIsNamed) {
  EXPECT_THAT(complaint({"/nonexistent/flight.json"}),
              AllOf(HasSubstr("/nonexistent/flight.json"), HasSubstr("No such file")));
}

TEST(FlightFileTest, ATruncatedFileIsNamedWithItsLength) {
  const base::TemporaryFolder folder;
  const std::string whole = record(0).dump();
  const std::string path = write(folder.path(), "cut.json", whole.substr(0, 200));
  EXPECT_THAT(complaint({path}), AllOf(HasSubstr(path), HasSubstr("is not whole"),
                                       HasSubstr("of 200"), HasSubstr("remedy: ")));
}

TEST(FlightFileTest, OtherJsonIsNoRecord) {
  const base::TemporaryFolder folder;
  EXPECT_THAT(complaint({write(folder.path(), "a.json", "[1, 2]")}), HasSubstr("no flight record"));
  EXPECT_THAT(complaint({write(folder.path(), "b.json", "{\"version\": 1}")}),
              HasSubstr("lacks a part of a flight record"));
}

TEST(FlightFileTest, AnotherVersionIsRefused) {
  const base::TemporaryFolder folder;
  auto later = record(0);
  later["version"] = 2;
  EXPECT_THAT(complaint({write(folder.path(), later)}),
              AllOf(HasSubstr("version 2"), HasSubstr("reads version 1")));
}

TEST(FlightFileTest, RanksOutsideTheWorldAreDamage) {
  const base::TemporaryFolder folder;
  auto damaged = record(0);
  damaged["calls"].push_back(test::call(7, 1, "barrier", "done"));
  EXPECT_THAT(complaint({write(folder.path(), damaged)}),
              HasSubstr("ranks outside its world of 3"));
}

TEST(FlightFileTest, FilesOfTwoJobsDoNotMix) {
  const base::TemporaryFolder folder;
  auto other = record(1);
  other["job"] = "j2";
  EXPECT_THAT(complaint({write(folder.path(), record(0)), write(folder.path(), other)}),
              AllOf(HasSubstr("different jobs"), HasSubstr("j1"), HasSubstr("j2")));
  auto retry = record(1);
  retry["attempt"] = 1;
  EXPECT_THAT(complaint({write(folder.path(), record(0)), write(folder.path(), retry)}),
              HasSubstr("of job j1, attempt 1"));
}

TEST(FlightFileTest, TwoFilesOfOneRankAreRefused) {
  const base::TemporaryFolder folder;
  const std::string path = write(folder.path(), record(0));
  EXPECT_THAT(complaint({path, path}), HasSubstr("two files are of rank 0"));
}

// A byte changed anywhere gives a verdict or an error, never a crash.
TEST(FlightFileTest, AByteMayBeWrongAnywhere) {
  const base::TemporaryFolder folder;
  auto whole = record(0);
  for (int rank = 0; rank < 3; ++rank)
    whole["calls"].push_back(test::call(rank, 1, "all_reduce", "done"));
  const std::string text = whole.dump();
  for (std::size_t at = 0; at < text.size(); at += 11) {
    for (const char byte : {'9', '"', '-', '\xff'}) {
      std::string damaged = text;
      damaged[at] = byte;
      try {
        EXPECT_NE(doctor({write(folder.path(), "damaged.json", damaged)}, false).text, "");
      } catch (const DataError&) {
        continue;
      }
    }
  }
}

}  // namespace lockstep::doctor
