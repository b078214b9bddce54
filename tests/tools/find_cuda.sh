#!/bin/sh
# Where CUDA and NCCL are looked for, and what is said of those that will not do: on made-up folders, with headers
# that have nothing but their version and libraries that are empty.  Arguments: cmake, source folder.
set -eu
cmake=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset CUDAToolkit_ROOT CUDA_HOME CUDA_PATH NCCL_HOME NCCL_ROOT VIRTUAL_ENV
mkdir "$dir/project"
cat >"$dir/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(find LANGUAGES NONE)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
include($source/runtime/nccl/find.cmake)
END

cuda() { # FOLDER LIBRARY-FOLDER VERSION MAJOR
    mkdir -p "$dir/$1/include" "$dir/$1/$2"
    printf '#define CUDART_VERSION  %s\n' "$3" >"$dir/$1/include/cuda_runtime_api.h"
    : >"$dir/$1/$2/libcudart.so.$4"
}
nccl() { # FOLDER MINOR
    mkdir -p "$dir/$1/include" "$dir/$1/lib"
    printf '#define NCCL_MAJOR 2\n#define NCCL_MINOR %s\n#define NCCL_PATCH 3\n' "$2" >"$dir/$1/include/nccl.h"
    : >"$dir/$1/lib/libnccl.so.2"
}
# says TEXT ARGUMENT...: the line that tells what was found, with these arguments.
says() {
    text=$1
    shift
    "$cmake" -G Ninja -S "$dir/project" -B "$dir/build" "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    rm -rf "$dir/build"
    grep -qF -e "-- weft: $text" "$dir/log" && return
    printf 'not said with %s: %s\n' "$*" "$text"
    cat "$dir/log"
    exit 1
}

cuda toolkit lib64 12000 12
cuda old lib64 11080 11
cuda half lib64 12040 12
rm "$dir/half/lib64/libcudart.so.12"
nccl nccl 19
nccl nccl_old 18
says "CUDA 12.0 ($dir/toolkit), NCCL 2.19.3 ($dir/nccl)" -DCUDAToolkit_ROOT="$dir/toolkit" -DNCCL_HOME="$dir/nccl"
CUDAToolkit_ROOT=$dir/toolkit NCCL_HOME=$dir/nccl says "CUDA 12.0 ($dir/toolkit), NCCL 2.19.3 ($dir/nccl)"
says "CUDA 11.8 in $dir/old is too old: 12.0 or later is needed; host memory only" -DCUDAToolkit_ROOT="$dir/old"
says "$dir/half has the headers of CUDA 12.4 and no libcudart.so.12; host memory only" -DCUDAToolkit_ROOT="$dir/half"
says "no CUDA in $dir/nccl; host memory only" -DCUDAToolkit_ROOT="$dir/nccl"
says "CUDA 12.0 ($dir/toolkit), but NCCL 2.18.3 in $dir/nccl_old is too old: 2.19 or later is needed; host memory only" \
    -DCUDAToolkit_ROOT="$dir/toolkit" -DNCCL_HOME="$dir/nccl_old"
says "CUDA 12.0 ($dir/toolkit), but no NCCL in $dir/old; host memory only" \
    -DCUDAToolkit_ROOT="$dir/toolkit" -DNCCL_HOME="$dir/old"
says 'WEFT_USE_CUDA is off; host memory only' -DWEFT_USE_CUDA=OFF

# Wheels of an active environment.  A toolkit in the usual place goes before them: there the wheel has to be given.
toolkit=no
[ ! -e /usr/local/cuda/include/cuda_runtime_api.h ] || toolkit=yes
wheels=env/lib/python3.11/site-packages/nvidia
cuda "$wheels/cuda_runtime" lib 12090 12
nccl "$wheels/nccl" 32
export VIRTUAL_ENV="$dir/env"
found="CUDA 12.9 ($dir/$wheels/cuda_runtime), NCCL 2.32.3 ($dir/$wheels/nccl)"
says "$found" -DCUDAToolkit_ROOT="$dir/$wheels/cuda_runtime"
[ $toolkit = yes ] || says "$found"
cuda "$wheels/cu13" lib 13010 13
[ $toolkit = yes ] || says "CUDA 13.1 ($dir/$wheels/cu13), NCCL 2.32.3 ($dir/$wheels/nccl)"
