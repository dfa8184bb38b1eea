#include "doctor/doctor.h"

#include <algorithm>

#include "base/concat.h"
#include "base/file.h"
#include "doctor/table.h"
#include "doctor/verdict.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

using base::concat;

constexpr const char* kHelp = R"(lockstep doctor [--json FILE]
lockstep doctor RECORD...

Without records: checks whether this machine is ready for a job, and says what to do where it is
not. --json FILE writes the same as JSON.

With flight records, the files that a failed job's errors name: says which rank differed from the
others, and where. Give those of all ranks, of all hosts.

Exit code: 0 nothing fails here, or a cause was found; 1 something fails, or the records show no
cause; 2 wrong arguments, or files that cannot be read or do not belong together.
)";

struct Arguments {
  bool help = false;
  std::string json;
  std::vector<std::string> files;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments found;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      found.help = true;
    } else if (word == "--json" && i + 1 < words.size()) {
      found.json = words[++i];
    } else if (word.starts_with("--json=") && word.size() > 7) {
      found.json = word.substr(7);
    } else if (word.starts_with("-")) {
      throw UsageError(word == "--json" || word == "--json=" ? "--json needs a file"
                                                             : concat("there is no flag ", word),
                       "lockstep doctor --help lists what there is");
    } else {
      found.files.push_back(word);
    }
  }
  if (!found.json.empty() && !found.files.empty())
    throw UsageError("--json belongs to the check of the machine, which takes no records",
                     "leave one of the two out");
  return found;
}

void write_json(const std::string& path, const Checks& checks) {
  const std::string text = table_json(checks);
  try {
    base::AtomicFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const Error& error) {
    throw UsageError(error.happened(), "give --json a file that can be written");
  }
}

Answer examine_machine(const std::string& json, bool colour) {
  Checks all;
  for (const auto& room :
       {memory_checks, limit_checks, processor_checks, network_checks, software_checks}) {
    Checks checks = room();
    all.insert(all.end(), std::move_iterator(checks.begin()), std::move_iterator(checks.end()));
  }
  if (!json.empty()) write_json(json, all);
  const bool fails = std::any_of(all.begin(), all.end(),
                                 [](const Check& check) { return check.grade == Grade::kFail; });
  return {fails ? kExitNotFound : kExitFound, table_text(all, colour)};
}

Answer examine_records(const std::vector<std::string>& paths) {
  std::vector<FlightFile> files;
  for (const std::string& path : paths) files.push_back(read_flight_file(path));
  const Story story(std::move(files));
  const Verdict verdict = judge(story);
  return {verdict.found ? kExitFound : kExitNotFound,
          concat(heading(story), "\n\n", verdict.text, "\n  remedy: ", verdict.remedy, "\n")};
}

}  // namespace

Answer doctor(const std::vector<std::string>& words, bool colour) {
  const Arguments arguments = parse(words);
  if (arguments.help) return {kExitFound, kHelp};
  if (!arguments.files.empty()) return examine_records(arguments.files);
  return examine_machine(arguments.json, colour);
}

}  // namespace lockstep::doctor
