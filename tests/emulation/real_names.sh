#!/usr/bin/env bash
# real_names.sh REAL EMULATED PROGRAM...: the emulated library has the names of the real one, at the same version, and
# no others; and each program, which was linked with the real one, runs with the emulated one.
set -euo pipefail
real=$1
emulated=$2
shift 2

names() {
    nm -D --defined-only "$1" | awk '$2 ~ /[TW]/ && $3 !~ /@@WEFT_EMULATION$/ { print $3 }' | sort
}
made_up=$(comm -13 <(names "$real") <(names "$emulated"))
[ -z "$made_up" ] || { echo "$real has none of: $made_up"; exit 1; }
left_out=$(comm -23 <(names "$real") <(names "$emulated"))
[ -z "$left_out" ] || { echo "$emulated has none of: $left_out"; exit 1; }
[ "$(names "$emulated" | wc -l)" -gt 50 ] || { echo "$emulated has hardly any functions"; exit 1; }
so() {
    readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p'
}
[ "$(so "$real")" = "$(so "$emulated")" ] || { echo "the soname is $(so "$emulated"), not $(so "$real")"; exit 1; }

folder=$(dirname "$emulated")
for program; do
    [ "$(readelf -V "$program" | grep -c WEFT_EMULATION)" = 0 ] || { echo "$program is linked with $emulated"; exit 1; }
    told=$(LD_BIND_NOW=1 LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$program")
    case $told in
    *emulated*) echo "$told" ;;
    *) echo "$program did not run on the emulation: $told"; exit 1 ;;
    esac
done
