#!/bin/sh
# Manual pages: what is declared, set or printed has its place in one, none is wrong mdoc, and man finds them once they
# are installed.  Arguments: cmake, build folder, source folder, awk, libweft.so, folder of the tools.
# 77: no mandoc or no man here.
set -eu
cmake=$1 build=$2 source=$3 awk=$4 library=$5 tools=$6
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

fail() {
    echo "$*"
    exit 1
}

"$cmake" --install "$build" --prefix "$dir" >"$dir/log"
pages=$(dirname "$(dirname "$(find "$dir" -name weft.7)")")
[ -d "$pages/man3" ] || fail "no pages are installed"

echo '-- every function has a page'
{
    nm -D --defined-only "$library" | awk '$3 ~ /^weft_[a-z]/ {print $3}'
    sed -n 's/^static inline .*[ *]\(weft_mpi_bootstrap[a-z_]*\)(.*/\1/p' "$source/include/weft/mpi.h"
} >"$dir/functions"
[ "$(wc -l <"$dir/functions")" -gt 70 ] || fail "these cannot be all functions: $(cat "$dir/functions")"
while read -r name; do
    [ -e "$pages/man3/$name.3" ] || fail "$name has no page"
    grep -Eq "^\.Nm $name( ,)?$" "$pages/man3/$name.3" || fail "$name.3 does not name it"
    grep -Fqx ".Fo $name" "$pages/man3/$name.3" || fail "$name.3 has no prototype"
done <"$dir/functions"

echo '-- every setting stands in weft(7)'
"$tools/weft-info" | sed -n 's/^  \(WEFT_[A-Z_]*\) = .*/\1/p' >"$dir/settings"
[ "$(wc -l <"$dir/settings")" -gt 15 ] || fail "these cannot be all settings: $(cat "$dir/settings")"
while read -r name; do
    grep -q "^\.It Ev $name " "$pages/man7/weft.7" || fail "weft(7) lacks $name"
done <"$dir/settings"
for rule in Order Buffers Errors Time Breaking Threads; do
    grep -Fq ".It Sy \"$rule\"" "$pages/man7/weft.7" || fail "weft(7) lacks the rule $rule"
done

echo '-- --help and the page of a tool name the same options'
for tool in weft-run weft-info weft-inspect weft-bench; do
    "$tools/$tool" --help | sed -n '/^OPTIONS/,/^[A-NP-Z]/s/^  \(-.*\)/\1/p' | sed 's/   *.*//' |
        tr -s ' ,' '\n' | grep '^-' | sort >"$dir/said"
    sed -n 's/^\.It \(Fl .*\)/\1/p' "$pages/man1/$tool.1" | sed 's/Fl -/Fl --/g; s/Fl \([^-]\)/Fl -\1/g' |
        tr ' ' '\n' | grep '^-' | sed 's/^---/--/' | sort >"$dir/written"
    [ -s "$dir/said" ] || fail "$tool --help names no option"
    diff "$dir/said" "$dir/written" || fail "$tool --help (<) and $tool.1 (>) differ"
done

echo '-- no page refers to one that is not there'
grep -rhoE 'Xr [a-z_-]+ [137]' "$pages" | awk '{print "man" $3 "/" $2 "." $3}' | sort -u >"$dir/references"
[ "$(wc -l <"$dir/references")" -gt 70 ] || fail "these cannot be all references: $(cat "$dir/references")"
while read -r page; do
    [ -e "$pages/$page" ] || fail "a page refers to $page"
done <"$dir/references"

echo '-- a function without a docstring is refused'
sed 's|^#ifdef __cplusplus$|\n&|; $i WEFT_API int weft_naked(int bare);' "$source/include/weft/weft.h" >"$dir/weft.h"
mkdir "$dir/man3" "$dir/man7"
man=$source/tools/man
code=0
"$awk" -f "$man/mdoc.awk" -f "$man/comment.awk" -f "$man/header.awk" -f "$man/rules.awk" -f "$man/pages.awk" \
    "DIR=$dir" DATE=x VERSION=x "$dir/weft.h" 2>"$dir/log" || code=$?
[ $code = 1 ] || fail "it ended with code $code"
grep -q 'weft_naked has no docstring' "$dir/log" || fail "it said: $(cat "$dir/log")"

command -v mandoc >/dev/null || { echo "skipped: no mandoc here"; exit 77; }
echo '-- lint'
# It looks for other pages where man does, and Weft is not the system that it takes for granted.
find "$pages" -type f -exec mandoc -T lint {} + |
    grep -v -e 'STYLE: referenced manual not found' -e 'STYLE: operating system explicitly specified' >"$dir/log" || :
[ ! -s "$dir/log" ] || fail "$(head -n 20 "$dir/log")"

command -v man >/dev/null || { echo "skipped: no man here"; exit 77; }
echo '-- man finds them'
for page in weft_wait weft_wait_any weft weft-run weft-bench weft-info weft-inspect weft_config; do
    man -M "$pages" -w "$page" | grep -q "^$pages/man[137]/" || fail "man does not find $page"
done
man -M "$pages" weft_wait_any | grep -q 'weft_wait_any(' || fail "man weft_wait_any does not show it"
