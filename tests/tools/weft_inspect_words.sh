#!/bin/sh
# weft-inspect where there is nothing to inspect, and what it says to slips.  Argument: weft-inspect.
set -eu
inspect=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

expect() { # CODE SENTENCE ARGUMENTS
    wanted=$1 sentence=$2 code=0
    shift 2
    "$inspect" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = "$wanted" ] || { echo "$*: ended with code $code: $(cat "$dir/err")"; exit 1; }
    grep -Eq -- "$sentence" "$dir/out" "$dir/err" || { echo "$*: said $(cat "$dir/out" "$dir/err")"; exit 1; }
}
none=no-such-job-$$
expect 1 "there is no record of $none: " --once "$none"
expect 1 "there is no record of $none: " "$none"
expect 1 "cannot open $dir/none: " --post-mortem "$dir/none"
expect 1 "there is no record of $dir: " --post-mortem "$dir"
expect 2 'there is no option --nonsense' --nonsense
expect 2 'there is no option ""' ''
expect 2 'one job is enough; not also two' --once one two
expect 0 '^weft-inspect [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 '^  weft-inspect - ' --help
expect 0 'json-schema' --schema
! command -v python3 >/dev/null || python3 -m json.tool "$dir/out" >/dev/null

# What is no record, though it is named like one: refused with a sentence, not believed.
printf 'nonsense' >"$dir/record.0123456789abcdef.0"
expect 1 'record.0123456789abcdef.0 is no record of a rank: ' --post-mortem "$dir"
ln -s /etc/passwd "$dir/record.1123456789abcdef.0"
expect 1 'record.0123456789abcdef.0 is no record of a rank: ' --post-mortem "$dir"

# Another user's, where there is one to be had.
if [ "$(id -u)" = 0 ] && chown 65534 "$dir" 2>/dev/null; then
    expect 1 "$dir belongs to user 65534, not to us" --once "$dir"
    chown 0 "$dir"
fi
