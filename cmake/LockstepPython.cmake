# LOCKSTEP_PYTHON: a Python with torch, to compare with. Without one the tests labelled peer do not exist.
if(EXISTS "${PROJECT_SOURCE_DIR}/.deps/python/bin/python")
  set(found_python "${PROJECT_SOURCE_DIR}/.deps/python/bin/python")
endif()
set(LOCKSTEP_PYTHON "${found_python}" CACHE FILEPATH "A Python that can import torch, for the peer tests")
