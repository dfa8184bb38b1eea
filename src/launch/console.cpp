#include "launch/console.h"

#include "base/stream_io.h"
#include "base/terminal.h"

namespace lockstep::launch {
namespace {

constexpr int kStandardOutput = 1;
constexpr int kStandardError = 2;

constexpr std::size_t kCongested = std::size_t{1} << 20;

// The beginning of `text` that fits into `width` columns: a drawn line must not wrap, or it could
// not be erased. Escape sequences take no column; of UTF-8 each character counts one.
std::string_view fitting(std::string_view text, int width) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
      continue;
    }
    const bool continues_character = (byte & 0xc0) == 0x80;
    if (!continues_character && ++columns >= width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Console::Console(base::Poller& poller)
    : poller_(poller), shared_(base::same_file(kStandardOutput, kStandardError)) {
  sinks_[kOut].fd = kStandardOutput;
  sinks_[kErr].fd = kStandardError;
  for (Sink& sink : sinks_) sink.terminal = base::is_terminal(sink.fd);
}

Console::~Console() {
  for (Sink& sink : sinks_)
    if (sink.watched) poller_.forget(sink.fd);
}

void Console::line(Stream stream, std::string_view content) {
  std::string whole;
  whole.reserve(content.size() + 1);
  whole.append(content).push_back('\n');
  text(stream, whole);
}

void Console::text(Stream stream, std::string_view content) {
  Sink& to = sink(stream);
  if (to.drawn.empty()) return put(to, content);
  std::string whole = "\r\x1b[K";
  whole.append(content).append(fitting(to.drawn, base::terminal_width(to.fd)));
  put(to, whole);
}

void Console::draw(Stream stream, std::string_view content) {
  Sink& to = sink(stream);
  if (!to.terminal || to.drawn == content) return;
  to.drawn = content;
  std::string whole = "\r\x1b[K";
  whole.append(fitting(content, base::terminal_width(to.fd)));
  put(to, whole);
}

void Console::put(Sink& to, std::string_view content) {
  if (to.broken) return;
  const bool idle = to.pending.empty();
  to.pending.append(content);
  if (idle) write_some(to);
}

void Console::write_some(Sink& to) {
  std::size_t done = 0;
  while (done < to.pending.size()) {
    const base::IoResult result =
        base::write_without_blocking(to.fd, std::string_view(to.pending).substr(done));
    if (result.would_block) break;
    to.broken = result.ended;
    done = to.broken ? to.pending.size() : done + result.count;
  }
  to.pending.erase(0, done);
  const bool wanted = !to.pending.empty();
  if (wanted == to.watched) return;
  to.watched =
      wanted && poller_.watch(to.fd, EPOLLOUT, [this, &to](std::uint32_t) { write_some(to); });
  if (!wanted) poller_.forget(to.fd);
}

bool Console::congested() const {
  return sinks_[kOut].pending.size() > kCongested || sinks_[kErr].pending.size() > kCongested;
}

}  // namespace lockstep::launch
