#!/bin/sh
# One libweft_nccl.so serves CUDA 12 and 13: it takes the runtime that its process has loaded, else of those that the
# loader finds the newest that the driver runs, and refuses another major version, or a library that lacks a function, by a
# sentence that names it.  The libraries are stand-ins (emulated/cudart_of_major.c).
# Arguments: weft-info, its module or none, the source of the stand-ins, a compiler.
set -eu
info=$1 module=$2 source=$3 compiler=$4
[ "$module" != none ] || { echo 'skipped: no module was built'; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

make() { # MAJOR SUFFIX [OPTION]...: in a folder of its own, DIR/SUFFIX
    major=$1 suffix=$2
    shift 2
    mkdir -p "$dir/$suffix"
    "$compiler" -std=gnu11 -shared -fPIC -DMAJOR="$major" "$@" -Wl,-soname,"libcudart.so.${suffix%-*}" \
        -o "$dir/$suffix/libcudart.so.${suffix%-*}" "$source"
}
make 11 11.0
make 12 12
make 12 12-short -DWITHOUT_ONE
make 13 13
make 14 14
make 13 13-new -DDRIVER=12
# The system may have a real one, which the loader does not get to behind a file that it cannot read.
for folder in 12 12-short; do echo none >"$dir/$folder/libcudart.so.13"; done
mkdir "$dir/both" && ln -s "$dir/12/libcudart.so.12" "$dir/13/libcudart.so.13" "$dir/both"
mkdir "$dir/old_driver" && ln -s "$dir/12/libcudart.so.12" "$dir/13-new/libcudart.so.13" "$dir/old_driver"
for place in old_driver 13-new; do
    "$compiler" -std=gnu11 -shared -fPIC -DMAJOR=12 -DLIBCUDA -Wl,-soname,libcuda.so.1 -o "$dir/$place/libcuda.so.1" "$source"
done
echo none >"$dir/13-new/libcudart.so.12"

mkdir "$dir/modules" && ln -s "$module" "$dir/modules" # alone: others may be linked with CUDA
says() { # FOUND LOADED TEXT: with the folder FOUND first, and LOADED in the process, or ''
    all=$(WEFT_MODULE_DIR=$dir/modules LD_LIBRARY_PATH=$dir/$1 LD_PRELOAD=${2:+$dir/$2} "$info" 2>&1) || true
    told=$(echo "$all" | grep '^ *nccl') || true
    case $told in
    *"$3"*) ;;
    *)
        echo "found in '$1', loaded '$2': expected \"$3\", told: $told"
        exit 1
        ;;
    esac
}
says 12 '' 'CUDA 12.4, NCCL'
says 12 '' 'device 0: made of libcudart.so.12'
says 13 '' 'CUDA 13.4, NCCL'
says 13 '' 'device 0: made of libcudart.so.13'
says both '' 'made of libcudart.so.13'
says old_driver '' 'made of libcudart.so.12'
# What the driver does not run is not even loaded: it might stay, and be taken for the process's own.
case $all in
*"CUDA 13 is loaded"*)
    echo "CUDA 13 was loaded, with a driver for CUDA 12: $all"
    exit 1
    ;;
esac
says old_driver 13-new/libcudart.so.13 'no CUDA device: CUDA says "an error"' # what the program has loaded is taken
says 13-new '' 'no CUDA device: CUDA says "an error"'
says both 12/libcudart.so.12 'made of libcudart.so.12'
says 13 12/libcudart.so.12 'made of libcudart.so.12'
says both 11.0/libcudart.so.11.0 'this process has CUDA 11, expected CUDA 12 or 13'
says both 14/libcudart.so.14 'this process has CUDA 14, expected CUDA 12 or 13'
says 12-short '' 'libcudart.so.12 has no cudaThreadExchangeStreamCaptureMode'
