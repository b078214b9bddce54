"""weft.cupyx with every method, on numpy's arrays."""

import os
import socket
import unittest
import unittest.mock

import numpy as np
from job import over_mpi, ranks, refused, run_over_mpi

import weft.cupyx as distributed

TYPES = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()


OVER_MPI = """
import numpy, weft.cupyx as distributed
from mpi4py import MPI
rank = 1 - MPI.COMM_WORLD.rank
comm = distributed.init_process_group(2, rank, use_mpi=True)
comm.broadcast(x := numpy.full(2, rank), 0)
assert comm.rank == rank and x.tolist() == [0, 0], (comm.rank, x)
comm.stop()
wrong = (
    (3, rank, "n_devices is 3, expected 2, the processes"),
    (2, 0, "the ranks are [0, 0], expected each"),
    (2 + (rank == 0), rank, "n_devices is [2, 3], expected 2, the processes"),
    (rank, rank, "n_devices is [1, 0], expected 2, the processes"),
    (2, 2 * rank, "the ranks are [0, 2], expected each"),
)
for n, rank, sentence in wrong:
    try:
        distributed.init_process_group(n, rank, use_mpi=True)
        raise AssertionError(sentence)
    except ValueError as error:
        assert sentence in str(error), error
"""


def place(job):
    """A free port that all ranks know."""
    if job.rank == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            job.store().set("port", str(free.getsockname()[1]))
    return int(job.store().get("port"))


def expect(found, expected):
    assert np.array_equal(found, np.broadcast_to(expected, found.shape)), (found, expected)


class Cupyx(unittest.TestCase):
    @ranks(3)
    def test_methods(job):
        """Every method with every type and reduction, in the documented argument order."""
        comm = distributed.init_process_group(3, job.rank, host="127.0.0.1", port=place(job))
        n, rank = comm._n_devices, comm.rank
        for kind in TYPES:
            own = [(np.arange(6) % 3 + r + 1).astype(kind).reshape(2, 3) for r in range(n)]
            ops = {"sum": sum(own), "prod": own[0] * own[1] * own[2], "min": own[0], "max": own[2]}
            for op, expected in ops.items() if "complex" not in kind else [("sum", sum(own))]:
                out = np.zeros((2, 3), kind)
                comm.all_reduce(own[rank], out, op)
                expect(out, expected)
                out = np.zeros((2, 3), kind)
                comm.reduce(own[rank], out, 1, op)
                expect(out, expected if rank == 1 else 0)
                out = np.zeros(2, kind)
                comm.reduce_scatter(own[rank], out, 2, op)
                expect(out, expected.ravel()[2 * rank : 2 * rank + 2])
            out = own[rank].copy()
            comm.broadcast(out, 2)
            expect(out, own[2])
            out = np.zeros((n, 2, 3), kind)
            comm.all_gather(own[rank], out, 6)
            expect(out, np.stack(own))
            out = np.zeros((n, 2, 3), kind)
            comm.gather(own[rank], out, 1)
            expect(out, np.stack(own) if rank == 1 else 0)
            out = np.zeros((2, 3), kind)
            comm.scatter(np.stack(own), out, 2)
            expect(out, own[rank])
            rows, out = np.stack([own[rank][0] + to for to in range(n)]).astype(kind), np.zeros((n, 3), kind)
            comm.all_to_all(rows, out)
            expect(out, np.stack([own[by][0] + rank for by in range(n)]))
            out = np.zeros((2, 3), kind)
            if rank == 0:
                comm.send(own[0], 1)
                comm.send_recv(own[0], out, 2)
                expect(out, own[2])
            elif rank == 1:
                comm.recv(out, 0)
                expect(out, own[0])
            else:
                comm.send_recv(own[2], out, 0)
                expect(out, own[0])
        column = np.asfortranarray(own[rank])
        out = np.zeros_like(column)
        comm.all_reduce(column, out)
        expect(out, sum(own))
        comm.barrier()
        comm.stop()

    @ranks(2)
    def test_refused(job):
        """What is wrong is an exception, before anything is sent."""
        os.environ["CUPYX_DISTRIBUTED_PORT"] = str(place(job))
        comm = distributed.init_process_group(2, job.rank)
        x, z = np.zeros((2, 3)), np.zeros(2, complex)
        refused(RuntimeError, "Unknown op avg", lambda: comm.all_reduce(x, x, "avg"))
        refused(ValueError, "Only sum is supported for complex arrays", lambda: comm.all_reduce(z, z, "max"))
        refused(TypeError, "Unknown dtype object", lambda: comm.broadcast(np.zeros(2, object)))
        refused(RuntimeError, "c- or f-contiguous", lambda: comm.broadcast(np.zeros((4, 4))[:, ::2]))
        refused(RuntimeError, "all_to_all requires in_array to have 2 elements", lambda: comm.all_to_all(np.zeros(3), x))
        refused(RuntimeError, "all_to_all requires out_array", lambda: comm.all_to_all(x, np.zeros((3, 2))))
        refused(RuntimeError, "scatter requires in_array", lambda: comm.scatter(np.zeros(3), x, job.rank))
        refused(RuntimeError, "gather requires out_array", lambda: comm.gather(x, np.zeros(()), job.rank))
        refused(ValueError, "out_array has 6 elements, expected at least the 8", lambda: comm.all_gather(x, x, 4))
        refused(ValueError, "out has 3 elements, expected 6", lambda: comm.all_reduce(x, np.zeros(3)))
        refused(ValueError, "Invalid rank 2", lambda: distributed.init_process_group(2, 2))
        refused(ValueError, "Invalid number of devices 0", lambda: distributed.init_process_group(0, 0))
        refused(ValueError, "gloo is not supported", lambda: distributed.init_process_group(1, 0, backend="gloo"))
        out = np.ones(3)
        comm.all_reduce(np.ones(3), out)
        expect(out, 2)
        comm.stop()
        refused(Exception, "closed", comm.barrier)

    def test_place(self):
        """Where ranks meet: what is given, else the two variables, else cupy's own default; no port is taken here."""
        place = {"CUPYX_DISTRIBUTED_HOST": "::1", "CUPYX_DISTRIBUTED_PORT": "7"}
        for given, variables, expected in (
            ({}, {}, "tcp://127.0.0.1:13333"),
            ({}, place, "tcp://[::1]:7"),
            ({"port": 8}, place, "tcp://[::1]:8"),
            ({"host": "there"}, place, "tcp://there:7"),
        ):
            with self.subTest(expected), unittest.mock.patch("weft.cupyx.backend.init") as init:
                with unittest.mock.patch.dict(os.environ, variables, clear=True):
                    distributed.init_process_group(2, 1, **given)
                init.assert_called_once_with(expected, rank=1, world_size=2)
        with unittest.mock.patch("weft.cupyx.backend.init") as init:
            distributed.NCCLBackend(2, 1)
        init.assert_called_once_with("tcp://127.0.0.1:13333", rank=1, world_size=2)

    @over_mpi
    def test_mpi(self):
        """The ranks are those that were given, whatever MPI's are; others than COMM_WORLD's processes are refused by all."""
        run_over_mpi(self, 2, OVER_MPI)


if __name__ == "__main__":
    unittest.main()
