# Finds Open MPI and MPICH, both where both are installed: lockstep builds a module for each, and
# loads the one whose launcher started the program. Asks the compiler wrappers, which every
# installation has, by their show option. Makes lockstep_mpi::openmpi and lockstep_mpi::mpich.

# lockstep_find_mpi(flavor mark wrappers...): `mark` is a word that its mpi.h alone has.
function(lockstep_find_mpi flavor mark)
  foreach(wrapper IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "LOCKSTEP_${wrapper}" variable)
    find_program(${variable} NAMES ${wrapper})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      continue()
    endif()
    execute_process(COMMAND ${${variable}} -show OUTPUT_VARIABLE shown ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      continue()
    endif()
    separate_arguments(words UNIX_COMMAND "${shown}")
    set(includes ${words})
    list(FILTER includes INCLUDE REGEX "^-I")
    list(TRANSFORM includes REPLACE "^-I" "")
    set(links ${words})
    list(FILTER links INCLUDE REGEX "^(-L|-l|-Wl,-rpath)")
    # One that the compiler finds by itself needs no -I.
    foreach(folder IN LISTS includes ITEMS /usr/include)
      if(EXISTS "${folder}/mpi.h")
        file(STRINGS "${folder}/mpi.h" marked REGEX "^#define ${mark}" LIMIT_COUNT 1)
        if(marked)
          add_library(lockstep_mpi::${flavor} INTERFACE IMPORTED GLOBAL)
          set_target_properties(lockstep_mpi::${flavor} PROPERTIES
            INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${includes}" INTERFACE_INCLUDE_DIRECTORIES "${includes}"
            INTERFACE_LINK_LIBRARIES "${links}")
          message(STATUS "lockstep: ${flavor} by ${${variable}}")
          return()
        endif()
      endif()
    endforeach()
  endforeach()
  message(STATUS "lockstep: no ${flavor}, so no module for it")
endfunction()

lockstep_find_mpi(openmpi OPEN_MPI mpicc.openmpi mpicc)
lockstep_find_mpi(mpich MPICH_VERSION mpicc.mpich mpicc)
