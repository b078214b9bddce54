# shellcheck shell=sh disable=SC2034
# needs.sh - sourced by tools/demo and tools/check: installs what is missing, or says what to install.
# Nothing is asked, and nothing is done where all is there.

# weft_missing NEED:PACKAGE...  A need is a command, a path, or a module of pkg-config, which ends in .pc.
weft_missing() {
    for need in "$@"; do
        case ${need%%:*} in
        /*) [ -e "${need%%:*}" ] ;;
        *.pc) pkg-config --exists "$(basename "${need%%:*}" .pc)" 2>/dev/null ;;
        *) command -v "${need%%:*}" >/dev/null 2>&1 ;;
        esac || printf '%s\n' "${need#*:}"
    done | sort -u
}

weft_install() {
    missing=$(weft_missing "$@" | tr '\n' ' ')
    [ -z "$missing" ] || weft_packages "$missing"
}

# weft_packages "PACKAGE ..."
weft_packages() {
    missing=$1
    as_root=
    [ "$(id -u)" = 0 ] || as_root='sudo -n'
    if ! command -v apt-get >/dev/null 2>&1 || { [ -n "$as_root" ] && ! $as_root true 2>/dev/null; }; then
        echo "Please install these packages (Debian's names) and start again: $missing" >&2
        return 1
    fi
    echo "installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    $as_root apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null &&
        $as_root apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing >/dev/null
}

# Headers and libraries of CUDA and NCCL for the device backend and the emulation, 200 MB from PyPI into build/wheels;
# there CMake finds them by VIRTUAL_ENV.  They are what their own toolkit would be: nothing of it is run without a GPU.
weft_wheels='nvidia-cuda-runtime==13.0.* nvidia-nccl-cu13==2.28.*'

# weft_get_wheels LOG: does nothing where CMake finds CUDA and NCCL, or has found them in the wheels before.  1: they
# cannot be had, and nothing but device memory is missed.
weft_get_wheels() {
    if [ -e build/wheels/complete ]; then
        export VIRTUAL_ENV="$PWD/build/wheels"
        return 0
    fi
    cmake -S . -B build/wheels-probe -G Ninja >"$1" 2>&1
    grep -q 'weft: .*host memory only' "$1" || return 0
    python3 -c 'import ensurepip' 2>/dev/null || weft_packages python3-venv || return 1
    echo "getting CUDA and NCCL from PyPI: $weft_wheels"
    rm -rf build/wheels
    # shellcheck disable=SC2086
    if ! { python3 -m venv build/wheels && build/wheels/bin/pip install --no-deps --only-binary=:all: --no-cache-dir \
        --disable-pip-version-check --retries 2 --timeout 30 $weft_wheels; } >>"$1" 2>&1; then
        rm -rf build/wheels
        return 1
    fi
    : >build/wheels/complete
    export VIRTUAL_ENV="$PWD/build/wheels"
}

# weft_python_venv FOLDER: an environment in which Python extensions can be built, kept from call to call.
weft_python_venv() {
    [ -x "$1/bin/pip" ] && return 0
    python3 -c 'import ensurepip, os, sysconfig; os.stat(sysconfig.get_paths()["include"] + "/Python.h")' 2>/dev/null ||
        weft_packages 'python3-venv python3-dev' || return 1
    python3 -m venv "$1"
}

weft_build_needs="gcc:gcc ld:binutils /usr/include/stdio.h:libc6-dev pkg-config:pkg-config cmake:cmake ninja:ninja-build libevent_pthreads.pc:libevent-dev
                  libzmq.pc:libzmq3-dev libsodium.pc:libsodium-dev hwloc.pc:libhwloc-dev"
weft_check_needs="$weft_build_needs g++:g++ clang:clang clang-format:clang-format clang-tidy:clang-tidy
                  run-clang-tidy:clang-tidy cmocka.pc:libcmocka-dev ip:iproute2 git:git mandoc:mandoc man:man-db spin:spin
                  mpirun.openmpi:openmpi-bin ompi-c.pc:libopenmpi-dev mpirun.mpich:mpich mpich.pc:libmpich-dev"
