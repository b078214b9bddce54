#!/bin/sh
# The installed package: everything is there, it can be moved, it shows nothing but its API, and programs find it
# through pkg-config and through CMake.  Arguments: cmake, build folder, source folder, C compiler, the module for
# device memory and a program for emulated devices, each none where it was not built.
set -eu
cmake=$1 build=$2 source=$3 cc=$4 module=$5 devices=$6
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

"$cmake" --install "$build" --prefix "$dir/first" >"$dir/log"
mv "$dir/first" "$dir/moved"
prefix=$dir/moved
pc=$(find "$prefix" -name weft.pc)
lib=$(dirname "$(dirname "$pc")")
for file in bin/weft-run bin/weft-info bin/weft-inspect bin/weft-bench include/weft/weft.h include/weft/cuda.h include/weft/mpi.h include/weft/backend.h; do
    [ -e "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
for file in libweft.so libweft.so.0 libweft.a cmake/weft/weftConfig.cmake; do
    [ -e "$lib/$file" ] || { echo "$file is not installed"; exit 1; }
done
if [ "$module" != none ]; then
    [ -e "$lib/weft/libweft_nccl.so" ] || { echo "weft/libweft_nccl.so is not installed"; exit 1; }
    ! readelf -d "$lib/weft/libweft_nccl.so" | grep -E 'R(UN)?PATH' || { echo "the module names a folder"; exit 1; }
fi
! grep -rlF -e "$build" -e "$source" "$lib/cmake" "$lib/pkgconfig" || { echo "names the build folder"; exit 1; }

echo '-- symbols'
readelf -d "$lib/libweft.so" | grep -q 'SONAME.*\[libweft\.so\.0\]'
nm -D --defined-only "$lib/libweft.so" | awk '$2 != "A" {print $3}' >"$dir/shown"
if grep -v '^weft_[a-z]' "$dir/shown"; then echo "shows more than the API"; exit 1; fi

export PKG_CONFIG_PATH="$lib/pkgconfig"
[ "$(pkg-config --variable=libdir weft)" ]
mkdir "$dir/program"
cp "$source"/tests/tools/program/* "$dir/program"
cd "$dir/program"
flags='-std=c11 -Wall -Wextra -Wpedantic -Werror'

echo '-- pkg-config, shared'
# shellcheck disable=SC2086,SC2046
"$cc" $flags -o shared main.c $(pkg-config --cflags --libs weft) -Wl,-rpath,"$lib"
"$prefix/bin/weft-run" -n 2 ./shared

echo '-- pkg-config, static'
# shellcheck disable=SC2086,SC2046
"$cc" $flags -o static main.c $(pkg-config --cflags weft) "$lib/libweft.a" \
    $(pkg-config --static --libs weft | sed 's/-lweft//')
"$prefix/bin/weft-run" -n 2 ./static

echo '-- pkg-config, static, with libzmq.a'
archive=$("$cc" -print-file-name=libzmq.a)
if [ -e "$archive" ]; then
    # What a distribution has added to its libzmq.a is its own matter; C++ is in every one.
    mkdir "$dir/archives"
    ln -s "$archive" "$dir/archives/libzmq.a"
    added=
    for name in pgm norm bsd gssapi_krb5; do
        path=$("$cc" -print-file-name=lib$name.so)
        [ -e "$path" ] || path=$(find /usr/lib -name "lib$name.so" 2>/dev/null | head -n 1)
        [ ! -e "$path" ] || added="$added $path"
    done
    # shellcheck disable=SC2086,SC2046
    if "$cc" $flags -o static_zmq main.c -L"$dir/archives" $(pkg-config --cflags weft) "$lib/libweft.a" \
        $(pkg-config --static --libs weft | sed 's/-lweft//') $added >"$dir/log" 2>&1; then
        ! readelf -d static_zmq | grep 'NEEDED.*libzmq' || { echo "libzmq.a was not taken"; exit 1; }
        "$prefix/bin/weft-run" -n 2 ./static_zmq
    elif grep -E "libstdc|undefined reference to .*(std::|operator new|__cxa_)" "$dir/log" | head -n 3 | grep .; then
        echo "pkg-config --static leaves out what libzmq is written in"
        exit 1
    else
        echo "skipped: no libzmq.a here, or not all that it needs: $(grep -o 'undefined reference to .*' "$dir/log" | sort -u | head -n 3)"
    fi
else
    echo "skipped: no libzmq.a here, or not all that it needs"
fi

echo '-- find_package'
"$cmake" -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$dir/log"
"$cmake" --build build >"$dir/log"
"$prefix/bin/weft-run" -n 2 build/with_shared
"$prefix/bin/weft-run" -n 2 build/with_static

echo '-- tools from the moved place'
"$prefix/bin/weft-info" >"$dir/log"
"$prefix/bin/weft-run" -n 2 "$prefix/bin/weft-bench" --op barrier --iterations 1 >"$dir/log"

if [ "$devices" != none ]; then
    echo '-- emulated devices from the moved place'
    "$prefix/bin/weft-run" -n 2 --emulate-gpu 2 "$devices" | grep -q '^2 devices'
    "$prefix/bin/weft-run" -n 1 --emulate-gpu 2 env | grep -qF "LD_LIBRARY_PATH=$lib/weft/emulation"
fi

echo "-- the C of the pages"
# Every block of every page is a file of its own, PAGE_NUMBER.c: README_1.c, include_weft_README_1.c.
mkdir pages
find "$source" \( -name '.?*' -o -path "$source/build*" \) -prune -o -name '*.md' -print >pages/list
while IFS= read -r page; do
    name=$(printf '%s' "${page#"$source"/}" | sed 's/\.md$//' | tr / _)
    awk -v to="pages/$name" '/^```c$/ {on = 1; n++; next} /^```$/ {on = 0} on {print > (to "_" n ".c")}' "$page"
done <pages/list
for file in README_1 README_2 include_weft_README_1 include_weft_DEVICE_1 net_join_README_1; do
    [ -e "pages/$file.c" ] || { echo "$file.c: that page has no such program"; exit 1; }
done
grep -q '^int main(' pages/README_1.c || { echo "the first page's first program is none"; exit 1; }
for file in pages/*.c; do
    compile=$cc
    if grep -q '<weft/mpi.h>' "$file"; then
        compile=$(command -v mpicc || echo none)
        [ "$compile" != none ] || { echo "skipped: no mpicc here for $file"; continue; }
    fi
    program=${file%.c}
    # shellcheck disable=SC2086,SC2046
    if grep -q '^int main(' "$file"; then
        "$compile" $flags -o "$program" "$file" $(pkg-config --cflags --libs weft) -Wl,-rpath,"$lib"
        grep -q '<weft/mpi.h>' "$file" || "$prefix/bin/weft-run" -n 2 "./$program"
    else
        "$compile" $flags -c -o "$program.o" "$file" $(pkg-config --cflags weft)
    fi
done
