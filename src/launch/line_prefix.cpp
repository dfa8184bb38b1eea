#include "launch/line_prefix.h"

#include <cctype>

namespace lockstep::launch {
namespace {

// Length of the identifier at the start of `text`.
std::size_t identifier(const std::string& text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
    ++end;
  return end - from;
}

}  // namespace

std::string expand_template(const std::string& text,
                            const std::map<std::string, std::string>& values) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      result += text[i++];
      continue;
    }
    if (text.compare(i, 2, "$$") == 0) {
      result += '$';
      i += 2;
      continue;
    }
    const bool braced = text.compare(i + 1, 1, "{") == 0;
    const std::size_t start = i + (braced ? 2 : 1);
    const std::size_t length = identifier(text, start);
    const auto value = values.find(text.substr(start, length));
    const bool closed = !braced || text.compare(start + length, 1, "}") == 0;
    if (value == values.end() || !closed) {
      result += text[i++];
      continue;
    }
    result += value->second;
    i = start + length + (braced ? 1 : 0);
  }
  return result;
}

}  // namespace lockstep::launch
