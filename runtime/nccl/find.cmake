# Finds the CUDA runtime and NCCL: headers and shared libraries, in a toolkit or in the wheels of Python.
#
#   searched, first to last            for CUDA                               for NCCL
#   given (then nothing else)          CUDAToolkit_ROOT                       NCCL_HOME
#   usual places                       CUDA_HOME, CUDA_PATH, /usr/local/cuda  where CUDA was found, /usr/local
#   wheels in site-packages            nvidia/cu13, nvidia/cuda_runtime       nvidia/nccl
#   the system                         /usr                                   /usr
#
# Names are variables of CMake or of the environment.  A place counts when it has the header and the library of the
# header's version; one that is too old is passed over, and named where nothing better is found.
#
# The header of NVTX 3, which is all there is of it, is looked for where CUDA is, in the wheel nvidia/nvtx and in the
# system.  Sets WEFT_NVTX_INCLUDE and WEFT_NVTX_VERSION (empty: not found).
#
# Sets WEFT_NCCL (ON: both are there), WEFT_CUDA_VERSION and WEFT_NCCL_VERSION (empty: not found), and makes the
# targets weft_cudart and weft_nccl_lib (headers and library), weft_cuda_headers and weft_nccl_headers.
set(WEFT_CUDA_NEEDED 12.0)
set(WEFT_NCCL_NEEDED 2.19)
option(WEFT_USE_CUDA "Look for CUDA and NCCL, which device memory needs" ON)

# A variable of CMake, else of the environment.
function(weft_given result)
  set(value "")
  foreach(name IN LISTS ARGN)
    if(NOT value AND DEFINED ${name})
      set(value "${${name}}")
    elseif(NOT value AND DEFINED ENV{${name}})
      set(value "$ENV{${name}}")
    endif()
  endforeach()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# The folders in which Python packages are installed: those of the active environment, of python3, of the system.
function(weft_python_folders result)
  set(folders "")
  if(DEFINED ENV{VIRTUAL_ENV})
    file(GLOB folders "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")
  endif()
  find_program(python3 python3 NO_CACHE)
  if(python3)
    set(script "import site, sysconfig
print(*[sysconfig.get_path('purelib'), sysconfig.get_path('platlib'), site.getusersitepackages(),
        *site.getsitepackages()], sep=';')")
    execute_process(COMMAND ${python3} -c "${script}" OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE code
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(code EQUAL 0)
      list(APPEND folders ${said})
    endif()
  endif()
  file(GLOB system /usr/lib/python3*/dist-packages /usr/local/lib/python3*/dist-packages)
  list(APPEND folders ${system})
  list(REMOVE_DUPLICATES folders)
  set(${result} "${folders}" PARENT_SCOPE)
endfunction()

# The number that a header defines a name as; 0 if it does not.
function(weft_defined header name result)
  set(number 0)
  file(STRINGS ${header} line REGEX "^#define[ \t]+${name}[ \t]+[0-9]+" LIMIT_COUNT 1)
  if(line MATCHES "${name}[ \t]+([0-9]+)")
    set(number ${CMAKE_MATCH_1})
  endif()
  set(${result} ${number} PARENT_SCOPE)
endfunction()

function(weft_version_of_cuda header version soname)
  weft_defined(${header} CUDART_VERSION number)
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(${version} ${major}.${minor} PARENT_SCOPE)
  set(${soname} libcudart.so.${major} PARENT_SCOPE)
endfunction()

function(weft_version_of_nccl header version soname)
  weft_defined(${header} NCCL_MAJOR major)
  weft_defined(${header} NCCL_MINOR minor)
  weft_defined(${header} NCCL_PATCH patch)
  set(${version} ${major}.${minor}.${patch} PARENT_SCOPE)
  set(${soname} libnccl.so.${major} PARENT_SCOPE)
endfunction()

# weft_look(CUDA|NCCL HEADER NEEDED ROOT...) sets WEFT_X_VERSION, _ROOT, _INCLUDE, _LIBRARY to the first root's that
# will do, or WEFT_X_WHY_NOT to what is the matter.
function(weft_look what header needed)
  string(TOLOWER ${what} lower)
  set(machine targets/${CMAKE_SYSTEM_PROCESSOR}-linux)
  set(why_not "")
  set(WEFT_${what}_VERSION "" PARENT_SCOPE)
  foreach(root IN LISTS ARGN)
    find_path(include ${header} PATHS ${root} PATH_SUFFIXES include ${machine}/include NO_DEFAULT_PATH NO_CACHE)
    if(include)
      cmake_language(CALL weft_version_of_${lower} ${include}/${header} version soname)
      find_file(library ${soname} PATHS ${root} NO_DEFAULT_PATH NO_CACHE
                PATH_SUFFIXES lib64 lib lib/${CMAKE_LIBRARY_ARCHITECTURE} ${machine}/lib)
      if(version VERSION_LESS needed)
        list(APPEND why_not "${what} ${version} in ${root} is too old: ${needed} or later is needed")
      elseif(NOT library)
        list(APPEND why_not "${root} has the headers of ${what} ${version} and no ${soname}")
      else()
        foreach(field VERSION:${version} ROOT:${root} INCLUDE:${include} LIBRARY:${library})
          string(REGEX MATCH "^([A-Z]+):(.*)$" field ${field})
          set(WEFT_${what}_${CMAKE_MATCH_1} ${CMAKE_MATCH_2} PARENT_SCOPE)
        endforeach()
        return()
      endif()
    endif()
    unset(include)
    unset(library)
  endforeach()
  if(NOT why_not)
    set(why_not "no ${what} here")
    if(ARGC EQUAL 4) # the one that was given
      set(why_not "no ${what} in ${ARGV3}")
    endif()
  endif()
  list(JOIN why_not "; " why_not)
  set(WEFT_${what}_WHY_NOT "${why_not}" PARENT_SCOPE)
endfunction()

# The parts of the headers that NVIDIA ships in wheels of their own (nvcc, crt, cccl) come from there, or else from
# headers/, which has as much of them as C needs.
function(weft_cuda_headers_target wheels)
  set(include ${WEFT_CUDA_INCLUDE})
  foreach(folder IN LISTS wheels)
    if(EXISTS ${folder}/cuda_nvcc/include/crt/host_defines.h AND WEFT_CUDA_INCLUDE STREQUAL ${folder}/cuda_runtime/include)
      list(APPEND include ${folder}/cuda_nvcc/include)
    endif()
  endforeach()
  list(APPEND include ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/headers)
  add_library(weft_cuda_headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(weft_cuda_headers SYSTEM INTERFACE ${include})
endfunction()

function(weft_find_nvtx cuda)
  weft_python_folders(folders)
  list(TRANSFORM folders APPEND /nvidia/nvtx)
  find_path(include nvtx3/nvToolsExt.h PATHS ${cuda} ${folders} /usr PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
  if(include)
    file(STRINGS ${include}/nvtx3/nvToolsExt.h line REGEX "define NVTX_VERSION [0-9]" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" version "${line}")
    set(WEFT_NVTX_INCLUDE ${include} PARENT_SCOPE)
    set(WEFT_NVTX_VERSION ${version} PARENT_SCOPE)
  endif()
endfunction()

function(weft_find_nccl)
  weft_python_folders(folders)
  list(TRANSFORM folders APPEND /nvidia OUTPUT_VARIABLE wheels)
  list(TRANSFORM wheels APPEND /cu13 OUTPUT_VARIABLE cuda13)
  list(TRANSFORM wheels APPEND /cuda_runtime OUTPUT_VARIABLE cuda12)
  list(TRANSFORM wheels APPEND /nccl OUTPUT_VARIABLE nccl)

  weft_given(roots CUDAToolkit_ROOT)
  if(NOT roots)
    weft_given(home CUDA_HOME CUDA_PATH)
    set(roots ${home} /usr/local/cuda ${cuda13} ${cuda12} /usr)
  endif()
  weft_look(CUDA cuda_runtime_api.h ${WEFT_CUDA_NEEDED} ${roots})
  if(NOT WEFT_CUDA_VERSION)
    message(STATUS "weft: ${WEFT_CUDA_WHY_NOT}; host memory only")
    return()
  endif()

  weft_given(roots NCCL_HOME NCCL_ROOT)
  if(NOT roots)
    get_filename_component(beside ${WEFT_CUDA_ROOT} DIRECTORY)
    set(roots ${WEFT_CUDA_ROOT} ${beside}/nccl /usr/local ${nccl} /usr)
  endif()
  weft_look(NCCL nccl.h ${WEFT_NCCL_NEEDED} ${roots})
  if(NOT WEFT_NCCL_VERSION)
    message(STATUS "weft: CUDA ${WEFT_CUDA_VERSION} (${WEFT_CUDA_ROOT}), but ${WEFT_NCCL_WHY_NOT}; host memory only")
    return()
  endif()
  message(STATUS "weft: CUDA ${WEFT_CUDA_VERSION} (${WEFT_CUDA_ROOT}), NCCL ${WEFT_NCCL_VERSION} (${WEFT_NCCL_ROOT})")

  weft_cuda_headers_target("${wheels}")
  add_library(weft_nccl_headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(weft_nccl_headers SYSTEM INTERFACE ${WEFT_NCCL_INCLUDE})
  target_link_libraries(weft_nccl_headers INTERFACE weft_cuda_headers)
  # Without this nccl.h, up to 2.23, has no bfloat16 for C: cuda_bf16.h has the type in C++ only.
  target_compile_definitions(weft_nccl_headers INTERFACE __CUDA_BF16_TYPES_EXIST__=)
  add_library(weft_cudart SHARED IMPORTED GLOBAL)
  set_target_properties(weft_cudart PROPERTIES IMPORTED_LOCATION ${WEFT_CUDA_LIBRARY})
  target_link_libraries(weft_cudart INTERFACE weft_cuda_headers)
  add_library(weft_nccl_lib SHARED IMPORTED GLOBAL)
  set_target_properties(weft_nccl_lib PROPERTIES IMPORTED_LOCATION ${WEFT_NCCL_LIBRARY})
  target_link_libraries(weft_nccl_lib INTERFACE weft_nccl_headers)
  set(WEFT_NCCL ON PARENT_SCOPE)
  set(WEFT_CUDA_ROOT ${WEFT_CUDA_ROOT} PARENT_SCOPE)
  set(WEFT_CUDA_VERSION ${WEFT_CUDA_VERSION} PARENT_SCOPE)
  set(WEFT_NCCL_VERSION ${WEFT_NCCL_VERSION} PARENT_SCOPE)
endfunction()

set(WEFT_NCCL OFF)
set(WEFT_CUDA_VERSION "")
set(WEFT_NCCL_VERSION "")
set(WEFT_NVTX_VERSION "")
if(WEFT_USE_CUDA)
  weft_find_nccl()
  weft_find_nvtx("${WEFT_CUDA_ROOT}")
else()
  message(STATUS "weft: WEFT_USE_CUDA is off; host memory only")
endif()
