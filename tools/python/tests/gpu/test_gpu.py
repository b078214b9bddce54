"""Arrays of cupy, torch and jax on a real GPU, which ranks may share: tests/gpu/python.sh runs this.

For NCCL each rank is a host of its own then, so what they exchange goes over sockets: results are shown, speed is not.
"""

import datetime
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

if "RANK" in os.environ:  # which the test that starts the ranks has not
    os.environ["NCCL_HOSTID"] = "rank" + os.environ["RANK"]
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from job import ranks, refused
from test_cupyx import place

import weft

TYPES = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
DECIMALS = 1e-6


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"there is no {package}")


def communicator(job):
    """weft.cupyx's, and cupy with this rank's device chosen."""
    import cupy

    import weft.cupyx as distributed

    cupy.cuda.Device(job.device).use()
    return cupy, distributed.init_process_group(job.size, job.rank, host="127.0.0.1", port=place(job))


@needs("cupy")
class Cupy(unittest.TestCase):
    @ranks(2)
    def test_streams(job):
        """An operation comes after what the array's stream has, and that stream after it, with no wait of the host's."""
        import cupy

        cupy.cuda.Device(job.device).use()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for i in range(20):
                x = cupy.full(1 << 18, float(job.rank + i))
                request = job.world.all_reduce(x, stream=stream)
                request.stream_wait(stream)
                x *= 2
                assert (x.get(stream=stream) == 2 * (2 * i + 1)).all(), (i, x)
                request.wait()
        part = cupy.arange(12.0)[3:9]
        job.world.broadcast(part, 1).wait()
        refused(ValueError, "has strides", lambda: job.world.all_reduce(cupy.arange(12.0)[::2]))

    @ranks(2)
    def test_methods(job):
        """Every method of cupyx's communicator with every type."""
        cupy, comm = communicator(job)

        def expect(found, expected):
            assert np.array_equal(found.get(), np.broadcast_to(expected, found.shape)), (found, expected)

        for kind in TYPES:
            own = [np.arange(6).astype(kind).reshape(2, 3) + np.asarray(r, kind) for r in range(2)]
            mine, peer = cupy.asarray(own[comm.rank]), 1 - comm.rank
            comm.all_reduce(mine, out := cupy.zeros((2, 3), kind))
            expect(out, own[0] + own[1])
            comm.reduce(mine, out := cupy.zeros((2, 3), kind), 1)
            expect(out, own[0] + own[1] if comm.rank == 1 else 0)
            comm.reduce_scatter(mine, out := cupy.zeros(3, kind), 3)
            expect(out, (own[0] + own[1])[comm.rank])
            comm.broadcast(out := cupy.asarray(own[comm.rank]), 1)
            expect(out, own[1])
            comm.all_gather(mine, out := cupy.zeros((2, 4), kind), 4)
            expect(out, np.stack([own[0].ravel()[:4], own[1].ravel()[:4]]))
            comm.gather(mine, out := cupy.zeros((2, 2, 3), kind), 0)
            expect(out, np.stack(own) if comm.rank == 0 else 0)
            comm.scatter(cupy.asarray(np.stack(own)), out := cupy.zeros((2, 3), kind), 1)
            expect(out, own[comm.rank])
            comm.all_to_all(mine, out := cupy.zeros((2, 3), kind))
            expect(out, np.stack([own[0][comm.rank], own[1][comm.rank]]))
            comm.send_recv(mine, out := cupy.zeros((2, 3), kind), peer)
            expect(out, own[peer])
            if comm.rank == 0:
                comm.send(mine, 1)
            else:
                comm.recv(out, 0)
                expect(out, own[0])
        comm.barrier()
        comm.stop()

    @ranks(2)
    def test_sparse(job):
        """Matrices of cupyx.scipy.sparse."""
        cupy, comm = communicator(job)
        import cupyx.scipy.sparse as sparse

        full = [np.array([[0, r + 1.0, 0], [2, 0, 0]]) for r in range(2)]
        for form in ("coo", "csr", "csc"):
            make = getattr(sparse, form + "_matrix")
            mine, peer = make(cupy.asarray(full[comm.rank])), 1 - comm.rank
            comm.all_reduce(mine, out := make((2, 3), dtype=np.float64))
            assert np.array_equal(out.toarray().get(), full[0] + full[1]), out.toarray()
            comm.all_gather(mine, found := [], 0)
            assert all(np.array_equal(a.toarray().get(), b) for a, b in zip(found, full)), found
            comm.send_recv(mine, out := make((2, 3), dtype=np.float64), peer)
            assert np.array_equal(out.toarray().get(), full[peer]), out.toarray()
        comm.stop()


def joined(job, backend="cpu:weft,cuda:weft"):
    """torch, its distributed part with all ranks in it, and this rank's device."""
    import torch
    import torch.distributed as dist

    import weft.torch

    torch.cuda.set_device(job.device)
    if job.rank == 0:
        job.store().set("file", tempfile.mktemp())
    store = dist.FileStore(job.store().get("file").decode(), job.size)
    limit = datetime.timedelta(seconds=40)
    dist.init_process_group(backend, store=store, rank=job.rank, world_size=job.size, timeout=limit)
    return torch, dist, torch.device("cuda", job.device)


def trained(torch, model, device, wrap=lambda made: made):
    """The model's losses in some steps on the rows of this rank."""
    made = wrap(model.to(device))
    optimizer = torch.optim.SGD(made.parameters(), 0.05)
    losses = []
    for step in range(5):
        data = torch.arange(32, dtype=torch.float64).reshape(4, 8).sin() * (step + 1)
        optimizer.zero_grad()
        loss = made(data.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def model(torch):
    torch.manual_seed(1)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    return torch.nn.Sequential(*layers).double()


@needs("torch")
class Torch(unittest.TestCase):
    @ranks(2)
    def test_operations(job):
        """Collectives and messages on tensors of both kinds of memory."""
        torch, dist, device = joined(job)
        r, n = job.rank, job.size
        for where in (device, torch.device("cpu")):
            dist.all_reduce(x := torch.full((4, 3), r + 1.0, device=where).t())
            assert (x == 3).all(), x
            dist.broadcast(x := torch.full((3,), float(r), dtype=torch.bfloat16, device=where), 1)
            assert (x == 1).all(), x
            dist.all_gather_into_tensor(out := torch.zeros(2 * n, device=where), torch.full((2,), float(r), device=where))
            assert out.tolist() == [0, 0, 1, 1], out
            dist.reduce_scatter_tensor(out := torch.zeros(2, device=where), torch.arange(4.0, device=where))
            assert out.tolist() == [4.0 * r, 4.0 * r + 2], out
            dist.all_to_all_single(out := torch.zeros(2, device=where), torch.tensor([10.0 * r, 10.0 * r + 1], device=where))
            assert out.tolist() == [r, 10 + r], out
            parts = [torch.zeros(r_ + 1, device=where) for r_ in range(n)]
            dist.all_gather(parts, torch.full((r + 1,), float(r), device=where))
            assert [part.tolist() for part in parts] == [[0.0], [1.0, 1.0]], parts
            if r == 0:
                dist.send(torch.full((5,), 7.0, device=where), 1)
            else:
                dist.recv(out := torch.zeros(5, device=where), 0)
                assert (out == 7).all(), out
            dist.reduce(x := torch.ones(2, device=where), 1, op=dist.ReduceOp.MAX)
        with dist._coalescing_manager(dist.group.WORLD, device=device, async_ops=True) as several:
            dist.all_reduce(one := torch.ones(1, device=device))
            dist.all_reduce(two := torch.full((1,), 2.0, device=device))
        several.wait()
        assert (one.item(), two.item()) == (2, 4)
        dist.barrier()
        dist.destroy_process_group()

    @ranks(2)
    def test_the_host_goes_on(job):
        """wait() blocks the current stream, not the host."""
        torch, dist, device = joined(job)
        x = torch.ones(1 << 16, device=device)
        dist.all_reduce(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(1 << 30)  # some tenths of a second
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert not work.is_completed()
        y = x + 1
        assert (y == 5).all() and (x == 4).all()
        work.get_future().wait()
        assert work.is_completed()
        dist.destroy_process_group()

    @ranks(2)
    def test_training(job):
        """DDP and FSDP2 lose as one process does, which has the same rows."""
        torch, dist, device = joined(job)
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        alone = trained(torch, model(torch), device)
        for wrap in (lambda made: DistributedDataParallel(made, device_ids=[job.device]), fully_shard):
            losses = trained(torch, model(torch), device, wrap)
            assert np.allclose(losses, alone, rtol=DECIMALS), (losses, alone)
        mesh = dist.init_device_mesh("cuda", (2,), mesh_dim_names=("both",))
        dist.all_reduce(x := torch.ones(3, device=device), group=mesh.get_group("both"))
        assert (x == 2).all(), x
        dist.destroy_process_group()


@needs("jax")
class Jax(unittest.TestCase):
    @ranks(2)
    def test_read_only(job):
        """jax's arrays are read where they lie, and not written."""
        import cupy
        import jax
        import jax.numpy as jnp

        cupy.cuda.Device(job.device).use()
        x = jax.device_put(jnp.arange(6, dtype=jnp.float32) + job.rank, jax.devices("gpu")[job.device])
        x.block_until_ready()
        out = cupy.zeros(6, np.float32)
        job.world.all_reduce(x, out=out).wait()
        assert np.array_equal(out.get(), 2 * np.arange(6) + 1), out
        refused(ValueError, "read-only", lambda: job.world.all_reduce(x))


if __name__ == "__main__":
    unittest.main()
