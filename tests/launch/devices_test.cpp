#include "launch/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/cpu_set.h"
#include "base/file.h"
#include "launch/cpu_binding.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

base::Env with(const std::string& devices) {
  return base::Env({{"CUDA_VISIBLE_DEVICES", devices}});
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

}  // namespace

TEST(DevicesTest, CountsDeviceFilesAsCudaSeesThem) {
  const base::TemporaryFolder root;
  EXPECT_EQ(visible_gpus(base::Env({}), root.path()), 0);
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"})
    write(root.path() / "dev" / name, "");
  EXPECT_EQ(visible_gpus(base::Env({}), root.path()), 3);
  EXPECT_EQ(visible_gpus(with("0,2"), root.path()), 2);
  EXPECT_EQ(visible_gpus(with("0,-1,1"), root.path()), 1);
  EXPECT_EQ(visible_gpus(with("1,9,0"), root.path()), 1);
  EXPECT_EQ(visible_gpus(with("GPU-1a, MIG-2b"), root.path()), 2);
  EXPECT_EQ(visible_gpus(with("-1"), root.path()), 0);
  EXPECT_EQ(visible_gpus(with(""), root.path()), 0);
  EXPECT_EQ(local_world_size("auto", base::Env({}), root.path()), 3);
  EXPECT_EQ(local_world_size("gpu", with("2"), root.path()), 1);
  EXPECT_THROW(local_world_size("gpu", with("-1"), root.path()), UsageError);
  EXPECT_GE(local_world_size("cpu", base::Env({}), root.path()), 1);
  EXPECT_EQ(local_world_size("7", base::Env({}), root.path()), 7);
}

TEST(CpuBindingTest, OneNodeNeedsNoBinding) {
  const base::TemporaryFolder root;
  write(root.path() / "sys/devices/system/node/node0/cpulist", "0-63");
  EXPECT_THAT(cpus_for_worker(CpuBinding::kNode, 0, 2, root.path()), IsEmpty());
  EXPECT_THAT(cpus_for_worker(CpuBinding::kSocket, 0, 2, root.path()), IsEmpty());
  EXPECT_THAT(cpus_for_worker(CpuBinding::kNone, 0, 2, root.path()), IsEmpty());
}

TEST(CpuBindingTest, WorkersAreDealtOutOverNodesCoresAndCaches) {
  const auto allowed = base::allowed_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "this process may use one processor only";
  const std::string a = std::to_string(allowed[0]);
  const std::string b = std::to_string(allowed[1]);
  const base::TemporaryFolder root;
  const fs::path system = root.path() / "sys/devices/system";
  write(system / "node/node0/cpulist", a);
  write(system / "node/node1/cpulist", b);
  EXPECT_THAT(cpus_for_worker(CpuBinding::kNode, 0, 2, root.path()), ElementsAre(allowed[0]));
  EXPECT_THAT(cpus_for_worker(CpuBinding::kNode, 1, 2, root.path()), ElementsAre(allowed[1]));
  // Both nodes on one socket.
  EXPECT_THAT(cpus_for_worker(CpuBinding::kSocket, 1, 2, root.path()),
              ElementsAre(allowed[0], allowed[1]));

  fs::remove_all(system / "node/node1");
  write(system / "node/node0/cpulist", a + "," + b);
  EXPECT_THAT(cpus_for_worker(CpuBinding::kExclusive, 0, 2, root.path()), ElementsAre(allowed[0]));
  EXPECT_THAT(cpus_for_worker(CpuBinding::kExclusive, 1, 2, root.path()), ElementsAre(allowed[1]));
  EXPECT_THROW(cpus_for_worker(CpuBinding::kExclusive, 0, 3, root.path()), UsageError);
  write(system / "cpu" / ("cpu" + a) / "cache/index3/shared_cpu_list", a);
  write(system / "cpu" / ("cpu" + b) / "cache/index3/shared_cpu_list", b);
  EXPECT_THAT(cpus_for_worker(CpuBinding::kCoreComplex, 1, 4, root.path()),
              ElementsAre(allowed[1]));
  EXPECT_THAT(cpus_for_worker(CpuBinding::kCoreComplex, 2, 4, root.path()),
              ElementsAre(allowed[0]));
}

TEST(CpuBindingTest, AGpusNodeIsPreferred) {
  const auto allowed = base::allowed_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "this process may use one processor only";
  const base::TemporaryFolder root;
  write(root.path() / "sys/devices/system/node/node0/cpulist", std::to_string(allowed[0]));
  write(root.path() / "sys/devices/system/node/node1/cpulist", std::to_string(allowed[1]));
  write(root.path() / "proc/driver/nvidia/gpus/0000:DC:00.0/information",
        "Model: X\nDevice Minor: \t 0");
  write(root.path() / "sys/bus/pci/devices/0000:dc:00.0/numa_node", "1");
  EXPECT_THAT(cpus_for_worker(CpuBinding::kNode, 0, 2, root.path()), ElementsAre(allowed[1]));
}

}  // namespace lockstep::launch
