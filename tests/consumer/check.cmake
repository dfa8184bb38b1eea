# Builds a small project against lockstep in one of the ways that docs/install.md names, and runs it.
#   cmake -DWAY=... -DFOLDER=... -DBUILD=... -DSOURCE=... -DTORCH=... -P check.cmake
# WAY: package, source, folder or torch-first. FOLDER is emptied first. BUILD: lockstep's build tree.
# "source" compiles all of lockstep, for minutes: it only configures unless -DCOMPILE=ON.
set(prefix "${FOLDER}/prefix")
set(project "${FOLDER}/project")
set(arguments -DCMAKE_BUILD_TYPE=Release)

# must(COMMAND...): runs it, and fails with its output; `output` is what it said.
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# prefer(prefixes): CMAKE_PREFIX_PATH for the project, in a file: a list does not survive a command line.
function(prefer prefixes)
  file(WRITE "${FOLDER}/cache.cmake" "set(CMAKE_PREFIX_PATH \"${prefixes}\" CACHE STRING \"\")\n")
  set(arguments ${arguments} -C "${FOLDER}/cache.cmake" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${project}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/project.cmake" "${project}/CMakeLists.txt" COPYONLY)
configure_file("${CMAKE_CURRENT_LIST_DIR}/main.cpp" "${project}/main.cpp" COPYONLY)

# The libtorch under another name than lockstep was built with: what is found is then what was asked for.
set(asked "${FOLDER}/elsewhere/libtorch")
file(MAKE_DIRECTORY "${FOLDER}/elsewhere")
file(CREATE_LINK "${TORCH}" "${asked}" SYMBOLIC)

if(NOT WAY STREQUAL "source")
  must(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
endif()
if(WAY STREQUAL "package")
  prefer("${prefix};${asked}/share/cmake")
elseif(WAY STREQUAL "folder")
  prefer("${prefix};${asked}")
elseif(WAY STREQUAL "source")
  list(APPEND arguments "-DLOCKSTEP_SOURCE=${SOURCE}" "-DLOCKSTEP_TORCH_DIR=${asked}")
elseif(WAY STREQUAL "torch-first")
  # The smallest program of a project that knows only torch: where that fails, there is nothing to live with.
  file(WRITE "${FOLDER}/torch/main.cpp" "int main() {}\n")
  file(WRITE "${FOLDER}/torch/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.25)\nproject(alone LANGUAGES CXX)\nfind_package(Torch REQUIRED)\n"
    "add_executable(alone main.cpp)\ntarget_link_libraries(alone \"\${TORCH_LIBRARIES}\")\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S "${FOLDER}/torch" -B "${FOLDER}/torch/build"
    "-DCMAKE_PREFIX_PATH=${TORCH}/share/cmake" RESULT_VARIABLE configured OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND ${CMAKE_COMMAND} --build "${FOLDER}/torch/build"
    RESULT_VARIABLE built OUTPUT_QUIET ERROR_QUIET)
  if(NOT configured EQUAL 0 OR NOT built EQUAL 0)
    message("SKIPPED: a project with find_package(Torch) alone does not build here (a CUDA wheel without all of CUDA)")
    file(REMOVE_RECURSE "${FOLDER}")
    return()
  endif()
  prefer("${prefix};${asked}/share/cmake")
  list(APPEND arguments -DFIND_TORCH_FIRST=ON)
else()
  message(FATAL_ERROR "WAY is '${WAY}': give package, source, folder or torch-first")
endif()

must(${CMAKE_COMMAND} -S "${project}" -B "${project}/build" ${arguments})
string(FIND "${output}" " in ${asked}\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "the libtorch in ${asked} was asked for, another was found:\n${output}")
endif()
if(EXISTS "${project}/build/lockstep/tests" OR EXISTS "${project}/build/lockstep/bench")
  message(FATAL_ERROR "lockstep's tests and benchmarks became part of a project that only uses it")
endif()
if(WAY STREQUAL "source" AND NOT COMPILE)
  file(REMOVE_RECURSE "${FOLDER}")
  return()
endif()
must(${CMAKE_COMMAND} --build "${project}/build" --target consumer)
must("${project}/build/consumer" "${FOLDER}/model.pth")
file(SIZE "${FOLDER}/model.pth" size)
if(size EQUAL 0)
  message(FATAL_ERROR "${FOLDER}/model.pth is empty")
endif()
file(REMOVE_RECURSE "${FOLDER}")
