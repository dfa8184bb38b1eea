// The check of this machine, as it is and as a shell may limit it.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "doctor/check.h"
#include "doctor/doctor.h"
#include "doctor/table.h"
#include "support/message_of.h"

namespace lockstep::doctor {
namespace {

using lockstep::test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Check& named(const Checks& checks, const std::string& name) {
  for (const Check& check : checks)
    if (check.name == name) return check;
  throw std::runtime_error("no check " + name);
}

/// One of this process's soft limits, for a while.
class Limited {
 public:
  Limited(__rlimit_resource what, rlim_t soft) : what_(what) {
    ::getrlimit(what_, &before_);
    rlimit now = before_;
    now.rlim_cur = soft;
    ::setrlimit(what_, &now);
  }
  ~Limited() { ::setrlimit(what_, &before_); }

 private:
  __rlimit_resource what_;
  rlimit before_{};
};

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

}  // namespace

TEST(MachineTest, EveryWarningHasARemedyAndNothingElse) {
  for (const auto& room :
       {memory_checks, limit_checks, processor_checks, network_checks, software_checks}) {
    for (const Check& check : room()) {
      EXPECT_NE(check.found, "") << check.name;
      EXPECT_EQ(check.remedy.empty(), check.grade == Grade::kOk)
          << check.name << ": " << check.found;
    }
  }
}

TEST(MachineTest, FewOpenFilesAreToldWithTheCommand) {
  {
    const Limited limited(RLIMIT_NOFILE, 256);
    const Check check = named(limit_checks(), "open files");
    EXPECT_EQ(check.grade, Grade::kWarn);
    EXPECT_THAT(check.found, HasSubstr("256"));
    EXPECT_THAT(check.remedy, HasSubstr("ulimit -n 65536"));
  }
  const Limited limited(RLIMIT_NOFILE, 40);
  EXPECT_EQ(named(limit_checks(), "open files").grade, Grade::kFail);
}

TEST(MachineTest, ATemporaryFolderThatCannotBeWrittenFails) {
  const Variable folder("TMPDIR", "/nonexistent/lockstep");
  const Check check = named(memory_checks(), "temporary files");
  EXPECT_EQ(check.grade, Grade::kFail);
  EXPECT_THAT(check.remedy, HasSubstr("TMPDIR"));
}

TEST(MachineTest, ALibtorchIsFoundWithoutLoadingIt) {
  const base::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "lib");
  std::ofstream(folder.path() / "lib" / "libtorch_cpu.so") << "no library at all";
  std::ofstream(folder.path() / "build-version") << "2.12.0+cpu\n";
  const Variable place("LOCKSTEP_TORCH_DIR", folder.path().string());
  const Check found = named(software_checks(), "libtorch");
  EXPECT_EQ(found.grade, Grade::kOk);
  EXPECT_THAT(found.found,
              AllOf(HasSubstr("2.12.0+cpu, CPU only"), HasSubstr(folder.path().string())));
  std::ofstream(folder.path() / "build-version") << "1.13.1\n";
  EXPECT_EQ(named(software_checks(), "libtorch").grade, Grade::kWarn);
}

TEST(MachineTest, TheTableCountsItsRows) {
  const Checks checks = {{"one", Grade::kOk, "fine", ""},
                         {"number two", Grade::kFail, "broken", "mend it"}};
  EXPECT_EQ(table_text(checks, false),
            "ok    one         fine\n"
            "FAIL  number two  broken\n"
            "                  remedy: mend it\n"
            "1 check is ok, 0 warnings, 1 failure\n");
  EXPECT_THAT(table_text(checks, true), HasSubstr("\x1b[1;31mFAIL"));
}

TEST(MachineTest, JsonHasTheSameRows) {
  const base::TemporaryFolder folder;
  const std::string path = (folder.path() / "machine.json").string();
  const Answer answer = doctor({"--json", path}, false);
  const auto bytes = base::read_file(path);
  const auto json =
      nlohmann::json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::size_t rows = 0;
  bool fails = false;
  for (const auto& row : json.at("checks")) {
    EXPECT_THAT(answer.text, HasSubstr(row.at("name").get<std::string>()));
    fails |= row.at("grade") == "fail";
    ++rows;
  }
  EXPECT_GE(rows, 15u);
  EXPECT_EQ(answer.code, fails ? kExitNotFound : kExitFound);
}

TEST(MachineTest, WrongArgumentsAreToldApart) {
  EXPECT_THAT(message_of<UsageError>([] {
                doctor({"--jason", "x"}, false);
              }),
              HasSubstr("there is no flag --jason"));
  EXPECT_THAT(message_of<UsageError>([] { doctor({"--json"}, false); }),
              HasSubstr("--json needs a file"));
  EXPECT_THAT(message_of<UsageError>([] {
                doctor({"--json", "a", "b"}, false);
              }),
              HasSubstr("takes no records"));
  EXPECT_THAT(message_of<UsageError>([] {
                doctor({"--json", "/nonexistent/a"}, false);
              }),
              AllOf(HasSubstr("/nonexistent"), Not(HasSubstr("internal"))));
}

}  // namespace lockstep::doctor
