#include "host/recorder.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::host {
namespace {

std::shared_ptr<std::byte> zeros() {
  return {reinterpret_cast<std::byte*>(new std::uint64_t[Recorder::bytes_needed() / 8 + 1]()),
          [](std::byte* memory) { delete[] reinterpret_cast<std::uint64_t*>(memory); }};
}

CallRecord call(std::uint64_t sequence) {
  CallRecord record;
  record.sequence = sequence;
  set_text(record.op, "all_reduce");
  set_text(record.reduce_op, "sum");
  set_text(record.dtype, "float32");
  set_text(record.group, "world");
  set_text(record.tag, "bucket 3");
  set_text(record.file, "/a/very/long/folder/that/does/not/fit/into/the/field/train.cpp");
  record.line = 30;
  record.dim_count = 2;
  record.dims[0] = 256;
  record.dims[1] = 10;
  return record;
}

}  // namespace

TEST(RecorderTest, KeepsTheLastCallsOldestFirst) {
  Recorder recorder(zeros());
  for (std::uint64_t sequence = 1; sequence <= 300; ++sequence)
    recorder.finish(recorder.begin(call(sequence)), CallRecord::State::kDone);
  const auto calls = recorder.calls();
  ASSERT_EQ(calls.size(), static_cast<std::size_t>(Recorder::kCalls));
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(calls[i].sequence, 300 - calls.size() + 1 + i);
  EXPECT_EQ(calls.back().state, CallRecord::State::kDone);
  EXPECT_GE(calls.back().end_ns, calls.back().begin_ns);
}

TEST(RecorderTest, ACallIsTold) {
  Recorder recorder(zeros());
  recorder.begin(call(7));
  const auto found = recorder.find("world", 7);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text(),
            "all_reduce(sum, float32[256, 10], \"bucket 3\") at "
            "lder/that/does/not/fit/into/the/field/train.cpp:30");
  EXPECT_FALSE(recorder.find("world", 8));
  EXPECT_FALSE(recorder.find("other", 7));
}

TEST(RecorderTest, AReaderNeverSeesHalfACall) {
  const auto memory = zeros();
  Recorder writer(memory), reader(memory);
  std::thread other([&] {
    for (std::uint64_t sequence = 1; sequence <= 20000; ++sequence) {
      CallRecord record = call(sequence);
      record.line = static_cast<std::uint32_t>(sequence);
      record.dims[0] = static_cast<std::int64_t>(sequence);
      writer.begin(record);
    }
  });
  std::uint64_t seen = 0;
  while (seen < 20000) {
    for (const CallRecord& record : reader.calls()) {
      ASSERT_EQ(record.line, record.sequence);
      ASSERT_EQ(static_cast<std::uint64_t>(record.dims[0]), record.sequence);
      seen = record.sequence;
    }
  }
  other.join();
}

}  // namespace lockstep::host
