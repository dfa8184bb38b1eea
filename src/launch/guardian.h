#pragma once
#include "launch/run_options.h"

namespace lockstep::launch {

/// Runs a job on this node, from checked options to the exit code.
///
/// Two processes share the work, so that no single kill -9 leaves anything behind. The one that the
/// user started is the *guardian*: it forks the *agent*, passes signals on, and hands the exit code
/// on. The agent starts and watches the workers. If the guardian is killed, the agent sees it and
/// kills the tree. If the agent is killed, its workers die with it (parent-death signal), and what
/// they leave behind becomes the guardian's, a subreaper, which kills it.
///
/// The calling process has one thread and no children. Throws what can be known before anything is
/// started: UsageError, ProgramError.
int run_job(RunOptions options);

}  // namespace lockstep::launch
