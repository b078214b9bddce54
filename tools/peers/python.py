"""What Python adds to C, for an all_reduce of 8 B between two ranks: Weft beside mpi4py, request and wait, in turn.

    mpirun -n 2 --bind-to core python tools/peers/python.py INCLUDE LIBRARY [RUNS]

In the environment of mpi4py and of Open MPI, whose mpicc compiles the loops in C; INCLUDE has weft/weft.h and LIBRARY is
the libweft.so that the package has.  One process has both: its ranks meet over MPI.
"""

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from mpi4py import MPI

import weft
import weft.mpi
from weft._weft import ffi

CALLS = 5000

LOOPS = """
#include <mpi.h>
#include <time.h>
#include <weft/weft.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
double loop_weft(weft_group *group, int n)
{
    double x = 1, began = now();
    for (int i = 0; i < n; i++) {
        weft_request *request;
        weft_all_reduce(group, &x, &x, 1, WEFT_FLOAT64, WEFT_MAX, NULL, &request);
        weft_wait(request, WEFT_FOREVER);
        weft_release(request);
    }
    return (now() - began) / n;
}
double loop_mpi(MPI_Comm *comm, int n)
{
    double x = 1, began = now();
    for (int i = 0; i < n; i++) {
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, *comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return (now() - began) / n;
}
"""


def compiled(include, library):
    """The loops in C, linked with what the process has loaded already."""
    folder = tempfile.mkdtemp()
    source, built = os.path.join(folder, "loops.c"), os.path.join(folder, "loops.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(LOOPS)
    subprocess.run(["mpicc", "-O2", "-shared", "-fPIC", "-I", include, source, library, "-o", built], check=True)
    loops = ctypes.CDLL(built)
    for function in (loops.loop_weft, loops.loop_mpi):
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_int]
    return loops


def timed(call):
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - began) / CALLS * 1e6


def main():
    comm, runs = MPI.COMM_WORLD, int(sys.argv[3]) if len(sys.argv) > 3 else 9
    with weft.init(bootstrap=weft.mpi.bootstrap(comm)) as job:
        loops, world, x, y = compiled(sys.argv[1], sys.argv[2]), job.world, np.ones(1), np.ones(1)
        handle = int(ffi.cast("uintptr_t", world._handle))
        ways = {
            "Weft in C": lambda: loops.loop_weft(handle, CALLS),
            "Weft in Python": lambda: timed(lambda: world.all_reduce(x, op="max").wait()),
            "Open MPI in C": lambda: loops.loop_mpi(MPI._addressof(comm), CALLS),
            "mpi4py": lambda: timed(lambda: comm.Iallreduce(MPI.IN_PLACE, y, MPI.MAX).Wait()),
        }
        found = {name: [] for name in ways}
        for run in range(runs + 1):
            for name, way in ways.items():
                comm.Barrier()
                took = way()
                if run:
                    found[name].append(took)
        if comm.rank == 0:
            print(MPI.Get_library_version().split(",")[0], "mpi4py", __import__("mpi4py").__version__, f"{runs} runs in turn, us")
            for name, values in found.items():
                print(told(name, values))
            weft_adds = [p - c for p, c in zip(found["Weft in Python"], found["Weft in C"])]
            mpi_adds = [p - c for p, c in zip(found["mpi4py"], found["Open MPI in C"])]
            print(told("Python adds to Weft, run by run", weft_adds))
            print(told("mpi4py adds to Open MPI, run by run", mpi_adds))
            more = [ours - theirs for ours, theirs in zip(weft_adds, mpi_adds)]
            print(told("Weft's less mpi4py's, run by run", more), "- at most 1")


def told(name, values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{name}: {middle:.2f} ({low:.2f} to {high:.2f}; least {min(values):.2f})"


if __name__ == "__main__":
    main()
