"""Arrays of torch and jax in memory of the host, each as its own package hands them over; cupy where no device is."""

import importlib.util
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from job import ranks, refused  # noqa: E402

import weft  # noqa: E402


def here(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"no {name} here")


TYPES = "int8 uint8 int16 uint16 int32 uint32 float16 bfloat16 float32 complex64 float8_e4m3fn float8_e5m2".split()


class Others(unittest.TestCase):
    @ranks(2)
    def test_torch(job):
        """Tensors are read and written where they lie, by the group itself; those with strides are refused, or copied."""
        import torch

        g, other = job.world, 1 - job.rank
        for kind in (torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64):
            x = torch.arange(6).to(kind).reshape(2, 3) + job.rank
            before = x.data_ptr()
            assert g.all_reduce(x).result() is x and x.data_ptr() == before
            assert torch.equal(x, (2 * torch.arange(6) + 1).to(kind).reshape(2, 3)), x
            whole = torch.zeros(2, 2, 3, dtype=kind)
            g.all_gather(x + job.rank, whole).wait()
            assert torch.equal(whole, torch.stack([x, x + 1])), whole
            y = torch.empty_like(x)
            weft.wait_all([g.isend(x + job.rank, other, 1), g.irecv(y, other, 1)])
            assert torch.equal(y, x + other), y
        wide = torch.ones(4, 4)
        refused(ValueError, "expected C-contiguous elements", lambda: g.all_reduce(wide[:, ::2]))
        assert (numpy.asarray(g.all_reduce(wide[:, ::2], copy=True).result()) == 2).all() and wide.sum() == 16
        # torch's own words
        refused(BufferError, "require gradient", lambda: g.all_reduce(torch.ones(2, requires_grad=True)))
        refused(BufferError, "layout", lambda: g.all_reduce(torch.ones(2).to_sparse()))

    @here("jax")
    @ranks(2)
    def test_jax(job):
        """Its arrays are read where they lie, with every type that both have, and never written."""
        import jax
        import jax.numpy as jnp
        import ml_dtypes

        g = job.world
        assert jax.devices()[0].platform == "cpu"
        for name in TYPES:
            kind = numpy.dtype(getattr(ml_dtypes, name, None) or name)
            x = jnp.arange(4).astype(kind) + jnp.ones((), kind) * job.rank
            whole = numpy.zeros((2, 4), kind)
            g.all_gather(x, whole).wait()
            for rank in range(2):
                assert (whole[rank].astype("complex64") == numpy.arange(4) + rank).all(), (name, whole)
            back = jnp.asarray(whole)
            assert back.dtype == kind
        x, out = jnp.ones(3), numpy.zeros(3, numpy.float32)
        g.all_reduce(x, out).wait()
        assert out.tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]
        refused(ValueError, "read-only", lambda: g.all_reduce(x))
        refused(ValueError, "read-only", lambda: g.all_reduce(x, copy=True))  # jax's copies are as immutable
        g.all_reduce(x, out, copy=True).wait()
        assert out.tolist() == [2, 2, 2]

    @here("cupy")
    def test_cupy(self):
        """Where no device is, cupy is imported beside weft in both orders, and says itself that there is none."""
        for first, second in (("cupy", "weft.cupyx"), ("weft.cupyx", "cupy")):
            program = f"import {first}\nimport {second}\ntry:\n    cupy.zeros(1)\nexcept Exception as error:\n    print(type(error).__name__)"
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, "Error" in done.stdout), (0, True), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
