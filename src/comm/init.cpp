#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <numeric>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/log.h"
#include "comm/group_impl.h"

namespace lockstep {
namespace {

/// The process's world. Never destroyed: a program that ends without destroy_process_group must
/// keep its exit code, and tearing threads down while statics die would not let it.
struct DefaultWorld {
  std::mutex mutex;
  std::optional<Group> group;
};

DefaultWorld& default_world() {
  static DefaultWorld* world = new DefaultWorld;
  return *world;
}

/// A program that ended in order has left, not died, whether it said so or not. One that failed is
/// lost: nobody shall wait for it, nor it for others.
void leave_at_exit(int status, void*) {
  DefaultWorld& world = default_world();
  const std::lock_guard lock(world.mutex);
  if (world.group && status == 0) world.group->impl()->world->leave();
}

/// mpirun and srun leave every rank with the threads of a whole machine. A value the user set is
/// kept.
void share_cores(const comm::World& world) {
  if (base::Env::of_process().has("OMP_NUM_THREADS")) return;
  const auto& hosts = world.hosts.of_rank;
  const auto here = hosts[static_cast<std::size_t>(world.identity.place.rank)];
  const auto ranks = static_cast<int>(std::count(hosts.begin(), hosts.end(), here));
  if (ranks == 1) return;
  const int cpus = base::usable_cpus(), threads = std::max(1, cpus / ranks);
  at::set_num_threads(threads);
  if (world.identity.place.rank == 0)
    base::log(base::LogLevel::kInfo,
              base::concat("OMP_NUM_THREADS is not set: ", threads, " threads for each of ", ranks,
                           " ranks on ", cpus, " usable processors"));
}

}  // namespace

Group join_group(InitOptions options) {
  auto made = comm::make_world(options);
  std::vector<int> ranks(static_cast<std::size_t>(made->identity.place.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return Group(std::make_shared<Group::Impl>(std::move(made), options.group_name, std::move(ranks),
                                             options.backend, options.timeout));
}

Group init_process_group(InitOptions options) {
  DefaultWorld& world = default_world();
  const std::lock_guard lock(world.mutex);
  if (world.group)
    throw UsageError("init_process_group was called twice in this process",
                     "call destroy_process_group() before, or use world()");
  world.group = join_group(std::move(options));
  share_cores(*world.group->impl()->world);
  [[maybe_unused]] static const int registered = ::on_exit(leave_at_exit, nullptr);
  return *world.group;
}

void destroy_process_group() {
  DefaultWorld& world = default_world();
  std::optional<Group> group;
  {
    const std::lock_guard lock(world.mutex);
    group.swap(world.group);
  }
  if (!group) throw UsageError("destroy_process_group was called before init_process_group");
  group->impl()->world->leave();
}

Group world() {
  DefaultWorld& world = default_world();
  const std::lock_guard lock(world.mutex);
  if (!world.group)
    throw UsageError("there is no process group yet", "call lockstep::init_process_group() first");
  return *world.group;
}

bool is_initialized() {
  DefaultWorld& world = default_world();
  const std::lock_guard lock(world.mutex);
  return world.group.has_value();
}

Place place() { return comm::detect(base::Env::of_process()).place; }

}  // namespace lockstep
