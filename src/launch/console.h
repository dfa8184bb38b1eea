#pragma once
#include <string>
#include <string_view>

#include "base/poller.h"

namespace lockstep::launch {

/// Writes lines of many workers to the launcher's own stdout and stderr, whole and in order of
/// arrival, without ever blocking: a reader that does not read must not keep signals from being
/// obeyed. When both streams lead to the same place they share one queue, so their lines do not
/// mix.
///
/// On a terminal one unfinished line, such as a progress bar, is kept drawn below the finished
/// ones.
class Console {
 public:
  enum Stream { kOut = 0, kErr = 1 };

  explicit Console(base::Poller& poller);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void line(Stream stream, std::string_view text);

  /// Draws `text` as the unfinished line of the stream; an empty one removes it. Only on a
  /// terminal.
  void draw(Stream stream, std::string_view text);

  /// Writes `text` as it is; it ends with a newline.
  void text(Stream stream, std::string_view text);

  bool is_terminal(Stream stream) const { return sink(stream).terminal; }

  /// More is waiting than should be held: read no more from the workers for now.
  bool congested() const;

  /// All is written.
  bool drained() const { return sinks_[kOut].pending.empty() && sinks_[kErr].pending.empty(); }

  /// Nobody will ever read the stream: its other end was closed.
  bool broken(Stream stream) const { return sink(stream).broken; }

 private:
  struct Sink {
    int fd = -1;
    bool terminal = false;
    bool watched = false;
    bool broken = false;  // nobody will ever read it
    std::string pending;
    std::string drawn;  // the unfinished line on show
  };
  Sink& sink(Stream stream) { return shared_ ? sinks_[kOut] : sinks_[stream]; }
  const Sink& sink(Stream stream) const { return shared_ ? sinks_[kOut] : sinks_[stream]; }
  void put(Sink& sink, std::string_view text);
  void write_some(Sink& sink);

  base::Poller& poller_;
  bool shared_;
  Sink sinks_[2];
};

}  // namespace lockstep::launch
