#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "launch/console.h"
#include "launch/line_buffer.h"

namespace lockstep::launch {

/// A copy of lines that hold one of some texts, of all workers of a node.
class LineFilter {
 public:
  LineFilter(std::vector<std::string> texts, const std::filesystem::path& file);
  void offer(std::string_view line) const;

 private:
  std::vector<std::string> texts_;
  base::Fd file_;
};

/// What becomes of one output stream of one worker.
struct StreamRoute {
  Console::Stream console = Console::kOut;
  bool shown = true;                          ///< lines go to the console
  bool draws = false;                         ///< its unfinished line is drawn there
  std::string prefix;                         ///< before each line on the console
  std::optional<std::filesystem::path> file;  ///< all bytes go there
  bool direct = false;                        ///< only there: the worker writes the file itself
  bool inherited = false;                     ///< the worker writes to the launcher's own stream
  const LineFilter* filter = nullptr;
};

/// One output stream of one worker, from its pipe to console, file and failure report.
class WorkerStream {
 public:
  WorkerStream(StreamRoute route, Console& console);

  /// The descriptor that the worker gets; closed here by `started`, unless it is the launcher's
  /// own.
  int worker_end() const { return route_.inherited ? 1 : worker_end_.get(); }
  void started();

  /// The pipe to watch; -1 when the launcher reads nothing.
  int source() const { return source_.get(); }

  /// Takes what the pipe holds, at most `limit` bytes. False when all writers have closed it.
  bool read_some(std::size_t limit = kPiece);

  /// Reads no more: who still writes gets SIGPIPE.
  void close() { source_.reset(); }

  /// Takes all that is left and ends the stream.
  void finish();

  /// The last lines, also of a stream that only goes to a file.
  std::vector<std::string> tail() const;
  const std::optional<std::filesystem::path>& file() const { return route_.file; }

  static constexpr std::size_t kPiece = std::size_t{1} << 16;

 private:
  void take(std::string_view bytes);
  void take_line(std::string_view line);
  void show_unfinished(std::string_view text);
  void write_file(std::string_view bytes);

  StreamRoute route_;
  Console& console_;
  base::Fd source_;
  base::Fd worker_end_;
  base::Fd file_;
  LineBuffer lines_;
  Tail tail_;
  bool drawing_ = false;  // the console shows an unfinished line of this stream
};

}  // namespace lockstep::launch
