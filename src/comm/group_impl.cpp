#include "comm/group_impl.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/concat.h"

namespace lockstep {

using base::concat;

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
      exchange(store, rank, size) {
  comm::BackendContext context;
  context.store = c10::make_intrusive<c10d::PrefixStore>("backend", store);
  context.rank = rank;
  context.size = size;
  context.local_rank = world->identity.place.local_rank;
  context.one_host = world->one_host(world_ranks);
  context.address = context.one_host ? "" : world->hosts.address;
  context.timeout = timeout;
  const comm::BackendEntry& entry = comm::choose_backend(backend_wanted, context);
  backend_name = entry.name;
  backend = entry.create(context);
  // The listener owns what it touches: it may still be running when this group ends.
  subscription_ = world->membership.subscribe(
      [backend = backend, members = world_ranks](const comm::Loss& loss) {
        const bool member =
            std::find(members.begin(), members.end(), loss.member.rank) != members.end();
        // One that left in order may have taken part in all that is still under way here; one that
        // died has not.
        if (member && loss.how == rendezvous::Departure::kLost) backend->abort();
      });
}

Group::Impl::Call Group::Impl::begin(const char* op, const CallOptions& options,
                                     std::source_location where) {
  // Point-to-point calls concern two ranks only; counting them apart keeps the collectives' numbers
  // equal.
  const bool point_to_point = op == kSend || op == kRecv;
  Call call{op, ++(point_to_point ? point_to_point_sequence_ : sequence_), where,
            std::chrono::steady_clock::now(), options.timeout.value_or(timeout)};
  if (size == 1) return call;
  if (const auto loss = world->membership.find(world_ranks)) throw peer_lost(*loss, call);
  return call;
}

PeerLost Group::Impl::peer_lost(const comm::Loss& loss, const Call& call) const {
  ErrorContext where = context(call);
  where.peer = loss.member.rank;
  return PeerLost(
      concat(loss.text(), " (called at ", call.where.file_name(), ":", call.where.line(), ")"),
      loss.how == rendezvous::Departure::kLost
          ? "look at that rank's own output; restart the job, or let the launcher (--max-restarts)"
          : "this group cannot go on without it: let every rank make the same calls",
      where);
}

ErrorContext Group::Impl::context(const Call& call) const {
  ErrorContext context;
  context.rank = rank;
  context.world_size = size;
  context.op = call.op;
  context.sequence = call.sequence;
  context.backend = backend_name;
  context.elapsed = std::chrono::steady_clock::now() - call.begin;
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
  const std::string place = concat("called at ", call.where.file_name(), ":", call.where.line());
  try {
    std::rethrow_exception(error);
  } catch (const TimeoutError& timed_out) {
    return std::make_exception_ptr(TimeoutError(concat(timed_out.happened(), " (", place, ")"),
                                                timed_out.remedy(), context(call)));
  } catch (const Error& known) {
    if (const auto loss = loss_behind(known.what()))
      return std::make_exception_ptr(peer_lost(*loss, call));
    return error;
  } catch (const std::exception& foreign) {
    std::string text = foreign.what();
    text = text.substr(0, text.find("\nException raised from"));
    if (const auto loss = loss_behind(text)) return std::make_exception_ptr(peer_lost(*loss, call));
    if (text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos)
      return std::make_exception_ptr(TimeoutError(
          concat("no answer within ", call.timeout.count(), " ms (", place, "): ", text),
          "look at what the other ranks are doing; if they are only slow, raise the timeout",
          context(call)));
    if (text.find("scalar type") != std::string::npos)
      return std::make_exception_ptr(
          UsageError(concat("this backend does not take the tensor's dtype (", place, "): ", text),
                     "convert the tensor, or choose another backend", context(call)));
    return std::make_exception_ptr(
        InternalError(concat(text, " (", place, ")"), "", context(call)));
  }
}

}  // namespace lockstep
