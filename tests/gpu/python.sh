#!/bin/bash
# tests/gpu/python.sh WHEEL... - weft's Python package on arrays of cupy, torch and jax, on a machine with a GPU whose
# python3 has them.  The wheels (weft's, and cffi's where it is missing) go into a folder of their own.
#
# CUDA and NCCL are those that Python's packages bring.  Exit code: that of the tests; 2 if there is nothing to run.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -gt 0 ] || {
    sed -n '2,/^# CUDA/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" "$@" || exit 2
folder_of() { # LIBRARY: among Python's packages
    python3 -c 'import pathlib, sys, sysconfig
found = sorted(pathlib.Path(sysconfig.get_path("purelib"), "nvidia").rglob(sys.argv[1]))
print(found[0].parent if found else "")' "$1"
}
nccl=$(folder_of 'libnccl.so.2') cuda=$(folder_of 'libcudart.so.1[23]')
if [ -z "$nccl" ] || [ -z "$cuda" ]; then
    echo "tests/gpu/python.sh: python3 has no libnccl.so.2 or no libcudart" >&2
    exit 2
fi
export PYTHONPATH=$site LD_LIBRARY_PATH=$nccl:$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=2
python3 -m unittest -v tools/python/tests/gpu/test_gpu.py
