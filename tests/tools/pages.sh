#!/bin/sh
# tools/pages finds each kind of mistake in a page, in its line, and takes nothing else for one.
# Argument: tools/pages.
set -eu
pages=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# right NAME / wrong NAME EXPECTED: of the page README.md as it is.
right() {
    "$pages" "$dir" >said && return
    echo "$1 is taken for a mistake:"
    cat said
    exit 1
}
wrong() {
    if "$pages" "$dir" >said; then echo "$1 is not found"; exit 1; fi
    [ "$(cat said)" = "$2" ] || { printf '%s: expected\n%s\nand was told\n' "$1" "$2"; cat said; exit 1; }
}

mkdir -p top/below .hidden build
printf '#include <other.h>\nint weft_there;\n' >top/below/there.c
cat >top/page.md <<'END'
# A page, of `two` words
[the first](../README.md), [itself](#a-page-of-two-words) and `below/there.c`
END
cat >good.md <<'END'
# The first one
[page](top/page.md#a-page-of-two-words) [below](top/below) [web](https://example.org/top/none.c) top/below/there.c.
`there.c` `other.h` `top/NAME.c` `build/made.md` `none` `make none.c` /usr/top/none top/*.c top/below/
weft_there `weft_there_*` weft_NAME libweft_none.so weft-none
```c
[1](none) `none.c`
```
END
cp good.md README.md
right "what is there"

try() { # WHAT LINE EXPECTED
    cp good.md README.md
    printf '%s\n' "$2" >>README.md
    wrong "$1" "README.md:8: $3"
}
try 'a link to nothing' '[none](top/none.md)' 'the link leads to top/none.md, which is not there'
try 'a link to no heading' '[none](#none)' 'there is no heading for #none'
try "a link to another page's missing heading" '[none](top/page.md#none)' 'there is no heading for top/page.md#none'
try 'a path to nothing' 'see top/below/none.c' 'top/below/none.c is not there'
# shellcheck disable=SC2016  # what stands in the page
try 'a file of no name' 'see `none.c`' 'none.c is not there'
try 'a name that is in no source' 'call weft_none()' 'weft_none is in no source'

cp good.md README.md
seq -f 'line %g' 8 200 >>README.md
right "200 lines"
echo 'line 201' >>README.md
wrong "too long a first page" "README.md:201: this is line 201; the first page has at most 200"

rm -r README.md good.md top
wrong "a folder without pages" "there is no page here"
