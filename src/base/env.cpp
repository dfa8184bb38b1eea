#include "base/env.h"

#include <unistd.h>

#include <charconv>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::base {

Env Env::of_process() {
  std::map<std::string, std::string, std::less<>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return Env(std::move(variables));
}

std::optional<std::string> Env::text(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<long> Env::number(std::string_view name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = parse_number(*value);
  if (!number) {
    throw UsageError(concat(name, "='", *value, "' in the environment is not a whole number"),
                     concat("set ", name, " to a number, or unset it"));
  }
  return number;
}

bool Env::flag(std::string_view name, bool otherwise) const {
  const auto value = text(name);
  if (!value) return otherwise;
  for (const char* yes : {"1", "true", "True", "TRUE", "yes", "on"})
    if (*value == yes) return true;
  for (const char* no : {"0", "false", "False", "FALSE", "no", "off"})
    if (*value == no) return false;
  throw UsageError(concat(name, "='", *value, "' in the environment is neither true nor false"),
                   concat("set ", name, " to 1 or 0"));
}

std::optional<long> parse_number(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep::base
