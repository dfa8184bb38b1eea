#pragma once
#include <string>

#include "gloo/transport/pair.h"

namespace gloo::transport::tcp {

// transport::Pair is its first base there too.
class Pair : public ::gloo::transport::Pair {
 public:
  ~Pair() override;
  void signalExceptionExternal(const std::string& message);
};

}  // namespace gloo::transport::tcp
