#include "comm/flight_record.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/env.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/user_folder.h"
#include "comm/world.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using base::concat;
using host::CallRecord;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kNowhere = "/dev/null";
// A host with many ranks has the last calls of each in every rank's file: fewer of each, then.
constexpr std::size_t kCallsOfOthers = 1024;
constexpr std::size_t kFewestCalls = 8;
// Of all jobs, in the folder that they share.
constexpr std::size_t kRecordsKept = 64;
// A program that goes on after each of many errors pays for few files.
constexpr std::int64_t kShortestInterval = 1'000'000'000;

std::int64_t real_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const char* text_of(CallRecord::State state) {
  switch (state) {
    case CallRecord::State::kWaiting:
      return "waiting";
    case CallRecord::State::kDone:
      return "done";
    case CallRecord::State::kFailed:
      return "failed";
  }
  return "";
}

Json to_json(int rank, const CallRecord& call) {
  Json dims = Json::array();
  for (int dim = 0; dim < std::min<int>(call.dim_count, std::size(call.dims)); ++dim)
    dims.push_back(call.dims[dim]);
  return {{"rank", rank},
          {"group", call.group},
          {"sequence", call.sequence},
          {"op", call.op},
          {"reduce_op", call.reduce_op},
          {"dtype", call.dtype},
          {"dims", std::move(dims)},
          {"root", call.root},
          {"tag", call.tag},
          {"file", call.file},
          {"line", call.line},
          {"state", text_of(call.state)},
          {"begin_ns", call.begin_ns},
          {"end_ns", call.end_ns},
          {"digest", concat(std::hex, call.digest())}};
}

Json members_of(const World& world) {
  Json members = Json::array();
  const auto& hosts = world.hosts.of_rank;
  const int own_host = hosts[static_cast<std::size_t>(world.identity.place.rank)];
  for (const rendezvous::Member& member : world.meeting.members) {
    const bool here = hosts[static_cast<std::size_t>(member.rank)] == own_host;
    const auto loss = world.membership.find({member.rank});
    members.push_back({{"rank", member.rank},
                       {"host", member.host},
                       {"pid", member.pid},
                       {"state", here ? base::process_state(member.pid) : ""},
                       {"gone", !loss                                       ? ""
                                : loss->how == rendezvous::Departure::kLost ? "lost"
                                                                            : "left"}});
  }
  return members;
}

Json calls_of(const World& world) {
  Json all = Json::array();
  const auto& recorders = world.host_memory.recorders;
  const std::size_t each = std::max(kFewestCalls, kCallsOfOthers / recorders.size());
  for (const auto& [rank, recorder] : recorders) {
    const std::vector<CallRecord> calls = recorder->calls();
    const bool own = rank == world.identity.place.rank;
    const std::size_t from = own || calls.size() <= each ? 0 : calls.size() - each;
    for (std::size_t i = from; i < calls.size(); ++i) all.push_back(to_json(rank, calls[i]));
  }
  return all;
}

Json document(const World& world, const Failure& failure, std::int64_t now) {
  return {{"version", kVersion},
          {"job", world.identity.job_id},
          {"attempt", world.identity.attempt},
          {"rank", world.identity.place.rank},
          {"world_size", world.identity.place.world_size},
          {"host", base::host_name()},
          {"pid", base::this_pid()},
          {"backend", failure.backend},
          {"error",
           {{"kind", failure.kind},
            {"text", failure.text},
            {"op", failure.op},
            {"sequence", failure.sequence},
            {"group", failure.group},
            {"members", failure.members}}},
          {"written_ns", now},
          {"members", members_of(world)},
          {"calls", calls_of(world)}};
}

/// A job's name may hold anything; a file's name may not.
std::string file_head(const Identity& identity) {
  std::string job = identity.job_id.substr(0, 100);
  for (char& letter : job)
    if (letter == '/' || letter == '\0') letter = '_';
  return concat("flight-", job, "-", identity.attempt, "-rank");
}

/// Removes the oldest records of other jobs.
void sweep(const fs::path& folder, const std::string& own_head) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-") && !name.starts_with(own_head))
      found.emplace_back(entry.last_write_time(ignored), entry.path());
  }
  if (found.size() <= kRecordsKept) return;
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i + kRecordsKept < found.size(); ++i)
    fs::remove(found[i].second, ignored);
}

bool any_done_since(const World& world, std::int64_t time_ns) {
  const auto calls = world.host_memory.recorders.at(world.identity.place.rank)->calls();
  return std::any_of(calls.begin(), calls.end(), [&](const CallRecord& call) {
    return call.state == CallRecord::State::kDone && call.begin_ns > time_ns;
  });
}

std::string write_file(const World& world, const Failure& failure, std::int64_t now) {
  const FlightFolder folder = flight_folder();
  if (folder.path == kNowhere) return "";
  if (folder.shared_by_jobs) {
    base::make_user_folder(folder.path.parent_path());
    base::make_user_folder(folder.path);
  } else {
    fs::create_directories(folder.path);
  }
  const std::string head = file_head(world.identity);
  if (folder.shared_by_jobs) sweep(folder.path, head);
  // Programs name their calls as they like: bytes that are no UTF-8 are replaced.
  const std::string text =
      document(world, failure, now).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const fs::path path =
      fs::absolute(folder.path / concat(head, world.identity.place.rank, ".json"));
  base::AtomicFile file(path, 0600);
  file.write(std::as_bytes(std::span(text)));
  file.commit_unsynced();
  return path.string();
}

/// What can be done with an error of one kind whose type is known only at run time.
struct Kind {
  const char* name;
  bool (*fits)(const Error&);
  std::exception_ptr (*again)(const Error&, const ErrorContext&);
};

template <class Type>
constexpr Kind kind(const char* name) {
  return {name, [](const Error& error) { return dynamic_cast<const Type*>(&error) != nullptr; },
          [](const Error& error, const ErrorContext& context) {
            return std::make_exception_ptr(Type(error.happened(), error.remedy(), context));
          }};
}

constexpr Kind kRecorded[] = {
    kind<MismatchError>("MismatchError"),
    kind<TimeoutError>("TimeoutError"),
    kind<PeerLost>("PeerLost"),
    kind<InternalError>("InternalError"),
    kind<RendezvousError>("RendezvousError"),
};

}  // namespace

std::exception_ptr recorded(const std::exception_ptr& error, World& world, Failure failure) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    for (const Kind& kind : kRecorded) {
      if (!kind.fits(known)) continue;
      failure.kind = kind.name;
      failure.text = known.what();
      ErrorContext context = known.context();
      context.flight_record = world.flight_record.write(world, failure);
      return kind.again(known, context);
    }
    return error;
  } catch (...) {
    return error;
  }
}

FlightFolder flight_folder() {
  const base::Env env = base::Env::of_process();
  if (const auto set = env.text(base::contract::kFlightFolder)) return {*set, false};
  return {concat(env.text("TMPDIR").value_or("/tmp"), "/lockstep-", ::geteuid(), "/flight"), true};
}

std::string FlightRecord::write(const World& world, const Failure& failure) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = real_time_ns();
    if (!path_.empty() &&
        (now - written_ns_ < kShortestInterval || !any_done_since(world, written_ns_)))
      return path_;
    try {
      path_ = write_file(world, failure, now);
      written_ns_ = now;
    } catch (const std::exception& error) {
      path_.clear();
      if (!std::exchange(warned_, true))
        base::log(base::LogLevel::kWarning, concat("no flight record: ", error.what()));
    }
    return path_;
  } catch (...) {
    return "";  // out of memory: the error at hand matters more
  }
}

}  // namespace lockstep::comm
