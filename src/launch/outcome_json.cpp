#include "launch/outcome_json.h"

#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

Json worker_json(const WorkerOutcome& worker) {
  return {{"rank", worker.rank},
          {"local_rank", worker.local_rank},
          {"host", worker.host},
          {"pid", worker.pid},
          {"program", worker.program},
          {"code", worker.status.code()},
          {"signal", worker.status.signal()},
          {"core", worker.status.core_dumped()},
          {"seconds", worker.seconds},
          {"cause", worker.cause},
          {"error", worker.error},
          {"error_file", worker.error_file_content},
          {"last_lines", worker.last_lines},
          {"last_lines_of", worker.last_lines_of},
          {"log_file", worker.log_file}};
}

WorkerOutcome worker_from(const Json& json) {
  WorkerOutcome worker;
  json.at("rank").get_to(worker.rank);
  json.at("local_rank").get_to(worker.local_rank);
  json.at("host").get_to(worker.host);
  json.at("pid").get_to(worker.pid);
  json.at("program").get_to(worker.program);
  const int signal = json.at("signal").get<int>();
  worker.status = signal != 0 ? base::ExitStatus::signaled(signal, json.at("core").get<bool>())
                              : base::ExitStatus::exited(json.at("code").get<int>());
  json.at("seconds").get_to(worker.seconds);
  json.at("cause").get_to(worker.cause);
  json.at("error").get_to(worker.error);
  json.at("error_file").get_to(worker.error_file_content);
  json.at("last_lines").get_to(worker.last_lines);
  json.at("last_lines_of").get_to(worker.last_lines_of);
  json.at("log_file").get_to(worker.log_file);
  return worker;
}

}  // namespace

std::string to_json(const AttemptOutcome& outcome) {
  Json json = {{"attempt", outcome.attempt},
               {"node", outcome.node},
               {"signal", outcome.signal},
               {"launcher_error", outcome.launcher_error},
               {"launcher_code", outcome.launcher_code},
               {"failures", Json::array()}};
  if (!outcome.failures.empty()) json["failures"].push_back(worker_json(outcome.failures.front()));
  // Programs print what they like: bytes that are no UTF-8 are replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

AttemptOutcome outcome_from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    AttemptOutcome outcome;
    json.at("attempt").get_to(outcome.attempt);
    json.at("node").get_to(outcome.node);
    json.at("signal").get_to(outcome.signal);
    json.at("launcher_error").get_to(outcome.launcher_error);
    json.at("launcher_code").get_to(outcome.launcher_code);
    for (const Json& worker : json.at("failures")) outcome.failures.push_back(worker_from(worker));
    return outcome;
  } catch (const Json::exception& error) {
    throw RendezvousError(
        base::concat("another node's word on the end of the job is not understood: ", error.what()),
        "run the same version of lockstep on every node");
  }
}

}  // namespace lockstep::launch
