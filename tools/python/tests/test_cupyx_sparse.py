"""weft.cupyx with sparse matrices of scipy."""

import functools
import importlib.util
import operator
import unittest

import numpy as np
from job import ranks, refused
from test_cupyx import place

import weft.cupyx as distributed

N = 3
TYPES = "float32 float64 complex64 complex128".split()
SCIPY = importlib.util.find_spec("scipy")


def own(rank, form, kind, side=4):
    """As many elements as the rank has to tell, of no two alike; coo with one that is there twice."""
    from scipy import sparse

    row, col = np.arange(rank + 1) % side, (np.arange(rank + 1) * 2 + rank) % side
    found = sparse.coo_matrix(((np.arange(rank + 1) + 10 * rank + 1).astype(kind), (row, col)), shape=(side, side))
    if form == "coo" and rank == 1:
        found = sparse.coo_matrix(([kind(1), kind(2)], ([3, 3], [0, 0])), shape=(side, side))
    return found.asformat(form)


def empty(form, kind):
    from scipy import sparse

    return sparse.coo_matrix((0 + 1, 1), dtype=kind).asformat(form)


def expect(found, expected):
    assert found.format == expected.format and found.shape == expected.shape and found.dtype == expected.dtype
    assert np.array_equal(found.toarray(), expected.toarray()), (found.toarray(), expected.toarray())


@unittest.skipUnless(SCIPY, "no scipy here")
class Sparse(unittest.TestCase):
    @ranks(N)
    def test_methods(job):
        """Every method, format and type, of matrices that differ in size from rank to rank."""
        comm = distributed.init_process_group(N, job.rank, host="127.0.0.1", port=place(job))
        for form in ("coo", "csr", "csc"):
            for name in TYPES:
                kind = np.dtype(name).type
                all_of = [own(r, form, kind) for r in range(N)]
                mine, out = all_of[comm.rank], empty(form, kind)
                comm.broadcast(given := (mine if comm.rank == 2 else out), 2)
                expect(given, all_of[2])
                for op, expected in (("sum", sum(all_of[1:], all_of[0])), ("prod", all_of[0] @ all_of[1] @ all_of[2])):
                    comm.all_reduce(mine, out := empty(form, kind), op)
                    expect(out, expected.asformat(form))
                    comm.reduce(mine, out := empty(form, kind), 1, op)
                    expect(out, expected.asformat(form) if comm.rank == 1 else empty(form, kind))
                found = []
                comm.all_gather(mine, found, 0)
                assert len(found) == N
                for a, b in zip(found, all_of):
                    expect(a, b)
                comm.gather(mine, found, 1)
                assert len(found) == (2 * N if comm.rank == 1 else N)
                for a, b in zip(found[N:], all_of):
                    expect(a, b)
                comm.scatter(all_of if comm.rank == 1 else None, out := empty(form, kind), 1)
                expect(out, all_of[comm.rank])
                comm.send_recv(mine, out := empty(form, kind), comm.rank)
                expect(out, mine)
                if comm.rank < 2:
                    comm.send_recv(mine, out := empty(form, kind), 1 - comm.rank)
                    expect(out, all_of[1 - comm.rank])
                rows, found = [[own(a + 2 * b, form, kind) for b in range(N)] for a in range(N)], []
                comm.all_to_all(rows[comm.rank], found)
                for a in range(N):
                    expect(found[a], rows[a][comm.rank])
                for op, step in (("sum", operator.add), ("prod", operator.matmul)):
                    comm.reduce_scatter(rows[comm.rank], out := empty(form, kind), 0, op)
                    expect(out, functools.reduce(step, [row[comm.rank] for row in rows]).asformat(form))
                if comm.rank == 0:
                    comm.send(mine, 2)
                elif comm.rank == 2:
                    comm.recv(out := empty(form, kind), 0)
                    expect(out, all_of[0])
        comm.stop()

    @ranks(2)
    def test_indices(job):
        """Indices of 8 bytes on one rank are indices of 8 bytes on all."""
        comm = distributed.init_process_group(2, job.rank, host="127.0.0.1", port=place(job))
        mine = own(job.rank, "csr", np.float64)
        if job.rank == 1:
            mine.indptr, mine.indices = mine.indptr.astype(np.int64), mine.indices.astype(np.int64)
        found = []
        comm.all_gather(mine, found, 0)
        for rank in range(2):
            expect(found[rank], own(rank, "csr", np.float64))
        comm.gather(mine, found, 0)
        assert len(found) == (4 if job.rank == 0 else 2)
        comm.scatter([own(0, "csr", np.float64), mine] if job.rank == 1 else [], out := empty("csr", np.float64), 1)
        expect(out, own(job.rank, "csr", np.float64))
        comm.all_to_all([own(0, "csr", np.float64), mine], found := [])
        expect(found[1], own(job.rank, "csr", np.float64))
        comm.send_recv(mine, out := empty("csr", np.float64), 1 - job.rank)
        expect(out, own(1 - job.rank, "csr", np.float64))
        comm.stop()

    @ranks(2)
    def test_refused(job):
        """As cupyx refuses it, before anything is sent."""
        comm = distributed.init_process_group(2, job.rank, host="127.0.0.1", port=place(job))
        a, b = own(1, "csr", np.float64), own(1, "csc", np.float64)
        refused(ValueError, "must be a list or a tuple of sparse", lambda: comm.reduce_scatter(a, a, 1))
        refused(ValueError, "in_array is csr and out_array is csc", lambda: comm.reduce_scatter([a, a], b, 1))
        refused(RuntimeError, "reduce_scatter requires a list of 2 matrices", lambda: comm.reduce_scatter([a], a, 1))
        refused(RuntimeError, "all_to_all requires a list of 2 matrices, found 1", lambda: comm.all_to_all([a], []))
        refused(ValueError, "reduced by sum and prod only, not max", lambda: comm.all_reduce(a, a, "max"))
        refused(ValueError, "in_array is csr and out_array is csc", lambda: comm.all_reduce(a, b))
        refused(TypeError, "format lil is not supported", lambda: comm.broadcast(a.tolil()))
        if comm.rank == 0:
            refused(RuntimeError, "a list of 2 matrices, found 1", lambda: comm.scatter([a], a, 0))
        comm.all_reduce(a, out := empty("csr", np.float64))
        expect(out, 2 * a)
        comm.stop()


if __name__ == "__main__":
    unittest.main()
