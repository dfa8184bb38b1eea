# The launchers of Open MPI and MPICH, for tests that start programs by them.
find_program(LOCKSTEP_OPEN_MPI NAMES mpirun.openmpi)
find_program(LOCKSTEP_MPICH NAMES mpirun.mpich mpiexec.hydra)
mark_as_advanced(LOCKSTEP_OPEN_MPI LOCKSTEP_MPICH)

# lockstep_use_mpirun(target): defines both paths, empty where launcher or module is missing: its tests say so.
function(lockstep_use_mpirun target)
  foreach(pair LOCKSTEP_OPEN_MPI:openmpi LOCKSTEP_MPICH:mpich)
    string(REGEX MATCH "(.*):(.*)" all ${pair})
    set(path "")
    if(${CMAKE_MATCH_1} AND TARGET lockstep_mpi_${CMAKE_MATCH_2})
      set(path ${${CMAKE_MATCH_1}})
    endif()
    target_compile_definitions(${target} PRIVATE ${CMAKE_MATCH_1}="${path}")
  endforeach()
endfunction()
