#!/bin/sh
# tools/skips names what a run of ctest has left out, in each of the ways in which it can be, and refuses what nobody
# expects.  Arguments: tools/skips, ctest, a test of jobs of several ranks, a test that needs pseudo-terminals.
set -eu
skips=$1 ctest=$2 jobs=$3 terminals=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    printf '%s\n' "$*"
    cat said printed Testing/Temporary/LastTest.log
    exit 1
}
# run STAGE: with the tests of CTestTestfile.cmake
run() {
    env -u CTEST_OUTPUT_ON_FAILURE "$ctest" -j 2 >printed 2>&1 || true
    code=0
    "$skips" "$1" printed Testing/Temporary/LastTest.log >said || code=$?
}

echo '-- nothing'
echo 'add_test(fine sh -c "echo all is well")' >CTestTestfile.cmake
run release
[ $code = 0 ] && [ ! -s said ] || fail "something was found where nothing was left out"

echo '-- what is expected'
cat >CTestTestfile.cmake <<END
add_test(launcher_srun sh -c "echo 'skipped: no srun here'; exit 77")
set_tests_properties(launcher_srun PROPERTIES SKIP_RETURN_CODE 77)
END
run release
[ $code = 0 ] || fail "ended with code $code"
grep -qx '  skipped: launcher_srun: no srun here' said || fail "is not named"
grep -qx '  1 skipped, 0 of them not expected' said || fail "is not counted"

echo '-- what is expected of another stage'
cat >CTestTestfile.cmake <<END
add_test(conformance_huge_shm sh -c "echo 'skipped: a sanitizer would need more memory and time'; exit 77")
set_tests_properties(conformance_huge_shm PROPERTIES SKIP_RETURN_CODE 77)
END
run asan
[ $code = 0 ] || fail "under a sanitizer it ended with code $code"
run release
[ $code = 1 ] || fail "without a sanitizer it ended with code $code"

echo '-- what is not: a whole test with a word and without one, a case, a part, a test that is switched off'
cat >CTestTestfile.cmake <<END
add_test(whole sh -c "echo 'skipped: no moon tonight'; exit 77")
add_test(silent sh -c "exit 77")
set_tests_properties(whole silent PROPERTIES SKIP_RETURN_CODE 77)
add_test(part sh -c "echo one; echo 'skipped: no second half'; echo three")
add_test(off sh -c "exit 1")
set_tests_properties(off PROPERTIES DISABLED ON)
add_test(cases env JOB_RANKS_MOST=2 "$jobs" "a healthy job*")
END
run release
[ $code = 1 ] || fail "ended with code $code"
grep -qx '  skipped, which is NOT EXPECTED: whole: no moon tonight' said || fail "whole"
grep -qx '  skipped, which is NOT EXPECTED: silent: it gives no reason' said || fail "silent"
grep -qx '  skipped, which is NOT EXPECTED: part: no second half' said || fail "part"
grep -qx '  skipped, which is NOT EXPECTED: off: ctest says (Disabled)' said || fail "off"
grep -qx '  skipped, which is NOT EXPECTED: cases: a healthy job says what it is made of: 3 ranks, and JOB_RANKS_MOST is 2' said ||
    fail "cases"
grep -qx '  5 skipped, 5 of them not expected' said || fail "count"

echo '-- without pseudo-terminals, where they can be hidden'
if unshare -m sh -c 'mount --bind /dev/null /dev/ptmx' 2>/dev/null; then
    cat >CTestTestfile.cmake <<END
add_test(test_weft_run unshare -m sh -c "mount --bind /dev/null /dev/ptmx && exec $terminals")
END
    run release
    [ $code = 0 ] || fail "ended with code $code"
    grep -qx '  3 skipped, 0 of them not expected' said || fail "count"
    grep -q '^100% tests passed' printed || fail "the rest did not pass"
fi
