#pragma once

namespace gloo::transport {

// Held by pointer only: made by ProcessGroupGloo::createDeviceFor... and passed back to it.
class Device {
 public:
  virtual ~Device();
};

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};

}  // namespace gloo::transport
