#include <algorithm>
#include <set>

#include "base/concat.h"
#include "comm/group_impl.h"

namespace lockstep {
namespace {

using base::concat;

std::string text_of(const std::vector<int>& ranks, const std::string& backend) {
  std::string text = backend.empty() ? "[" : backend + "[";
  for (const int rank : ranks) text += concat(text.back() == '[' ? "" : ", ", rank);
  return text + "]";
}

/// Compares this group's making with every other member. For each pair of ranks the groups that
/// hold both are numbered, and the n-th must be the same on both sides: any subset, order or list
/// that differs is found at once, by the pair that differs, without a deadlock.
void agree(comm::World& world, const std::vector<int>& members, const std::string& mine,
           std::chrono::milliseconds limit) {
  const int self = world.identity.place.rank;
  const auto key = [](int from, int to, std::uint64_t number) {
    return concat("new_group/", from, "/", to, "/", number);
  };
  std::vector<std::pair<int, std::uint64_t>> others;
  {
    const std::lock_guard lock(world.groups_mutex);
    for (const int member : members)
      if (member != self) others.emplace_back(member, world.groups_with[member]++);
  }
  for (const auto& [other, number] : others) world.store->set(key(self, other, number), mine);
  for (const auto& [other, number] : others) {
    const std::string theirs_key = key(other, self, number);
    world.store->wait({theirs_key}, limit);
    const std::string theirs = world.store->get_to_str(theirs_key);
    world.store->deleteKey(theirs_key);
    if (theirs == mine) continue;
    throw MismatchError(
        concat("this rank makes the sub-group ", mine, " while rank ", other, " makes ", theirs),
        "ranks must make the sub-groups that they share in the same order, with equal lists");
  }
}

/// How many groups of just these ranks this process has made; equal on all of them.
std::uint64_t made_before(comm::World& world, const std::string& ranks) {
  const std::lock_guard lock(world.groups_mutex);
  return world.groups_of[ranks]++;
}

}  // namespace

std::optional<Group> Group::new_group(const std::vector<int>& ranks, const std::string& backend,
                                      std::optional<std::chrono::milliseconds> timeout,
                                      Where where) {
  const Impl::Call call = impl_->begin({.op = "new_group", .of_all = false}, {}, where);
  std::set<int> distinct(ranks.begin(), ranks.end());
  if (ranks.empty() || distinct.size() != ranks.size() || *distinct.begin() < 0 ||
      *distinct.rbegin() >= size())
    throw UsageError(
        concat("the list ", text_of(ranks, ""), " is not a set of ranks of this group of ", size()),
        concat("give distinct ranks from 0 to ", size() - 1), impl_->context(call));
  if (!distinct.contains(rank())) return std::nullopt;
  std::vector<int> world_ranks;
  for (const int member : ranks)
    world_ranks.push_back(impl_->world_ranks[static_cast<std::size_t>(member)]);
  comm::World& world = *impl_->world;
  const std::string wanted = backend.empty() ? impl_->backends->wanted() : backend;
  const std::chrono::milliseconds limit = timeout.value_or(impl_->timeout);
  try {
    agree(world, world_ranks, text_of(world_ranks, wanted), impl_->timeout);
    const std::string name =
        concat(text_of(world_ranks, ""), "#", made_before(world, text_of(world_ranks, "")));
    return Group(std::make_shared<Impl>(impl_->world, name, world_ranks, wanted, limit));
  } catch (...) {
    std::rethrow_exception(impl_->translate(std::current_exception(), call));
  }
}

}  // namespace lockstep
