# Once more by each MPI that is installed: the module is built with its mpicc, and its mpirun starts the ranks.
if(NOT WEFT_SANITIZE MATCHES thread) # MPI has no build for it, and threads of MPI's own would be told
  set(mpi_sanitize "")
  if(WEFT_SANITIZE)
    set(mpi_sanitize -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all)
  endif()
  foreach(mpi openmpi mpich)
    find_program(mpicc_${mpi} mpicc.${mpi})
    find_program(mpirun_${mpi} mpirun.${mpi})
  endforeach()
  foreach(mpi openmpi mpich)
    if(NOT WEFT_USE_MPI OR NOT mpicc_${mpi} OR NOT mpirun_${mpi})
      continue()
    endif()
    set(start "${mpirun_mpich} -launcher fork -iface lo -n")
    if(mpi STREQUAL openmpi)
      set(start "${mpirun_openmpi} --oversubscribe --mca plm isolated --mca oob_tcp_if_include lo --mca btl self,vader -n")
    endif()
    set(folder ${PROJECT_BINARY_DIR}/mpi/${mpi})
    weft_test(mpi_module_${mpi} tools ${CMAKE_CURRENT_SOURCE_DIR}/tools/mpi_module.sh ${mpicc_${mpi}} ${PROJECT_SOURCE_DIR}
              ${folder} ${mpi_sanitize})
    set_tests_properties(mpi_module_${mpi} PROPERTIES FIXTURES_SETUP mpi_${mpi})
    if(NOT WEFT_SANITIZE)
      set(other mpich)
      if(mpi STREQUAL mpich)
        set(other openmpi)
      endif()
      set(other_folder "")
      if(mpicc_openmpi AND mpicc_mpich AND mpirun_openmpi AND mpirun_mpich)
        set(other_folder ${PROJECT_BINARY_DIR}/mpi/${other})
      endif()
      weft_test(mpi_beside_${mpi} tools ${CMAKE_CURRENT_SOURCE_DIR}/tools/mpi_beside.sh ${mpicc_${mpi}} ${start} ${PROJECT_SOURCE_DIR}
                $<TARGET_FILE_DIR:weft> ${folder} "${other_folder}" $<TARGET_FILE:weft-run> ${PROJECT_BINARY_DIR}/mpi/beside_${mpi})
      set_property(TEST mpi_beside_${mpi} APPEND PROPERTY ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
      set_tests_properties(mpi_beside_${mpi} PROPERTIES TIMEOUT 120 PROCESSORS 2 RESOURCE_LOCK mpi
                           FIXTURES_REQUIRED "mpi_${mpi};mpi_${other}")
    endif()
    set(rows conformance:batch conformance:callbacks conformance:collectives conformance:groups conformance:mismatch
             conformance:random conformance:requests conformance:uneven conformance:waiting fault:cancel fault:cycles fault:straggler)
    if(mpi STREQUAL openmpi) # whose mpirun can let the others live; MPICH 4.0's ends by itself then
      list(APPEND rows fault:death fault:shrink)
    endif()
    if(WEFT_SANITIZE) # each file of the module, and no more
      set(rows conformance:groups conformance:random conformance:uneven fault:cancel)
    endif()
    foreach(row IN LISTS rows)
      string(REPLACE ":" ";" row ${row})
      list(GET row 0 label)
      list(GET row 1 noun)
      set(test ${label}_${noun}_${mpi})
      set(program ${label}_${noun})
      string(REPLACE conformance_ test_ program ${program})
      set(how "${start}")
      if(noun MATCHES "^(death|shrink)$")
        string(REPLACE --oversubscribe "--oversubscribe --enable-recovery" how "${start}")
        list(APPEND how JOB_MPIRUN_SURVIVES=1 WEFT_DRAIN_MS=20000) # what the dead never end is not waited for
      endif()
      weft_test(${test} ${label} ${program})
      if(WEFT_SANITIZE) # what MPI itself never frees
        list(APPEND how ASAN_OPTIONS=detect_leaks=0)
      endif()
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT JOB_MPIRUN=${how} WEFT_BACKENDS=host,mpi
                   WEFT_MODULE_DIR=${folder} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
      # One job at a time: in a call that blocks (MPI_Comm_create_group is one) MPICH never gives the processor away,
      # so the ranks of one job keep those of another from it.
      set_tests_properties(${test} PROPERTIES TIMEOUT 600 PROCESSORS 2 RESOURCE_LOCK mpi FIXTURES_REQUIRED mpi_${mpi})
    endforeach()
  endforeach()
endif()
