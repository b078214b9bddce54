/* test_nccl_version.c - the library that says it is 2.19: what came later is not found in it, all else works.
 * It is loaded as programs do that look newer functions up at run time. */
#include "emulation.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <nccl.h>

static void *library;

static void *find(const char *name)
{
    return dlsym(library, name);
}

/* From an object pointer to a function's, as POSIX has it. */
#define FUNCTION(name)                     \
    __typeof__(name) *name##_there;        \
    *(void **)&name##_there = find(#name); \
    assert_non_null(name##_there)

static int load(void **state)
{
    (void)state;
    library = dlopen(TEST_BIN_DIR "/../lib/weft/emulation-2.19/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) print_error("%s\n", dlerror());
    return library ? 0 : -1;
}

static void it_says_its_version(void **state)
{
    FUNCTION(ncclGetVersion);
    int version;

    (void)state;
    assert_int_equal(ncclGetVersion_there(&version), ncclSuccess);
    assert_int_equal(version / 100, 219);
}

static void newer_functions_are_not_there(void **state)
{
    static const char *const newer[] = {
        "ncclAlltoAll",           "ncclGather",          "ncclScatter",
        "ncclCommShrink",         "ncclCommRevoke",      "ncclCommInitRankScalable",
        "ncclCommWindowRegister", "ncclGroupSimulateEnd"};

    (void)state;
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) assert_null(find(newer[i]));
}

static void operations_work(void **state)
{
    FUNCTION(ncclGetUniqueId);
    FUNCTION(ncclCommInitRank);
    FUNCTION(ncclAllReduce);
    FUNCTION(pncclAllReduce);
    FUNCTION(ncclCommDestroy);
    ncclUniqueId id;
    ncclComm_t comm;
    int value = 5;
    int *device;

    (void)state;
    assert_int_equal(ncclGetUniqueId_there(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRank_there(&comm, 1, id, 0), ncclSuccess);
    assert_int_equal(cudaMalloc((void **)&device, sizeof value), cudaSuccess);
    assert_int_equal(cudaMemcpy(device, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(ncclAllReduce_there(device, device, 1, ncclInt32, ncclSum, comm, NULL), ncclSuccess);
    assert_int_equal(pncclAllReduce_there(device, device, 1, (ncclDataType_t)10, ncclSum, comm, NULL),
                     ncclInvalidArgument); /* 8-bit floats came later too */
    value = 0;
    assert_int_equal(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(value, 5);
    assert_int_equal(cudaFree(device), cudaSuccess);
    assert_int_equal(ncclCommDestroy_there(comm), ncclSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_its_version),
        cmocka_unit_test(newer_functions_are_not_there),
        cmocka_unit_test(operations_work),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
