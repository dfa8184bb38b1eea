#include "launch/worker_stream.h"

#include <algorithm>
#include <fstream>

#include "base/concat.h"
#include "base/log.h"
#include "base/os_error.h"
#include "base/stream_io.h"
#include "launch/log_tree.h"

namespace lockstep::launch {
namespace {

using base::concat;

// Of a large log file only the end is read for the report.
constexpr std::streamoff kTailBytes = std::streamoff{64} * 1024;

std::vector<std::string> tail_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  Tail tail;
  LineBuffer lines;
  const auto add = [&](std::string_view line) { tail.add(line); };
  char piece[4096];
  while (in.read(piece, sizeof piece) || in.gcount() > 0)
    lines.append({piece, static_cast<std::size_t>(in.gcount())}, add);
  lines.finish(add);
  return tail.lines();
}

}  // namespace

LineFilter::LineFilter(std::vector<std::string> texts, const std::filesystem::path& file)
    : texts_(std::move(texts)), file_(create_file(file)) {}

void LineFilter::offer(std::string_view line) const {
  const bool matches = std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
    return line.find(text) != std::string_view::npos;
  });
  if (!matches) return;
  const std::string whole = concat(line, "\n");
  if (const int error = base::write_all(file_.get(), whole))
    base::log(base::LogLevel::kWarning,
              concat("cannot write a filtered log: ", base::errno_text(error)));
}

WorkerStream::WorkerStream(StreamRoute route, Console& console)
    : route_(std::move(route)), console_(console) {
  if (route_.inherited) return;
  if (route_.file) file_ = create_file(*route_.file);
  if (route_.direct) {
    worker_end_ = std::move(file_);
    return;
  }
  base::Pipe pipe = base::make_pipe();
  source_ = std::move(pipe.read_end);
  worker_end_ = std::move(pipe.write_end);
}

void WorkerStream::started() { worker_end_.reset(); }

bool WorkerStream::read_some(std::size_t limit) {
  // As without a launcher: who writes to a console that was closed (a pipe into head) is told so.
  if (route_.shown && !route_.file && console_.broken(route_.console)) return false;
  char piece[kPiece];
  while (limit > 0 && source_) {
    const base::IoResult result =
        base::read_some(source_.get(), {piece, std::min(limit, sizeof piece)});
    if (result.would_block) return true;
    if (result.ended) return false;
    take({piece, result.count});
    limit -= result.count;
  }
  return static_cast<bool>(source_);
}

void WorkerStream::finish() {
  read_some(SIZE_MAX);
  source_.reset();
  show_unfinished("");
  lines_.finish([this](std::string_view line) { take_line(line); });
}

std::vector<std::string> WorkerStream::tail() const {
  if (route_.direct && route_.file) return tail_of_file(*route_.file);
  Tail tail = tail_;
  if (!lines_.unfinished().empty()) tail.add(lines_.unfinished());
  return tail.lines();
}

void WorkerStream::take(std::string_view bytes) {
  if (file_) write_file(bytes);
  lines_.append(bytes, [this](std::string_view line) { take_line(line); });
  show_unfinished(lines_.unfinished());
}

void WorkerStream::show_unfinished(std::string_view text) {
  if (!route_.draws || (text.empty() && !drawing_)) return;
  drawing_ = !text.empty();
  console_.draw(route_.console, drawing_ ? route_.prefix + std::string(text) : "");
}

void WorkerStream::take_line(std::string_view line) {
  tail_.add(line);
  if (!route_.shown && route_.filter == nullptr) return;
  std::string whole = route_.prefix;
  whole.append(line);
  if (route_.filter != nullptr) route_.filter->offer(whole);
  if (!route_.shown) return;
  show_unfinished("");
  console_.line(route_.console, whole);
}

void WorkerStream::write_file(std::string_view bytes) {
  const int error = base::write_all(file_.get(), bytes);
  if (error == 0) return;
  base::log(base::LogLevel::kWarning,
            concat("cannot write ", route_.file->string(), ": ", base::errno_text(error),
                   "; its output goes on without the file"));
  file_.reset();
}

}  // namespace lockstep::launch
