#include <algorithm>

#include "comm/group_impl.h"

namespace lockstep {

void Work::wait() {
  State& state = *state_;
  if (!state.done) {
    try {
      if (state.operation) {
        state.group->progress.finish(*state.operation);
        if (state.operation->error) std::rethrow_exception(state.operation->error);
      } else if (state.pending) {
        // To c10d a limit of 0 means none.
        state.pending->wait(
            std::max(state.call.deadline.remaining(), std::chrono::milliseconds(1)));
        if (state.finish) state.finish();
        state.group->end(state.call, true);
      }
    } catch (...) {
      state.group->end(state.call, false);
      state.error = state.group->translate(std::current_exception(), state.call);
    }
    state.done = true;
    state.pending.reset();
    state.operation.reset();
    state.finish = nullptr;
  }
  if (state.error) std::rethrow_exception(state.error);
}

bool Work::is_completed() const {
  if (state_->done) return true;
  if (state_->operation) return state_->group->progress.is_done(*state_->operation);
  return !state_->pending || state_->pending->isCompleted();
}

}  // namespace lockstep
