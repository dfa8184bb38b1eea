#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/concat.h"
#include "base/file.h"
#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using base::concat;

int run_script(const std::string& verb, const fs::path& folder) {
  return std::system(
      concat(LOCKSTEP_PYTHON, " -W ignore ", LOCKSTEP_SCRIPT, " ", verb, " ", folder).c_str());
}

// Two steps, the state, and the parameters before and after the third.
Value optimizer_run(const MakeOptimizer& make) {
  Parameters parameters = {torch::ones({2, 3}).requires_grad_(),
                           torch::arange(4, torch::kFloat).requires_grad_()};
  const auto optimizer = make(parameters);
  const auto copies = [&] {
    Value::List list;
    for (const auto& parameter : parameters) list.emplace_back(parameter.detach().clone());
    return list;
  };
  step(*optimizer, 0);
  step(*optimizer, 1);
  const base::TemporaryFolder folder;
  save(optimizer_state_dict(*optimizer), folder.path() / "state.pth");
  Value::Dict record{{"before", copies()}, {"state", load_value(folder.path() / "state.pth")}};
  step(*optimizer, 2);
  record.items.emplace_back("after", copies());
  return record;
}

}  // namespace

TEST(PythonTest, OpensWhatWeWrite) {
  const base::TemporaryFolder folder;
  ASSERT_EQ(run_script("write", folder.path()), 0);
  save(every_dtype(), folder.path() / "dtypes.pth");
  save(views(), folder.path() / "views.pth");
  save(state_dict(*network()), folder.path() / "network.pth");
  save(load_value(folder.path() / "train.pt"), folder.path() / "train.pth");
  save_safetensors(state_dict(*network()), folder.path() / "network.safetensors");
  Value::Dict runs;
  for (const auto& [name, make] : optimizers()) runs.items.emplace_back(name, optimizer_run(make));
  save(runs, folder.path() / "optimizers.pth");
  EXPECT_EQ(run_script("verify", folder.path()), 0);
  const fs::path pythons = folder.path() / "python.safetensors";
  if (!fs::exists(pythons))
    GTEST_SKIP() << "that Python has no safetensors package; the rest was verified";
  const StateDict found = load_safetensors(pythons);
  for (const auto& item : state_dict(*network()))
    EXPECT_TRUE(same(found[item.key()], item.value())) << item.key();
}

}  // namespace lockstep::test
