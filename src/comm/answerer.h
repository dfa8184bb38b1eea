#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"
#include "host/recorder.h"

namespace lockstep::comm {

/// Tells the launcher, when it asks, what this rank and the others of its host are calling. One
/// thread of its own ("ls-answers") waits for the question.
class Answerer {
 public:
  using Recorders = std::map<int, std::shared_ptr<host::Recorder>>;

  /// Connects to the launcher's socket at `path`. One that is not there is left alone: a process
  /// may outlive its launcher's job.
  Answerer(const std::string& path, int rank, Recorders recorders);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

 private:
  void serve();

  const int rank_;
  const Recorders recorders_;
  base::Fd socket_;
  base::EventFd over_;
  std::thread thread_;
};

/// One line a rank, the own first: "0 in all_reduce #7 (sum, float32[4]) at train.cpp:30, begun 9.8
/// s ago". An empty line ends it.
std::string answer_text(int rank, const Answerer::Recorders& recorders);

}  // namespace lockstep::comm
