#pragma once
#include <map>
#include <string>

namespace lockstep::launch {

/// `text` with each $name and ${name} of `values` replaced and $$ as $; others stay (as Python's
/// Template.safe_substitute has it).
std::string expand_template(const std::string& text,
                            const std::map<std::string, std::string>& values);

}  // namespace lockstep::launch
