#include "comm/agreement.h"

#include "base/concat.h"

namespace lockstep::comm {

Agreement::Agreement(std::shared_ptr<host::Turns> turns, Exchange exchange)
    : turns_(std::move(turns)), exchange_(std::move(exchange)) {}

void Agreement::prepare(const host::CallRecord& call, base::Deadline deadline) {
  turns_->begin(call.digest(), deadline);
}

void Agreement::reach(const host::CallRecord& call, base::Deadline deadline) {
  if (turns_) {
    prepare(call, deadline);
    turns_->take();
    return;
  }
  const auto calls =
      exchange_.all_gather(base::concat(call.digest(), " ", call.text()), deadline.remaining());
  const auto digest = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  const auto told = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    if (digest(calls[rank]) != digest(calls.front()))
      throw MismatchError(
          base::concat("the ranks are in different calls: rank 0 called ", told(calls.front()),
                       ", rank ", rank, " called ", told(calls[rank])),
          "make the same calls in the same order, with equal arguments, on every rank");
}

}  // namespace lockstep::comm
