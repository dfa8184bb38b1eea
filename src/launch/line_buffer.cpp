#include "launch/line_buffer.h"

namespace lockstep::launch {
namespace {

// The part of a line that a terminal shows at its end. A return at the very end moves the cursor
// only.
std::string_view last_drawn(std::string_view line) {
  std::string_view body = line;
  while (body.ends_with('\r')) body.remove_suffix(1);
  const auto start = body.rfind('\r');
  return start == std::string_view::npos ? body : body.substr(start + 1);
}

}  // namespace

void LineBuffer::append(std::string_view bytes,
                        const std::function<void(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    pending_.append(bytes.substr(0, newline));
    if (newline == std::string_view::npos) break;
    on_line(last_drawn(pending_));
    pending_.clear();
    bytes.remove_prefix(newline + 1);
  }
  if (pending_.find('\r') != std::string::npos) {
    // Older drawings of the line are gone for good; without this a long-lived progress bar fills
    // memory.
    const bool returned = pending_.back() == '\r';
    pending_ = std::string(last_drawn(pending_)) + (returned ? "\r" : "");
  }
  while (pending_.size() > kLongest) {
    on_line(std::string_view(pending_).substr(0, kLongest));
    pending_.erase(0, kLongest);
  }
}

std::string_view LineBuffer::unfinished() const { return last_drawn(pending_); }

void LineBuffer::finish(const std::function<void(std::string_view)>& on_line) {
  if (pending_.empty()) return;
  on_line(last_drawn(pending_));
  pending_.clear();
}

void Tail::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, kLongest));
  if (lines_.size() > kLines) lines_.pop_front();
}

}  // namespace lockstep::launch
