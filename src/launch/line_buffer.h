#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

/// Cuts a stream of bytes into whole lines.
///
/// A carriage return inside a line starts it anew, as on a terminal: of "10%\r20%\r30%\n" the line
/// is "30%". What a progress bar draws before its line ends is seen by `unfinished`.
class LineBuffer {
 public:
  /// Lines without a newline are cut at this many bytes.
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  /// Calls `on_line` for each line that is now complete, without its newline.
  void append(std::string_view bytes, const std::function<void(std::string_view)>& on_line);

  /// What a terminal would show of the line that has not ended yet.
  std::string_view unfinished() const;

  /// Ends the stream: an unfinished line becomes a line.
  void finish(const std::function<void(std::string_view)>& on_line);

 private:
  std::string pending_;
};

/// The last lines of a stream, for the failure report.
class Tail {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLongest = 1000;  ///< bytes kept of one line

  void add(std::string_view line);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace lockstep::launch
