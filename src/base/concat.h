#pragma once
#include <sstream>
#include <string>

namespace lockstep::base {

/// The parts as one string, each as its operator<< writes it.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

}  // namespace lockstep::base
