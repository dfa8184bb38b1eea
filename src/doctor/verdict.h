#pragma once
#include <string>

#include "doctor/story.h"

namespace lockstep::doctor {

/// What the records come to.
struct Verdict {
  bool found = false;  ///< a rank or a call that differs from the others
  std::string text;    ///< a paragraph
  std::string remedy;
};

/// Who differed, where. In this order, as each may bring about the next: different calls at one
/// number of a group; a rank that died; one whose process is stopped; one that left before the
/// others' last call; one that made no further calls.
Verdict judge(const Story& story);

/// Whose records they are, the first error, and the ranks of which none tells.
std::string heading(const Story& story);

}  // namespace lockstep::doctor
