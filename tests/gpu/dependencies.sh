#!/bin/sh
# tests/gpu/dependencies.sh DIR - puts what Weft is built with, and all that this needs in turn, into DIR/usr: for a
# machine with GPUs that reaches no packages.  Run it where Debian's packages can be had, carry DIR there, and say
# WEFT_DEPS_DIR=DIR to tests/gpu/run.sh.  About 6 MB; for amd64.
#
# What every Linux has (libc, libgcc, libstdc++) is left to that machine, whose libc must not be older.
# Exit code: 1 if something of it cannot be had, or needs what is not there.
set -eu
[ $# = 1 ] || {
    sed -n '2,/^# Exit code/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
mkdir -p "$1"
dir=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wanted='libevent-dev libzmq3-dev libsodium-dev libcmocka-dev'
libraries='libevent_core.so libevent_pthreads.so libzmq.so libsodium.so libcmocka.so'
everywhere='lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so|ld-linux-'

# The libraries among what packages depend on; the caller asks again for what those depend on.
depends() { apt-cache depends "$@" | sed -n 's/^  Depends: \(lib[a-z0-9.+-]*\)$/\1/p' | grep -vE -- '-dev$'; }
taken='' new=$wanted
while [ -n "$new" ]; do
    taken="$taken $new"
    # shellcheck disable=SC2086  # names, separated by blanks
    depends $new | sort -u >"$work/next"
    # shellcheck disable=SC2086
    new=$(printf '%s\n' $taken libc6 libgcc-s1 libstdc++6 | sort -u | comm -13 - "$work/next" | tr '\n' ' ')
done
cd "$work"
# shellcheck disable=SC2086
apt-get -q download $taken >log 2>&1 || {
    cat log >&2
    exit 1
}
for package in ./*.deb; do dpkg -x "$package" all; done
[ ! -d all/lib ] || cp -a all/lib all/usr/

# What is linked with, and what that needs.
from=$(dirname "$(find all/usr -name libzmq.so)")
to=$dir/${from#all/}
mkdir -p "$to/pkgconfig"
todo=$libraries seen='' missing=''
while [ -n "$todo" ]; do
    library=${todo%% *}
    todo=$(echo "${todo#"$library"}" | sed 's/^ *//')
    case " $seen " in *" $library "*) continue ;; esac
    seen="$seen $library"
    if [ ! -e "$from/$library" ]; then
        missing="$missing $library"
        continue
    fi
    cp -P "$from/$library" "$to/"
    [ ! -L "$from/$library" ] || cp "$(readlink -f "$from/$library")" "$to/"
    todo="$todo $(readelf -d "$from/$library" | sed -nE 's/.*\((NEEDED|SONAME)\).*\[(.*)\]/\2/p' | grep -vE "^($everywhere)" | tr '\n' ' ')"
    todo=$(echo "$todo" | sed 's/^ *//; s/ *$//')
done
[ -z "$missing" ] || {
    echo "tests/gpu/dependencies.sh: needed, and in none of the packages:$missing" >&2
    exit 1
}
cp -a all/usr/include "$dir/usr/"
cp -a "$from"/pkgconfig/*.pc "$to/pkgconfig/"
du -sh "$dir"
