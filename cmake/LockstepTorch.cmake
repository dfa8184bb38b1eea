# Finds libtorch without find_package(Torch), which stops on a CUDA wheel when no CUDA toolkit is
# installed. Accepts a PyPI wheel, the libtorch zip or a conda package, given by
#   -DLOCKSTEP_TORCH_DIR=<folder that holds include/ and lib/>, or
#   CMAKE_PREFIX_PATH (python -c 'import torch; print(torch.utils.cmake_prefix_path)', or the folder), or
#   the private folder that ./dev fills (.deps/), or for the installed package
#   LOCKSTEP_TORCH_BUILT_AGAINST, the one that lockstep itself was built with.
# Makes the imported target lockstep_torch::torch. The file is installed: the package uses it too.

# Gives the caller of lockstep_find_torch LOCKSTEP_TORCH_ROOT, _CUDA and _VERSION, from the target, which
# every folder of the project sees.
macro(lockstep_publish_torch)
  foreach(fact ROOT CUDA VERSION)
    get_target_property(value lockstep_torch::torch LOCKSTEP_${fact})
    set(LOCKSTEP_TORCH_${fact} "${value}" PARENT_SCOPE)
  endforeach()
endmacro()

function(lockstep_find_torch)
  if(TARGET lockstep_torch::torch)
    lockstep_publish_torch()
    return()
  endif()
  set(hints "")
  if(LOCKSTEP_TORCH_DIR)
    list(APPEND hints "${LOCKSTEP_TORCH_DIR}" "${LOCKSTEP_TORCH_DIR}/torch")
  endif()
  if(Torch_DIR)
    list(APPEND hints "${Torch_DIR}/../../..")
  endif()
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    list(APPEND hints "${prefix}" "${prefix}/../.." "${prefix}/torch")
  endforeach()
  if(DEFINED ENV{CMAKE_PREFIX_PATH})
    string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
    foreach(prefix IN LISTS from_environment)
      list(APPEND hints "${prefix}" "${prefix}/../.." "${prefix}/torch")
    endforeach()
  endif()
  if(PROJECT_NAME STREQUAL "lockstep")
    file(GLOB private_folders "${PROJECT_SOURCE_DIR}/.deps/libtorch-*/torch")
    list(SORT private_folders COMPARE NATURAL ORDER DESCENDING)
    list(APPEND hints ${private_folders})
  endif()
  list(APPEND hints ${LOCKSTEP_TORCH_BUILT_AGAINST})

  set(found "")
  foreach(hint IN LISTS hints)
    if(EXISTS "${hint}/include/torch/csrc/api/include/torch/torch.h" AND EXISTS "${hint}/lib/libtorch_cpu.so")
      get_filename_component(found "${hint}" ABSOLUTE)
      break()
    endif()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR
      "lockstep: no libtorch found. Give one of\n"
      "  -DLOCKSTEP_TORCH_DIR=<folder with include/ and lib/>\n"
      "  -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')\n"
      "or run ./dev build, which fetches a pinned wheel into .deps/.")
  endif()

  file(STRINGS "${found}/include/torch/headeronly/version.h" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE ".*TORCH_VERSION_MAJOR ([0-9]+).*" "\\1" major "${version_lines}")
  string(REGEX REPLACE ".*TORCH_VERSION_MINOR ([0-9]+).*" "\\1" minor "${version_lines}")
  if(NOT major EQUAL 2 OR minor LESS 11 OR minor GREATER 15)
    message(WARNING "lockstep: libtorch ${major}.${minor} in ${found} is outside the tested range 2.11 to 2.15.")
  endif()
  message(STATUS "lockstep: libtorch ${major}.${minor} in ${found}")

  add_library(lockstep_torch::torch INTERFACE IMPORTED GLOBAL)
  set_target_properties(lockstep_torch::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${found}/include;${found}/include/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${found}/include;${found}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
  set(libraries "${found}/lib/libtorch_cpu.so" "${found}/lib/libc10.so")
  # The CPU library of a CUDA wheel needs two CUDA run-time libraries, which lie beside the wheel.
  # -rpath-link only helps the link; at run time the wheel's own RPATH finds them.
  get_filename_component(site "${found}" REALPATH)
  get_filename_component(site "${site}" DIRECTORY)
  file(GLOB beside "${site}/nvidia/*/lib")
  set(link_options "")
  foreach(folder IN LISTS beside)
    list(APPEND link_options "LINKER:-rpath-link,${folder}")
  endforeach()
  set(LOCKSTEP_TORCH_CUDA OFF)
  if(EXISTS "${found}/lib/libtorch_cuda.so")
    file(GLOB nccl "${site}/nvidia/nccl/lib/libnccl.so*")
    file(GLOB cublas "${site}/nvidia/*/lib/libcublas.so*")
    if((nccl AND cublas) OR NOT EXISTS "${site}/nvidia")
      # Nothing refers to libtorch_cuda by symbol; it registers its kernels when loaded.
      list(APPEND libraries "-Wl,--no-as-needed,${found}/lib/libtorch_cuda.so,${found}/lib/libc10_cuda.so,--as-needed")
      set(LOCKSTEP_TORCH_CUDA ON)
    endif()
  endif()
  set_target_properties(lockstep_torch::torch PROPERTIES
    INTERFACE_LINK_LIBRARIES "${libraries}"
    INTERFACE_LINK_OPTIONS "${link_options}")
  set_target_properties(lockstep_torch::torch PROPERTIES
    LOCKSTEP_ROOT "${found}" LOCKSTEP_CUDA ${LOCKSTEP_TORCH_CUDA} LOCKSTEP_VERSION "${major}.${minor}")
  lockstep_publish_torch()
endfunction()
