#include "comm/slurm_lists.h"

#include <algorithm>

#include "base/concat.h"
#include "base/env.h"
#include "lockstep/error.h"

namespace lockstep::comm {

using base::concat;

std::vector<int> parse_tasks_per_node(const std::string& text) {
  const auto bad = [&] {
    return UsageError(concat("cannot read Slurm's task list '", text, "'"),
                      "expected such as 3,1 or 2(x3)");
  };
  std::vector<int> tasks;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    const std::size_t open = item.find("(x");
    const auto count = base::parse_number(item.substr(0, open));
    long repeat = 1;
    if (open != std::string::npos) {
      if (!item.ends_with(')')) throw bad();
      repeat = base::parse_number(item.substr(open + 2, item.size() - open - 3)).value_or(0);
    }
    if (!count || *count < 1 || repeat < 1 || repeat > 1'000'000) throw bad();
    tasks.insert(tasks.end(), static_cast<std::size_t>(repeat), static_cast<int>(*count));
    at = comma + 1;
  }
  if (tasks.empty()) throw bad();
  return tasks;
}

std::vector<std::string> parse_node_list(const std::string& text) {
  const auto bad = [&] {
    return UsageError(concat("cannot read Slurm's node list '", text, "'"),
                      "expected such as n[1-2],x[007-009,12]");
  };
  std::vector<std::string> names;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find('[', at), comma = std::min(text.find(',', at), text.size());
    if (open == std::string::npos || comma < open) {
      if (comma == at) throw bad();
      names.push_back(text.substr(at, comma - at));
      at = comma + 1;
      continue;
    }
    const std::size_t close = text.find(']', open);
    if (close == std::string::npos) throw bad();
    const std::string prefix = text.substr(at, open - at);
    const std::size_t end = std::min(text.find(',', close), text.size());
    const std::string suffix = text.substr(close + 1, end - close - 1);
    for (std::size_t item = open + 1; item < close;) {
      const std::size_t next = std::min(text.find(',', item), close);
      const std::string range = text.substr(item, next - item);
      const std::size_t dash = range.find('-');
      const std::string low = range.substr(0, dash),
                        high = dash == std::string::npos ? low : range.substr(dash + 1);
      const auto first = base::parse_number(low), last = base::parse_number(high);
      if (!first || !last || *first < 0 || *last < *first || *last - *first > 1'000'000)
        throw bad();
      for (long number = *first; number <= *last; ++number) {
        const std::string digits = std::to_string(number);
        const std::string zeros(low.size() > digits.size() ? low.size() - digits.size() : 0, '0');
        names.push_back(prefix + zeros + digits + suffix);
      }
      item = next + 1;
    }
    at = end + 1;
  }
  if (names.empty()) throw bad();
  return names;
}

}  // namespace lockstep::comm
