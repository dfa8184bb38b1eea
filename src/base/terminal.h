#pragma once

namespace lockstep::base {

bool is_terminal(int fd);

/// Columns of the terminal behind `fd`; 80 where it does not tell.
int terminal_width(int fd);

/// Do both descriptors lead to the same file, pipe or terminal?
bool same_file(int left, int right);

}  // namespace lockstep::base
