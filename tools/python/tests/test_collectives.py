"""Every collective with every type, against numpy."""

import unittest

import ml_dtypes
import numpy as np
from job import ranks

import weft

TYPES = [np.dtype(name) for name in "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()]
FLOATS = [np.dtype(name) for name in "float16 float32 float64".split()]
FLOATS += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]
COMPLEX = [np.dtype("complex64"), np.dtype("complex128")]
ALL = TYPES + FLOATS + COMPLEX + [np.dtype("bool")]
REDUCED = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
BITS = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
N = 7


def values(kind, rank, n=N):
    """Small numbers, so that sums and products are exact in every type."""
    numbers = (np.arange(n) + rank) % 3 + (1 if rank % 2 else 0)
    return np.asarray(numbers % 2 if kind == np.bool_ else numbers).astype(kind)


def same(found, expected):
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert np.array_equal(found, expected), f"{found.dtype}: found {found}, expected {expected}"


class Collectives(unittest.TestCase):
    @ranks(3)
    def test_moved(job):
        """What only moves elements, with every type."""
        g = job.world
        for kind in ALL:
            own = [values(kind, rank) for rank in range(g.size)]
            x = own[1].copy() if g.rank == 1 else np.zeros(N, kind)
            same(g.broadcast(x, 1).result(), own[1])
            whole = np.zeros((g.size, N), kind)
            same(g.all_gather(own[g.rank], whole).result(), np.stack(own))
            whole[:] = 0
            whole[g.rank] = own[g.rank]
            same(g.all_gather(whole[g.rank], whole).result(), np.stack(own))
            out = np.zeros((g.size, N), kind) if g.rank == 2 else None
            g.gather(own[g.rank], out, 2).wait()
            if out is not None:
                same(out, np.stack(own))
            part = np.zeros(N, kind)
            same(g.scatter(np.stack(own) if g.rank == 0 else None, part, 0).result(), own[g.rank])
            blocks = np.stack([values(kind, g.rank + 2 * to) for to in range(g.size)])
            same(
                g.all_to_all(blocks, np.zeros_like(blocks)).result(),
                np.stack([values(kind, by + 2 * g.rank) for by in range(g.size)]),
            )
            part = np.zeros(N, kind)
            peer = g.size - 1 - g.rank
            same(g.send_recv(own[g.rank], part, peer).result(), own[peer])

    @ranks(3)
    def test_reduced(job):
        """Reductions, with every type that has them."""
        g = job.world
        for kind in TYPES + FLOATS + COMPLEX:
            own = [values(kind, rank) for rank in range(g.size)]
            ops = dict(REDUCED) if kind not in COMPLEX else {"sum": np.add}
            ops.update(BITS if kind in TYPES else {})
            for op, function in ops.items():
                expected = function(function(own[0], own[1]), own[2]).astype(kind)
                x = own[g.rank].copy()
                same(g.all_reduce(x, op=op).result(), expected)
                same(g.all_reduce(own[g.rank], np.zeros(N, kind), op).result(), expected)
                out = np.zeros(N, kind) if g.rank == 1 else None
                g.reduce(own[g.rank], out, op, 1).wait()
                if out is not None:
                    same(out, expected)
                wide = np.tile(own[g.rank], g.size)
                same(g.reduce_scatter(wide, np.zeros(N, kind), op).result(), expected)
        x = np.full(4, g.rank + 1.0)
        same(g.all_reduce(x, op="avg").result(), np.full(4, 2.0))
        x = np.full(4, g.rank + 1.0)
        same(g.all_reduce(x, op="premul_sum", scale=0.5).result(), np.full(4, 3.0))
        truth = np.array([g.rank == 0, True])
        same(g.all_reduce(truth, op="band").result(), np.array([False, True]))

    @ranks(3)
    def test_uneven(job):
        """Blocks of unequal sizes, packed and with gaps."""
        g = job.world
        counts, displs = [2, 0, 3], [4, 3, 0]
        own = np.full(counts[g.rank], g.rank + 1.0)
        same(g.all_gather_v(own, np.zeros(5), counts).result(), np.array([1.0, 1, 3, 3, 3]))
        same(g.all_gather_v(own, np.zeros(6), counts, displs).result(), np.array([3.0, 3, 3, 0, 1, 1]))
        out = np.zeros(5) if g.rank == 0 else None
        g.gather_v(own, out, counts if g.rank == 0 else None).wait()
        if out is not None:
            same(out, np.array([1.0, 1, 3, 3, 3]))
        part = np.zeros(counts[g.rank])
        g.scatter_v(np.arange(5.0) if g.rank == 0 else None, part, counts).wait()
        same(part, np.arange(5.0)[sum(counts[: g.rank]) :][: counts[g.rank]])
        same(g.reduce_scatter_v(np.ones(5), np.zeros(counts[g.rank]), counts).result(), np.full(counts[g.rank], 3.0))
        sends = np.repeat(float(g.rank), g.size * (g.rank + 1))
        takes = np.zeros(6)
        g.all_to_all_v(sends, [g.rank + 1] * g.size, takes, [1, 2, 3]).wait()
        same(takes, np.array([0.0, 1, 1, 2, 2, 2]))

    @ranks(4)
    def test_groups(job):
        """Groups made by their members, by colours, by a mesh, and batches."""
        world = job.world
        assert (job.rank, job.size, job.local_size) == (world.rank, 4, 4), job
        if world.rank % 2:
            odd = world.new_group([3, 1], label="odd")
            assert odd.label == "odd" and odd.to_world(0) == 3 and odd.from_world(0) == -1, odd
            same(odd.all_reduce(np.array([world.rank])).result(), np.array([4]))
            odd.free()
        half = world.split(world.rank // 2, -world.rank)
        assert half is not None and half.to_world(0) == (world.rank // 2) * 2 + 1
        assert world.split(-1 if world.rank else 0) is None or world.rank == 0
        mesh = world.mesh("dp=2,tp=-1")
        assert mesh.size("tp") == 2 and mesh.coord("dp") == world.rank // 2, mesh.coord("dp")
        same(mesh["tp"].all_reduce(np.array([world.rank])).result(), np.array([1 if world.rank < 2 else 5]))
        assert mesh["dp,tp"].size == 4
        try:
            mesh["none"]
            raise AssertionError("an axis that is not there")
        except weft.ArgumentError:
            pass
        mesh.free()
        x, y = np.array([world.rank]), np.zeros(1, int)
        with world.batch() as batch:
            to = world.isend(x, (world.rank + 1) % 4, 3, batch=batch)
            by = world.irecv(y, (world.rank - 1) % 4, 3, batch=batch)
            try:
                by.done()
                raise AssertionError("a batch that has not ended")
            except weft.StateError:
                pass
        assert by.result()[0] == (world.rank - 1) % 4 and to.wait() and batch.request.done()
        world.barrier().wait()

    @ranks(2)
    def test_other_arrays(job):
        """Buffers that are no numpy arrays, and memory that peers can reach."""
        import array

        g = job.world
        numbers = array.array("d", [1.0, 2.0])
        assert list(g.all_reduce(numbers).result()) == [2.0, 4.0]
        data = bytearray(b"abc" if g.rank == 0 else b"   ")
        assert g.broadcast(data).result() == b"abc"
        view = memoryview(array.array("i", [g.rank])).cast("B").cast("i")
        g.all_reduce(view).wait()
        assert view[0] == 1
        if g.rank == 0:
            g.isend(b"bytes", 1, 7).wait()
        else:
            found = g.probe(0, 7)
            found.wait()
            assert (found.info.bytes, found.info.dtype, found.info.peer) == (5, "uint8", 0), found.info
            room = bytearray(found.info.bytes)
            g.receive_probed(found, room).wait()
            assert room == b"bytes"
        x = g.mem_alloc((3, 2), "float32")
        x += g.rank
        same(g.all_reduce(x).result(), np.full((3, 2), 1, np.float32))
        g.mem_free(x)
        g.all_reduce(np.zeros(0)).wait()
        g.all_reduce(np.array(1.0)).wait()


if __name__ == "__main__":
    unittest.main()
