#pragma once
#include <chrono>
#include <memory>

#include "gloo/transport/pair.h"

namespace gloo {

// Never created here: libtorch makes the contexts and hands out pointers.
class Context {
 public:
  virtual ~Context();
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();
  std::unique_ptr<transport::Pair>& getPair(int rank);
};

}  // namespace gloo
