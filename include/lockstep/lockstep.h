#pragma once
/// All of lockstep. Each header below can be included alone.

#include "lockstep/checkpoint.h"
#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
