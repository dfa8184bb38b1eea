#include "comm/group_impl.h"

namespace lockstep {

void Work::wait() {
  State& state = *state_;
  if (!state.done) {
    try {
      if (state.pending) state.pending->wait(state.call.timeout);
      if (state.finish) state.finish();
    } catch (...) {
      state.error = state.group->translate(std::current_exception(), state.call);
    }
    state.done = true;
    state.pending.reset();
    state.finish = nullptr;
  }
  if (state.error) std::rethrow_exception(state.error);
}

bool Work::is_completed() const {
  return state_->done || !state_->pending || state_->pending->isCompleted();
}

}  // namespace lockstep
