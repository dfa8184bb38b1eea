# One static library a room, linked only with the rooms it may include (ARCHITECTURE.md has the table;
# tests/layers checks every #include against it). liblockstep is made of their objects.

# Everything is built -fPIC, executables too: one precompiled header then serves libraries and tests.
add_library(lockstep_build_flags INTERFACE)
target_compile_features(lockstep_build_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_build_flags INTERFACE -fPIC -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms inside std::string's operator+ (GCC bug 105651).
  target_compile_options(lockstep_build_flags INTERFACE -Wno-restrict -Wno-stringop-overflow)
endif()
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_build_flags INTERFACE -Werror)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_build_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(lockstep_build_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
target_include_directories(lockstep_build_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      ${LOCKSTEP_CCACHE})
endif()

# lockstep_use_torch(target): compile against libtorch, with the shared precompiled header.
function(lockstep_use_torch target)
  target_link_libraries(${target} PRIVATE lockstep_torch::torch)
  if(NOT TARGET lockstep_precompiled)
    file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
    add_library(lockstep_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(lockstep_precompiled PRIVATE lockstep_build_flags lockstep_torch::torch)
    target_compile_options(lockstep_precompiled PRIVATE -fpch-preprocess)
    target_precompile_headers(lockstep_precompiled PRIVATE <torch/torch.h>)
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM lockstep_precompiled)
endfunction()

# lockstep_room(name [TORCH] SOURCES files... [LINKS targets...])
function(lockstep_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "SOURCES;LINKS" ${ARGN})
  add_library(lockstep_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_build_flags ${ROOM_LINKS})
  if(ROOM_TORCH)
    lockstep_use_torch(lockstep_${name})
  endif()
endfunction()
