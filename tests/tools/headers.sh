#!/bin/sh
# The public headers as C and as C++ compile without a warning, that of old-style casts included; and what they
# name has the value it always had, written down.  Arguments: include folder, C compiler.  77: no C++ compiler.
set -eu
include=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

echo '-- enumerators have written values'
# Those of weft_status come from its list, which has them.
awk '/^typedef enum weft_[a-z_]+ \{/ {on = 1} on {print} /^\} weft_|\} weft_[a-z]+;/ {on = 0}' \
    "$include/weft/weft.h" "$include/weft/backend.h" >"$dir/enums"
grep -c 'typedef enum' "$dir/enums" | grep -qx 6
sed -e 's/^typedef enum weft_[a-z_]* {//' -e 's/} weft_[a-z_]*;//' -e '/^#/d' -e '/WEFT_STATUS_MAP/d' \
    -e 's,/\*.*\*/,,' "$dir/enums" | tr ',' '\n' | grep 'WEFT_' | sed 's/ *$//' >"$dir/names"
[ "$(wc -l <"$dir/names")" -eq 51 ] || { echo "expected 17 types, 9 reductions, 4 kinds of memory, 3 orders, 18 of works"; exit 1; }
if grep -v '^ *WEFT_[A-Z0-9_]* = [0-9]*$' "$dir/names"; then echo "no value is written there"; exit 1; fi

# As little of MPI as weft/mpi.h uses.
cat >"$dir/mpi.h" <<'EOF'
typedef int MPI_Comm;
enum { MPI_SUCCESS, MPI_COMM_NULL = 0, MPI_BYTE = 0, MPI_ERRORS_RETURN = 0, MPI_MAX_ERROR_STRING = 256 };
static inline int MPI_Error_string(int e, char *s, int *n) { s[0] = 0; return *n = 0, e - e; }
static inline int MPI_Allgather(const void *a, int n, int t, void *b, int m, int u, MPI_Comm c)
{ return (a == b) - n + m + t + u - c; }
static inline int MPI_Initialized(int *y) { return *y = 1, 0; }
static inline int MPI_Finalized(int *y) { return *y = 0; }
static inline int MPI_Comm_test_inter(MPI_Comm c, int *y) { return *y = c - c; }
static inline int MPI_Comm_dup(MPI_Comm c, MPI_Comm *d) { return *d = c, 0; }
static inline int MPI_Comm_set_errhandler(MPI_Comm c, int h) { return h - h + c - c; }
static inline int MPI_Comm_rank(MPI_Comm c, int *r) { return *r = c - c; }
static inline int MPI_Comm_size(MPI_Comm c, int *n) { return *n = 1 + c - c, 0; }
static inline int MPI_Comm_free(MPI_Comm *c) { return *c = 0; }
EOF
cat >"$dir/uses.c" <<'EOF'
#include <weft/backend.h>
#include <weft/cuda.h>
#include <weft/mpi.h>
#include <weft/weft.h>
#ifdef __cplusplus
#define SAME(name, value) static_assert(name == value, #name)
#else
#define SAME(name, value) _Static_assert(name == value, #name)
#endif
SAME(WEFT_INT8, 0); SAME(WEFT_UINT8, 1); SAME(WEFT_INT16, 2); SAME(WEFT_UINT16, 3); SAME(WEFT_INT32, 4);
SAME(WEFT_UINT32, 5); SAME(WEFT_INT64, 6); SAME(WEFT_UINT64, 7); SAME(WEFT_FLOAT8_E4M3, 8);
SAME(WEFT_FLOAT8_E5M2, 9); SAME(WEFT_FLOAT16, 10); SAME(WEFT_BFLOAT16, 11); SAME(WEFT_FLOAT32, 12);
SAME(WEFT_FLOAT64, 13); SAME(WEFT_COMPLEX64, 14); SAME(WEFT_COMPLEX128, 15); SAME(WEFT_BOOL, 16);
SAME(WEFT_SUM, 0); SAME(WEFT_PROD, 1); SAME(WEFT_MIN, 2); SAME(WEFT_MAX, 3); SAME(WEFT_AVG, 4);
SAME(WEFT_BAND, 5); SAME(WEFT_BOR, 6); SAME(WEFT_BXOR, 7); SAME(WEFT_PREMUL_SUM, 8);
SAME(WEFT_MEMORY_AUTO, 0); SAME(WEFT_MEMORY_HOST, 1); SAME(WEFT_MEMORY_CUDA, 2);
SAME(WEFT_MEMORY_OTHER, 3); SAME(WEFT_BACKEND_BARRIER, 0); SAME(WEFT_BACKEND_MEM_ALLOC, 17);
SAME(WEFT_OK, 0); SAME(WEFT_PENDING, 1); SAME(WEFT_ERR_STATE, -12);
SAME(WEFT_FOREVER, -1); SAME(sizeof(WEFT_FOREVER), 8); SAME(WEFT_ANY_RANK, -1); SAME(WEFT_ANY_TAG, -1);

weft_status uses(weft_group *group, float *gradient, weft_context **ctx, weft_bootstrap *bootstrap);
weft_status uses(weft_group *group, float *gradient, weft_context **ctx, weft_bootstrap *bootstrap)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_call call = weft_call();
    weft_request *sum;
    weft_mpi_bootstrap(1, bootstrap);
    config.bootstrap = bootstrap;
    config.timeout_ms = WEFT_FOREVER;
    weft_init(&config, ctx);
    weft_mpi_bootstrap_free(bootstrap);
    call.stream = WEFT_NO_STREAM;
    call.timeout_ms = weft_mpi_bootstrap_error(bootstrap)[0] ? 5 : WEFT_FOREVER;
    weft_all_reduce(group, gradient, gradient, 1, WEFT_FLOAT32, WEFT_SUM, &call, &sum);
    return weft_wait(sum, WEFT_FOREVER);
}
EOF
sed 's/weft_call call = weft_call();/weft_call call = {0};/' "$dir/uses.c" >"$dir/uses_c.c"
mv "$dir/uses.c" "$dir/uses.cc"
all='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'

echo '-- C'
for standard in c11 c17; do
    # shellcheck disable=SC2086
    "$cc" -std=$standard $all -I"$include" -isystem "$dir" -c -o "$dir/uses.o" "$dir/uses_c.c"
done

found=
for cxx in g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    echo "-- $cxx"
    found=yes
    for standard in c++11 c++17; do
        # shellcheck disable=SC2086
        "$cxx" -std=$standard $all -Wold-style-cast -I"$include" -isystem "$dir" -c -o "$dir/uses.o" "$dir/uses.cc"
    done
done
[ "$found" ] || { echo "skipped: no C++ compiler here"; exit 77; }
