#pragma once

namespace gloo::transport {

// One connection to one peer. Made and owned by a context.
class Pair {
 public:
  virtual ~Pair();
};

}  // namespace gloo::transport
