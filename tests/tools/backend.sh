#!/bin/sh
# A backend outside the tree: built against the installed package alone, installed beside it, found and named by
# weft-info.  What it leaves in OUT is what other tests run over.
# Arguments: cmake, build folder, the backend's folder, C compiler, sanitizers (or none), OUT, modules that lie
# there too (or none).
set -eu
cmake=$1 build=$2 source=$3 cc=$4 sanitize=$5 out=$6
shift 6
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

"$cmake" --install "$build" --prefix "$dir/prefix" >"$dir/log"
cp -r "$source" "$dir/source" # nothing of Weft's tree is near it
flags=
[ "$sanitize" = none ] || flags="-fsanitize=$sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer"

echo '-- it builds'
"$cmake" -G Ninja -S "$dir/source" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS="$flags" >"$dir/log"
"$cmake" --build "$dir/build" >"$dir/log" || { cat "$dir/log"; exit 1; }
"$cmake" --install "$dir/build" >"$dir/log"

echo '-- it is found'
lib=$(dirname "$(find "$dir/prefix" -name libweft_toy.so)")
nm -D --undefined-only "$lib/libweft_toy.so" | awk '{print $NF}' >"$dir/taken"
if grep '^weft_' "$dir/taken"; then echo 'takes a symbol of the library'; exit 1; fi
"$dir/prefix/bin/weft-info" >"$dir/info" 2>&1 || true
for name in toy toyhost; do
    grep -q "$name.*yes: a toy, built against an installed Weft" "$dir/info" ||
        { echo "weft-info does not name $name:"; cat "$dir/info"; exit 1; }
done

mkdir -p "$out"
cp "$lib"/libweft_toy.so "$lib"/libweft_toyhost.so "$out"
for module; do
    [ "$module" = none ] || ln -sf "$module" "$out"
done
