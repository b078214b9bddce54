# How ctest runs these tests beside each other.  Most wait for most of their time, for deadlines and for each other's ranks: of
# the thread sanitizer's a test has the processor for a third of it.  Those that compute count as two.
get_property(tests DIRECTORY PROPERTY TESTS)
set(computing "^(conformance_(algorithms|collectives|memory|random|rank_order|repeats|threads)_.*"
              "|test_(bell|biased|counts|keys|protocols|reduce|scale|sim)|fault_(cycles|death|parted|scarce)(_.*)?|fuzz_.*)$")
# What takes longest begins first, so that none is the last one alone: ctest knows how long each takes from its second run on.
set(long "^(fault_(cycles|dumped|module|parted|progress|straggler)(_.*)?|device_(bundles|faults|graphs|program)"
         "|conformance_collectives_nccl|test_(protocols|relay|via_server))$")
string(JOIN "" computing ${computing})
string(JOIN "" long ${long})
foreach(test IN LISTS tests)
  if(test MATCHES "${computing}")
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
  if(test MATCHES "${long}")
    set_tests_properties(${test} PROPERTIES COST 100)
  endif()
endforeach()
