#!/bin/sh
# libweft_nccl.so loads wherever NCCL 2.19 or later is: it shows one function, and every symbol that it takes from
# elsewhere is one of the C library or one that NCCL 2.19 has; none is CUDA's, whose runtime it looks up in what is there.
# Argument: the module, or none: it was not built.
set -eu
module=$1
[ "$module" != none ] || { echo 'skipped: no module was built'; exit 77; }
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# All that nccl.h of 2.19 declares.
nccl_2_19='AllGather AllReduce Bcast Broadcast CommAbort CommCount CommCuDevice CommDeregister CommDestroy CommFinalize
CommGetAsyncError CommInitAll CommInitRank CommInitRankConfig CommRegister CommSplit CommUserRank GetErrorString
GetLastError GetUniqueId GetVersion GroupEnd GroupStart MemAlloc MemFree Recv RedOpCreatePreMulSum RedOpDestroy Reduce
ReduceScatter Send'

nm -D --with-symbol-versions --defined-only "$module" | awk '{print $3}' >"$dir/shown"
[ "$(cat "$dir/shown")" = weft_backend_open ] || { echo 'shows other than weft_backend_open:'; cat "$dir/shown"; exit 1; }

readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$dir/needed"
if grep -vE '^(libnccl\.so\.2|lib(c|m|pthread|dl|rt|gcc_s)\.so\.[0-9]+|ld-linux.*)$' "$dir/needed"; then
    echo 'is needed beyond libnccl and the C library'
    exit 1
fi

# What is weak and missing is no error when the module is loaded.
nm -D --with-symbol-versions --undefined-only "$module" | awk '$1 == "U" {print $2}' >"$dir/taken"
grep -q '^nccl' "$dir/taken" || { echo 'takes nothing of nccl, so this is not the module'; exit 1; }
bad=0
while read -r symbol; do
    case $symbol in
    *@GLIBC_* | *@GCC_*) continue ;;
    nccl*)
        for name in $nccl_2_19; do [ "nccl$name" != "$symbol" ] || continue 2; done
        echo "$symbol is not in NCCL 2.19: look it up when it is needed"
        ;;
    *) echo "$symbol is neither of the C library nor of libnccl" ;;
    esac
    bad=1
done <"$dir/taken"
exit $bad
