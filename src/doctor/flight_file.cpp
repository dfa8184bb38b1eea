#include "doctor/flight_file.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/concat.h"
#include "base/file.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

using base::concat;
using Json = nlohmann::json;

constexpr int kVersion = 1;
// A record holds a few thousand calls at most.
constexpr std::size_t kLargest = std::size_t{64} << 20;

Call call_from(const Json& json) {
  Call call;
  json.at("rank").get_to(call.rank);
  json.at("group").get_to(call.group);
  json.at("sequence").get_to(call.sequence);
  json.at("op").get_to(call.op);
  json.at("reduce_op").get_to(call.reduce_op);
  json.at("dtype").get_to(call.dtype);
  json.at("dims").get_to(call.dims);
  json.at("root").get_to(call.root);
  json.at("tag").get_to(call.tag);
  json.at("file").get_to(call.file);
  json.at("line").get_to(call.line);
  json.at("state").get_to(call.state);
  json.at("begin_ns").get_to(call.begin_ns);
  json.at("end_ns").get_to(call.end_ns);
  return call;
}

Member member_from(const Json& json) {
  Member member;
  json.at("rank").get_to(member.rank);
  json.at("host").get_to(member.host);
  json.at("pid").get_to(member.pid);
  json.at("state").get_to(member.state);
  json.at("gone").get_to(member.gone);
  return member;
}

Failure failure_from(const Json& json) {
  Failure failure;
  json.at("kind").get_to(failure.kind);
  json.at("text").get_to(failure.text);
  json.at("op").get_to(failure.op);
  json.at("sequence").get_to(failure.sequence);
  json.at("group").get_to(failure.group);
  json.at("members").get_to(failure.members);
  return failure;
}

void check_version(const Json& json, const std::filesystem::path& path) {
  if (!json.is_object() || !json.contains("version") || !json.at("version").is_number_integer())
    throw DataError(concat(path.string(), " is JSON, but no flight record"),
                    "give files named flight-*.json, as the errors of the job name them");
  const int version = json.at("version").get<int>();
  if (version != kVersion)
    throw DataError(concat(path.string(), " is a flight record of version ", version,
                           "; this command reads version ", kVersion),
                    "use the lockstep command that belongs to the library of the job");
}

void check_ranks(const FlightFile& file) {
  const auto outside = [&](int rank) { return rank < 0 || rank >= file.world_size; };
  bool wrong = outside(file.rank);
  for (const Member& member : file.members) wrong |= outside(member.rank);
  for (const Call& call : file.calls) wrong |= outside(call.rank);
  for (const int member : file.error.members) wrong |= outside(member);
  if (wrong)
    throw DataError(concat(file.path.string(), " names ranks outside its world of ",
                           file.world_size, ": it is damaged"),
                    "leave it out, or get the file anew from its host");
}

}  // namespace

bool Call::same_as(const Call& other) const {
  return op == other.op && reduce_op == other.reduce_op && dtype == other.dtype &&
         dims == other.dims && root == other.root && tag == other.tag;
}

std::string Call::text() const {
  std::ostringstream text;
  text << op << '(';
  const char* separator = "";
  const auto next = [&]() -> std::ostream& {
    text << separator;
    separator = ", ";
    return text;
  };
  if (!reduce_op.empty()) next() << reduce_op;
  if (!dtype.empty()) {
    next() << dtype << '[';
    for (std::size_t i = 0; i < dims.size(); ++i) text << (i == 0 ? "" : ", ") << dims[i];
    text << ']';
  }
  if (root >= 0) next() << "rank " << root;
  if (!tag.empty()) next() << '"' << tag << '"';
  text << ')';
  return std::move(text).str();
}

std::string Call::place() const { return concat(file, ":", line); }

FlightFile read_flight_file(const std::filesystem::path& path) {
  const auto bytes = base::read_file(path, kLargest);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  FlightFile file;
  file.path = path;
  try {
    const Json json = Json::parse(text);
    check_version(json, path);
    json.at("job").get_to(file.job);
    json.at("attempt").get_to(file.attempt);
    json.at("rank").get_to(file.rank);
    json.at("world_size").get_to(file.world_size);
    json.at("host").get_to(file.host);
    file.error = failure_from(json.at("error"));
    json.at("written_ns").get_to(file.written_ns);
    for (const Json& member : json.at("members")) file.members.push_back(member_from(member));
    for (const Json& call : json.at("calls")) file.calls.push_back(call_from(call));
  } catch (const Json::parse_error& error) {
    throw DataError(
        concat(path.string(), " is not whole: no JSON at byte ", error.byte, " of ", bytes.size()),
        "copy the file anew from its host; a record is written whole or not at all");
  } catch (const Json::exception& error) {
    throw DataError(concat(path.string(), " lacks a part of a flight record: ", error.what()),
                    "leave it out, or get the file anew from its host");
  }
  check_ranks(file);
  return file;
}

}  // namespace lockstep::doctor
