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
    [ -n "$missing" ] || return 0
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

weft_build_needs="gcc:gcc ld:binutils /usr/include/stdio.h:libc6-dev pkg-config:pkg-config cmake:cmake ninja:ninja-build libevent_pthreads.pc:libevent-dev
                  libzmq.pc:libzmq3-dev libsodium.pc:libsodium-dev"
weft_check_needs="$weft_build_needs clang:clang clang-format:clang-format clang-tidy:clang-tidy
                  run-clang-tidy:clang-tidy cmocka.pc:libcmocka-dev ip:iproute2 git:git
                  mpirun.openmpi:openmpi-bin ompi-c.pc:libopenmpi-dev mpirun.mpich:mpich mpich.pc:libmpich-dev"
