#include "comm/group_impl.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/env.h"
#include "base/log.h"
#include "comm/dtype_names.h"

namespace lockstep {

using base::concat;

namespace {

// A wait that lasts is told of, so that nobody wonders; being slow is no error.
constexpr const char* kNoticeVariable = "LOCKSTEP_SLOW_NOTICE_S";
constexpr int kNoticeSeconds = 10;

std::chrono::seconds notice_interval() {
  const auto set = base::Env::of_process().text(kNoticeVariable);
  if (!set) return std::chrono::seconds(kNoticeSeconds);
  const auto seconds = base::parse_number(*set);
  if (!seconds || *seconds < 0)
    throw UsageError(concat(kNoticeVariable, "='", *set, "' is not a number of seconds"),
                     "give a whole number; 0 turns the notices off");
  return std::chrono::seconds(*seconds);
}

std::string place_of(const SourceLocation& where) {
  return concat("called at ", where.file_name(), ":", where.line());
}

}  // namespace

Group::Impl::Impl(std::shared_ptr<comm::World> the_world, std::string the_name,
                  std::vector<int> ranks, const std::string& backend_wanted,
                  std::chrono::milliseconds limit)
    : world(std::move(the_world)),
      name(std::move(the_name)),
      world_ranks(std::move(ranks)),
      rank(static_cast<int>(
          std::find(world_ranks.begin(), world_ranks.end(), world->identity.place.rank) -
          world_ranks.begin())),
      size(static_cast<int>(world_ranks.size())),
      timeout(limit),
      store(c10::make_intrusive<c10d::PrefixStore>(name, world->store)),
      exchange(store, rank, size),
      witness_(std::make_shared<comm::Witness>(world, name, world_ranks)),
      recorder_(world->host_memory.recorders.at(world->identity.place.rank)),
      progress(concat("ls:", name.substr(0, 12))) {
  hosts = find_hosts();
  turns = make_turns();
  agreement_ = std::make_unique<comm::Agreement>(turns, hosts, store, rank, size);
  comm::BackendContext context;
  context.store = c10::make_intrusive<c10d::PrefixStore>("backend", store);
  context.rank = rank;
  context.size = size;
  context.local_rank = world->identity.place.local_rank;
  context.one_host = hosts.count == 1;
  context.host_of_rank = hosts.of_rank;
  context.address = context.one_host ? "" : world->hosts.address;
  context.timeout = timeout;
  context.turns = turns;
  context.arena = world->host_memory.arena;
  context.no_memory = world->host_memory.why_not;
  backends = std::make_shared<comm::DeviceBackends>(backend_wanted, std::move(context));
  // The listener owns what it touches: it may still be running when this group ends.
  subscription_ =
      world->membership.subscribe([backends = backends, turns = turns, members = world_ranks,
                                   neighbours = hosts.neighbours](const comm::Loss& loss) {
        const auto at = std::find(members.begin(), members.end(), loss.member.rank);
        if (at == members.end()) return;
        // One that left in order may have taken part in all that is still under way here; one that
        // died has not.
        if (loss.how == rendezvous::Departure::kLost) {
          if (turns) turns->rounds().abort();
          backends->abort();
        } else if (turns) {
          const auto seat = std::find(neighbours.begin(), neighbours.end(), at - members.begin());
          if (seat != neighbours.end())
            turns->rounds().gone(static_cast<int>(seat - neighbours.begin()));
        }
      });
}

comm::GroupHosts Group::Impl::find_hosts() const {
  comm::GroupHosts found;
  std::vector<int> known;
  for (const int member : world_ranks) {
    const int host = world->hosts.of_rank[static_cast<std::size_t>(member)];
    const auto at = std::find(known.begin(), known.end(), host);
    found.of_rank.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(host);
  }
  found.count = static_cast<int>(known.size());
  found.own = found.of_rank[static_cast<std::size_t>(rank)];
  for (int member = 0; member < size; ++member) {
    if (found.of_rank[static_cast<std::size_t>(member)] != found.own) continue;
    if (member == rank) found.own_rank = static_cast<int>(found.neighbours.size());
    found.neighbours.push_back(member);
  }
  return found;
}

std::shared_ptr<host::Turns> Group::Impl::make_turns() {
  if (size == 1) return nullptr;
  const auto& memory = world->host_memory;
  const int members = static_cast<int>(hosts.neighbours.size());
  const bool shared = memory.segment && members > 1;
  // The first of each host makes the table and tells its place.
  const auto places = exchange.all_gather(
      shared && hosts.own_rank == 0 ? std::to_string(host::Table::create(memory.arena, members))
                                    : "",
      timeout);
  if (!shared) return nullptr;
  const host::Place place = std::stoull(places[static_cast<std::size_t>(hosts.neighbours.front())]);
  const auto notice = [witness = witness_, self = concat("[rank ", rank, "/", size, "] ")](
                          const std::vector<int>& missing, std::chrono::seconds waited) {
    base::log(base::LogLevel::kWarning, concat(self, "has waited ", waited.count(),
                                               " s for:", witness->tell_of_all(missing)));
  };
  return std::make_shared<host::Turns>(
      std::make_unique<host::Table>(memory.segment, place, hosts.own_rank, members), hosts.own_rank,
      hosts.neighbours, memory.segment->members() > base::usable_cpus(), notice_interval(), notice);
}

Group::Impl::Call Group::Impl::begin(const Topic& topic, const CallOptions& options,
                                     SourceLocation where) {
  // Counting what concerns only some of the ranks apart keeps the collectives' numbers equal.
  const c10::DeviceType device =
      topic.tensor == nullptr ? c10::DeviceType::CPU : topic.tensor->device().type();
  Call call{{}, 0, device, where, base::Deadline::in(options.timeout.value_or(timeout))};
  host::CallRecord& record = call.record;
  record.sequence = ++(topic.of_all ? sequence_ : sequence_of_some_);
  host::set_text(record.op, topic.op);
  if (size == 1) return call;
  host::set_text(record.reduce_op, topic.reduce_op);
  record.root = topic.root;
  if (topic.tensor != nullptr) {
    const auto dtype = comm::dtype_name(topic.tensor->scalar_type());
    if (topic.tensor->is_cpu())
      host::set_text(record.dtype, dtype);
    else
      host::set_text(record.dtype, concat(topic.tensor->device().type(), " ", dtype));
    if (!topic.any_shape) host::set_dims(record, topic.tensor->sizes());
  }
  host::set_text(record.tag, options.tag);
  host::set_text(record.group, name);
  host::set_text(record.file, where.file_name());
  record.line = where.line();
  call.number = recorder_->begin(record);
  if (const auto loss = world->membership.find(world_ranks)) {
    end(call, false);
    std::rethrow_exception(recorded(std::make_exception_ptr(peer_lost(*loss, call)), call));
  }
  return call;
}

void Group::Impl::agree(const Call& call) {
  if (size == 1) return;
  if (backends->entry(call.device).checks_itself)
    agreement_->prepare(call.record, call.deadline);
  else
    agreement_->reach(call.record, call.deadline);
}

void Group::Impl::end(const Call& call, bool well) noexcept {
  if (size == 1) return;
  recorder_->finish(call.number,
                    well ? host::CallRecord::State::kDone : host::CallRecord::State::kFailed);
}

PeerLost Group::Impl::peer_lost(const comm::Loss& loss, const Call& call) const {
  ErrorContext where = context(call);
  where.peer = loss.member.rank;
  const bool lost = loss.how == rendezvous::Departure::kLost;
  const auto at = std::find(world_ranks.begin(), world_ranks.end(), loss.member.rank);
  return PeerLost(
      concat(loss.text(), " (", place_of(call.where),
             "):", witness_->tell_of_all({static_cast<int>(at - world_ranks.begin())})),
      lost ? "look at that rank's own output; restart the job, or let the launcher (--max-restarts)"
           : "this group cannot go on without it: let every rank make the same calls",
      where);
}

TimeoutError Group::Impl::timed_out(const std::string& text, const Call& call) const {
  std::string behind;
  if (turns) behind = concat(":", witness_->tell_of_all(turns->missing()));
  return TimeoutError(
      concat(text, " (", place_of(call.where), ")", behind),
      "look at what those ranks are doing; if they are only slow, raise the timeout",
      context(call));
}

ErrorContext Group::Impl::context(const Call& call) const {
  ErrorContext context;
  context.rank = rank;
  context.world_size = size;
  context.op = call.record.op;
  context.sequence = call.record.sequence;
  context.backend = backends->text();
  context.elapsed = call.deadline.elapsed();
  return context;
}

std::optional<comm::Loss> Group::Impl::loss_behind(const std::string& text) const {
  if (const auto loss = world->membership.find(world_ranks)) return loss;
  // A closed connection is the trace of a death that the store is about to report.
  for (const char* trace : {"onnection", "roken pipe", "closed", "eset by peer"})
    if (text.find(trace) != std::string::npos)
      return world->membership.wait_for(world_ranks, base::Deadline::in(std::chrono::seconds(1)));
  return std::nullopt;
}

std::exception_ptr Group::Impl::translate(std::exception_ptr error, const Call& call) const {
  return recorded(kind_of(error, call), call);
}

std::exception_ptr Group::Impl::recorded(const std::exception_ptr& error, const Call& call) const {
  if (size == 1) return error;
  return comm::recorded(error, *world,
                        {.op = call.record.op,
                         .sequence = call.record.sequence,
                         .group = call.record.group,
                         .backend = backends->text(),
                         .members = world_ranks});
}

std::exception_ptr Group::Impl::kind_of(const std::exception_ptr& error, const Call& call) const {
  try {
    std::rethrow_exception(error);
  } catch (const host::Disagreement&) {
    return std::make_exception_ptr(
        MismatchError(witness_->disagreement(call.record.sequence),
                      "make the same calls in the same order, with equal arguments, on every rank",
                      context(call)));
  } catch (const MismatchError& mismatch) {
    return std::make_exception_ptr(
        MismatchError(mismatch.happened(), mismatch.remedy(), context(call)));
  } catch (const TimeoutError& late) {
    return std::make_exception_ptr(timed_out(late.happened(), call));
  } catch (const Error& known) {
    if (const auto loss = loss_behind(known.what()))
      return std::make_exception_ptr(peer_lost(*loss, call));
    if (dynamic_cast<const InternalError*>(&known) == nullptr || known.context().sequence)
      return error;
    return std::make_exception_ptr(InternalError(
        concat(known.happened(), " (", place_of(call.where), ")"), known.remedy(), context(call)));
  } catch (const std::exception& foreign) {
    std::string text = foreign.what();
    text = text.substr(0, text.find("\nException raised from"));
    if (const auto loss = loss_behind(text)) return std::make_exception_ptr(peer_lost(*loss, call));
    if (text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos)
      return std::make_exception_ptr(
          timed_out(concat("no answer within the time limit: ", text), call));
    if (text.find("scalar type") != std::string::npos)
      return std::make_exception_ptr(
          UsageError(concat("this backend does not take the tensor's dtype (", place_of(call.where),
                            "): ", text),
                     "convert the tensor, or choose another backend", context(call)));
    return std::make_exception_ptr(
        InternalError(concat(text, " (", place_of(call.where), ")"), "", context(call)));
  }
}

}  // namespace lockstep
