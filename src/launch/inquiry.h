#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/poller.h"

namespace lockstep::launch {

/// Asks this node's workers what they are doing, over a socket to which lockstep's library connects
/// in each of them. Of a worker that does not answer, being stopped, the others of the node tell:
/// they share its record of calls. Single-threaded: all happens in handlers that the poller calls,
/// and in `step`.
class Inquiry {
 public:
  /// By rank, what is told of its calls.
  using Told = std::map<int, std::string>;

  /// Listens at `folder`/inquiry.
  Inquiry(base::Poller& poller, const std::filesystem::path& folder);
  ~Inquiry();
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  const std::string& path() const { return path_; }

  /// Asks all who are connected. `done` is called once, when all have answered or the time is over.
  /// While a question is under way a further one is dropped.
  void ask(std::function<void(const Told&)> done);

  /// Ends a question whose time is over.
  void step();

  /// When `step` must be called at the latest; nothing while no question is under way.
  const std::optional<base::Deadline>& deadline() const { return deadline_; }

 private:
  struct Connection {
    base::Fd fd;
    std::string answer;
    bool asked = false;
  };

  void on_connection();
  void on_answer(Connection& connection);
  void take(const std::string& answer);
  void close(int fd);
  void finish_if_all_answered();
  void finish();

  base::Poller& poller_;
  std::string path_;
  base::Fd listener_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::function<void(const Told&)> done_;
  Told told_;      ///< by the rank itself
  Told observed_;  ///< by another
  std::optional<base::Deadline> deadline_;
};

}  // namespace lockstep::launch
