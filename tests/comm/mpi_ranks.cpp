// What the ranks of mpi_test.cpp do, collectives apart.
#include <signal.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/concat.h"
#include "base/host.h"
#include "comm/backends/mpi/communicator.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using namespace std::chrono_literals;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}

int say_done(const Group& world) {
  std::printf("rank %d is done\n", world.rank());
  return 0;
}

template <class Body>
std::string what_it_says(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const ChildProgram kSubgroups("subgroups", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = 30s});
  const bool outer = world.rank() == 0 || world.rank() == 3;
  const std::vector<int> ranks = outer ? std::vector<int>{3, 0} : std::vector<int>{1, 2};
  for (int round = 0; round < 200; ++round) {
    auto group = world.new_group(ranks);
    expect(group->backend() == "mpi", group->backend());
    at::Tensor mine = at::full({1}, world.rank(), at::kLong), all = at::empty({2}, at::kLong);
    group->all_gather(all, mine);
    expect(all[0].item<int>() == ranks[0] && all[1].item<int>() == ranks[1], "the order of ranks");
  }
  // Both kinds at once, and the world beside them.
  auto group = world.new_group(ranks);
  for (int round = 0; round < 100; ++round) {
    at::Tensor inside = at::ones({100}), everywhere = at::ones({100});
    Work work = group->all_reduce(inside, ReduceOp::kSum, {.async_op = true});
    world.all_reduce(everywhere);
    work.wait();
    expect(inside[99].item<int>() == 2 && everywhere[99].item<int>() == 4, "sums at the same time");
  }
  return say_done(world);
});

const ChildProgram kMeeting("meeting", [](int, char**) {
  {
    Group gloo = join_group({.backend = "gloo", .timeout = 30s});
    at::Tensor sum = at::ones({1});
    gloo.all_reduce(sum);
    expect(sum.item<int>() == gloo.size(), "a sum over gloo");
    gloo.barrier();
  }
  Group world = init_process_group({.backend = "mpi", .timeout = 30s});
  at::Tensor sum = at::full({1}, world.rank(), at::kLong);
  world.all_reduce(sum);
  expect(sum.item<int>() == world.size() * (world.size() - 1) / 2, "a sum over mpi");
  std::set<std::string> hosts;
  for (const std::string& host : world.all_gather_text(base::host_name())) hosts.insert(host);
  const auto own = std::distance(hosts.begin(), hosts.find(base::host_name()));
  std::printf("rank %d is done on %td of %zu hosts\n", world.rank(), own + 1, hosts.size());
  destroy_process_group();
  return 0;
});

const ChildProgram kTimeout("timeout", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = 30s});
  auto calls = world.new_group({0, 1}), messages = world.new_group({0, 1});
  if (world.rank() == 0) {
    at::Tensor tensor = at::ones({10});
    const auto tell = [](const char* what, const std::function<void()>& body) {
      std::printf("%s: %s\n", what, what_it_says(body).c_str());
    };
    // The members compare their calls before MPI is asked; c10d's own door leads to MPI at once.
    tell("a call", [&] { calls->all_reduce(tensor, ReduceOp::kSum, {.timeout = 300ms}); });
    c10d::AllreduceOptions options;
    options.timeout = 300ms;
    std::vector<at::Tensor> tensors{tensor};
    const auto directly = [&] { world.c10d_backend()->allreduce(tensors, options); };
    tell("within MPI", directly);
    tell("after that", directly);
    tell("a message", [&] { messages->recv(tensor, 1, 0, {.timeout = 200ms}); });
    std::fflush(stdout);
  }
  world.barrier();
  return 0;
});

const ChildProgram kUnlike("unlike", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = 10s});
  for (const int count : {2, 3}) {
    if (world.rank() == 0) {
      world.send(at::ones({count}), 1, count);
    } else {
      at::Tensor tensor = at::empty({5 - count});
      const std::string text = what_it_says([&] { world.recv(tensor, 0, count); });
      const bool told = text.find("another size") != std::string::npos;
      std::printf("recv of %d for %d: %s\n", count, 5 - count,
                  told ? "another size" : text.c_str());
    }
  }
  std::fflush(stdout);
  world.barrier();
  return 0;
});

const ChildProgram kFailure("failure", [](int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string how = argv[1];
  const auto fail_now = [mark = argv[2]] { std::ofstream(mark) << "now"; };
  const bool culprit = place().rank == 1;
  if (culprit && how == "exit before") {
    std::this_thread::sleep_for(500ms);  // the others are inside init_process_group
    fail_now();
    std::exit(3);
  }
  Group world = init_process_group({.backend = "mpi", .timeout = 60s});
  at::Tensor tensor = at::ones({1000});
  world.all_reduce(tensor);
  if (!culprit) {
    world.all_reduce(tensor);
    return 0;
  }
  fail_now();
  if (how == "exit after") std::exit(3);
  if (how == "throw") throw std::runtime_error("thrown in main, caught there");
  if (how == "killed") ::raise(SIGKILL);
  std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
  return 0;
});

const ChildProgram kHuge("huge", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = 60s});
  const std::int64_t past = std::int64_t{1} << 31;
  at::Tensor tensor = at::zeros({past + 11}, at::kByte);
  const std::int64_t places[] = {0, past / 2 - 1, past / 2, past - 1, past, past + 10};
  for (const std::int64_t at : places) tensor[at] = at % 50 + world.rank() + 1;
  world.all_reduce(tensor);
  for (const std::int64_t at : places)
    expect(tensor[at].item<int>() == 2 * (at % 50) + 3, concat("the sum at ", at));
  if (world.rank() == 1) tensor.fill_(0);
  world.broadcast(tensor);
  for (const std::int64_t at : places)
    expect(tensor[at].item<int>() == 2 * (at % 50) + 3, concat("root's value at ", at));
  return say_done(world);
});

/// The module alone, with calls that may carry three elements or bytes at most.
class Cut {
 public:
  template <class Function, class... Arguments>
  void run(Function comm::mpi::Module::*function, Arguments... arguments) {
    runtime_.call("a call", [&](const comm::mpi::Module& module) {
      comm::mpi::Transfer* transfer = module.open(3);
      int code = (module.*function)(members_, transfer, arguments...);
      for (bool done = false; code == 0 && !done;) code = module.progress(transfer, &done);
      module.close(transfer);
      return code;
    });
  }

  Cut() {
    std::vector<int> ranks;
    for (int rank = 0; rank < runtime_.size(); ++rank) ranks.push_back(rank);
    runtime_.call("form", [&](const comm::mpi::Module& module) {
      return module.form(ranks.data(), runtime_.size(), 1, &members_);
    });
  }
  ~Cut() {
    runtime_.locked([&](const comm::mpi::Module& module) { module.dissolve(members_); });
  }
  int rank() const { return runtime_.rank(); }
  int size() const { return runtime_.size(); }

 private:
  comm::mpi::Runtime& runtime_ = comm::mpi::Runtime::instance();
  comm::mpi::Members* members_ = nullptr;
};

const ChildProgram kCut("cut", [](int, char**) {
  using namespace comm::mpi;
  Cut cut;
  const int rank = cut.rank(), size = cut.size();
  const auto value = [](int of, int at) { return static_cast<float>(of * 100 + at); };
  constexpr int kCount = 10;
  std::vector<float> mine(static_cast<std::size_t>(kCount * size)), sum(mine.size());
  for (int i = 0; i < kCount * size; ++i) mine[static_cast<std::size_t>(i)] = value(rank, i);
  for (int i = 0; i < kCount * size; ++i)
    for (int other = 0; other < size; ++other) sum[static_cast<std::size_t>(i)] += value(other, i);

  std::vector<float> data = mine, part(kCount);
  cut.run(&Module::all_reduce, data.data(), kCount * size, Element::kFloat, Combine::kSum);
  expect(data == sum, "all_reduce");
  data = mine;
  cut.run(&Module::reduce, data.data(), kCount * size, Element::kFloat, Combine::kSum, 1);
  expect(data == (rank == 1 ? sum : mine), "reduce");
  cut.run(&Module::reduce_scatter, mine.data(), part.data(), kCount, Element::kFloat,
          Combine::kSum);
  expect(std::equal(part.begin(), part.end(), sum.begin() + rank * kCount), "reduce_scatter");

  const std::string text = concat("what rank ", rank, " says"), told = "what rank 1 says";
  std::string heard = text;
  cut.run(&Module::broadcast, heard.data(), static_cast<std::int64_t>(heard.size()), 1);
  expect(heard == told, "broadcast");
  std::string all(text.size() * static_cast<std::size_t>(size), ' '), whole;
  cut.run(&Module::all_gather, text.data(), all.data(), static_cast<std::int64_t>(text.size()));
  for (int other = 0; other < size; ++other) whole += concat("what rank ", other, " says");
  expect(all == whole, "all_gather");
  const auto length = static_cast<std::int64_t>(text.size());
  if (rank == 1) cut.run(&Module::send, text.data(), length, 0, 5);
  if (rank == 0) cut.run(&Module::receive, heard.data(), length, 1, 5);
  expect(rank != 0 || heard == told, "send and receive");
  cut.run(&Module::barrier);
  std::printf("rank %d is done\n", rank);
  return 0;
});

}  // namespace
}  // namespace lockstep::test
