#include "doctor/table.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/concat.h"
#include "base/host.h"

namespace lockstep::doctor {
namespace {

using base::concat;
using Json = nlohmann::json;

const char* text_of(Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "ok";
    case Grade::kWarn:
      return "warn";
    case Grade::kFail:
      return "FAIL";
  }
  return "";
}

const char* colour_of(Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "32";
    case Grade::kWarn:
      return "33";
    case Grade::kFail:
      return "1;31";
  }
  return "0";
}

std::string counted(const Checks& checks, Grade grade, const char* one, const char* many) {
  const auto count = std::count_if(checks.begin(), checks.end(),
                                   [&](const Check& check) { return check.grade == grade; });
  return concat(count, " ", count == 1 ? one : many);
}

}  // namespace

std::string table_text(const Checks& checks, bool colour) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::ostringstream text;
  for (const Check& check : checks) {
    text << (colour ? concat("\x1b[", colour_of(check.grade), "m") : "") << std::left
         << std::setw(5) << text_of(check.grade) << (colour ? "\x1b[0m" : "") << ' '
         << std::setw(static_cast<int>(width)) << check.name << "  " << check.found << '\n';
    if (!check.remedy.empty())
      text << std::string(width + 8, ' ') << "remedy: " << check.remedy << '\n';
  }
  text << counted(checks, Grade::kOk, "check is ok", "checks are ok") << ", "
       << counted(checks, Grade::kWarn, "warning", "warnings") << ", "
       << counted(checks, Grade::kFail, "failure", "failures") << '\n';
  return std::move(text).str();
}

std::string table_json(const Checks& checks) {
  Json rows = Json::array();
  for (const Check& check : checks) {
    const std::string grade = check.grade == Grade::kFail ? "fail" : text_of(check.grade);
    rows.push_back(
        {{"name", check.name}, {"grade", grade}, {"found", check.found}, {"remedy", check.remedy}});
  }
  return Json({{"host", base::host_name()}, {"checks", std::move(rows)}})
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace lockstep::doctor
