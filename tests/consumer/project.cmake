# The CMakeLists.txt of a project that uses lockstep; check.cmake copies it beside main.cpp.
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)

option(FIND_TORCH_FIRST "Call find_package(Torch) before lockstep" OFF)
set(LOCKSTEP_SOURCE "" CACHE PATH "Build lockstep from here by add_subdirectory, instead of finding it")

if(FIND_TORCH_FIRST)
  find_package(Torch REQUIRED)
endif()
if(LOCKSTEP_SOURCE)
  add_subdirectory(${LOCKSTEP_SOURCE} lockstep)
else()
  find_package(lockstep REQUIRED)
endif()

add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE lockstep::lockstep)
if(FIND_TORCH_FIRST)
  target_link_libraries(consumer PRIVATE ${TORCH_LIBRARIES})
endif()
