# Builds the nccl backend and its tests against the CUDA libtorch of a Python, and runs the tests: they say by
# themselves what needs a GPU.
#   cmake -DSOURCE=... -DFOLDER=... -DPYTHON=... -P nccl_build.cmake
# FOLDER is emptied first.
set(torch "")
if(PYTHON)
  execute_process(COMMAND "${PYTHON}" -c "import torch; print(torch.__path__[0])"
    OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS "${torch}/lib/libtorch_cuda.so")
  message("SKIPPED: no Python whose torch has CUDA (./dev python fetches one)")
  return()
endif()

# must(COMMAND...): runs it, and fails with its output.
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0 OR output MATCHES "no nccl backend")
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
must(${CMAKE_COMMAND} -S "${SOURCE}" -B "${FOLDER}" -G Ninja -DCMAKE_BUILD_TYPE=Debug "-DLOCKSTEP_TORCH_DIR=${torch}"
  -DLOCKSTEP_BUILD_BENCH=OFF -DLOCKSTEP_BUILD_EXAMPLES=OFF)
must(${CMAKE_COMMAND} --build "${FOLDER}" -j 1 --target comm_nccl_tests)
must("${FOLDER}/tests/comm/comm_nccl_tests")
file(REMOVE_RECURSE "${FOLDER}")
