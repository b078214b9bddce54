"""weft.nvmath: process groups, the runtime, symmetric memory."""

import ctypes
import logging
import os
import subprocess
import sys
import types
import unittest

import numpy as np
import test_device
from job import over_mpi, ranks, refused, run_over_mpi
from test_cupyx import expect

import weft
import weft.nvmath as distributed
from weft.nvmath import ReductionOp, WeftProcessGroup

OVER_MPI = """
import numpy, weft.nvmath as distributed
from weft.nvmath import MPIProcessGroup, ReductionOp
from mpi4py import MPI
half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
group = MPIProcessGroup(half)
assert (group.rank, group.nranks) == (half.rank, 2)
a = numpy.array([group.rank + 1, 5 - group.rank])
group.allreduce_buffer(a, op=ReductionOp.MAX)
assert a.tolist() == [2, 5], a
group.broadcast_buffer(b := numpy.array([group.rank]), root=1)
assert b[0] == 1 and group.allreduce_object("ab"[group.rank], op=lambda x, y: x + y) == "ab"
try:
    MPIProcessGroup("half")
    raise AssertionError("no communicator")
except TypeError as error:
    assert "expected a communicator of mpi4py" in str(error), error
for given in ({"process_group": group}, {"process_group": half}, {"communicator": half}):
    distributed.initialize(-1, backends=["host"], **given)
    context = distributed.get_context()
    assert context.process_group.nranks == 2 and context.communicator is half and context.weft.size == 2
    assert context.weft.world.all_reduce(numpy.ones(1)).result() == 2
    distributed.finalize()
distributed.initialize(-1, half, ["host"])  # left at exit
"""


class Own(distributed.ProcessGroup):
    """Somebody's way to meet: a store of another job."""

    def __init__(self, job):
        self._job, self._calls = job, 0

    rank = property(lambda self: self._job.rank)
    nranks = property(lambda self: self._job.size)

    def _everybody(self, text):
        self._calls += 1
        store = self._job.store()
        store.set(f"{self._calls} {self.rank}", text)
        return [store.get(f"{self._calls} {rank}") for rank in range(self.nranks)]

    def broadcast_buffer(self, array, *, root=0):
        array[:] = np.frombuffer(self._everybody(array.tobytes())[root], array.dtype)

    def allreduce_buffer(self, array, *, op):
        assert op == ReductionOp.SUM
        array[:] = sum(np.frombuffer(data, array.dtype) for data in self._everybody(array.tobytes()))

    def allreduce_object(self, obj, *, op):
        raise NotImplementedError


class OnDevice:
    """What cupy's arrays have, as far as symmetric memory makes one of them: the layout of one of numpy's, no memory of it."""

    def __init__(self, address, layout):
        self.shape, self.dtype, self.strides, self._layout = layout.shape, layout.dtype, layout.strides, layout
        self.flat = test_device.Array(address, layout.dtype, (layout.size,))
        self.__cuda_array_interface__ = {**self.flat.__cuda_array_interface__, "strides": self.strides, "shape": self.shape}

    @classmethod
    def of_bytes(cls, holder):
        told = holder.__cuda_array_interface__
        assert told["typestr"] == "|u1", told
        return cls(told["data"][0], np.empty(told["shape"], np.uint8))

    def view(self, dtype):
        return OnDevice(self.flat._address, self._layout.view(dtype))

    def reshape(self, shape):
        return OnDevice(self.flat._address, self._layout.reshape(shape))

    def transpose(self, axes):
        return OnDevice(self.flat._address, self._layout.transpose(axes))


class Nvmath(unittest.TestCase):
    @ranks(3)
    def test_runtime(job):
        """Initialized by a group of the caller's own and by a job that is there; once at a time."""
        assert distributed.get_context() is None
        distributed.finalize()
        for group in (Own(job), WeftProcessGroup(job.world)):
            distributed.initialize(-1, group, backends=["host"])
            context = distributed.get_context()
            assert (context.device_id, context.process_group) == (-1, group)
            assert context.nvshmem_available is False and context.nccl_comm is None and context.communicator is None
            refused(AttributeError, "cannot assign", lambda: setattr(context, "device_id", 1))
            refused(RuntimeError, "initialized already", lambda: distributed.initialize(-1, group, ["host"]))
            world = context.weft.world
            assert (world.rank, world.size) == (job.rank, 3) and world is not job.world
            assert world.all_reduce(np.ones(1)).result() == 3
            distributed.finalize()
            assert distributed.get_context() is None and context.weft.closed

    @ranks(2)
    def test_groups(job):
        """The collectives of a process group over a job."""
        group = WeftProcessGroup(job.world)
        for op, expected in ((ReductionOp.SUM, [3, 9]), (ReductionOp.MIN, [1, 4]), (ReductionOp.MAX, [2, 5])):
            a = np.array([group.rank + 1, 5 - group.rank])
            group.allreduce_buffer(a, op=op)
            assert a.tolist() == expected, a
        a = np.array([group.rank + 5])
        group.broadcast_buffer(a, root=1)
        assert a[0] == 6
        assert group.allreduce_object([group.rank], op=lambda x, y: x + y) == [0, 1]
        refused(TypeError, "abstract", distributed.ProcessGroup)

    @ranks(2)
    def test_refused(job):
        """The document's own example fails with a sentence; so does whatever cannot be meant."""
        group = WeftProcessGroup(job.world)
        initialize = distributed.initialize
        refused(weft.UnsupportedError, "Weft has no NVSHMEM", lambda: initialize(0, group, backends=["nvshmem", "nccl"]))
        refused(ValueError, "'mpi' is unknown, expected one or more of nccl, host", lambda: initialize(0, group, ["mpi"]))
        refused(ValueError, "backends is empty", lambda: initialize(0, group, []))
        refused(TypeError, 'backends is "nccl", expected a list', lambda: initialize(0, group, "nccl"))
        refused(TypeError, "device_id is '0'", lambda: initialize("0", group, ["host"]))
        refused(TypeError, "device_id is True", lambda: initialize(True, group, ["host"]))
        refused(TypeError, "process_group is 3, expected", lambda: initialize(0, 3, ["host"]))
        refused(TypeError, "both given", lambda: initialize(0, group, ["host"], communicator=group))
        refused(weft.StateError, "not initialized", lambda: distributed.allocate_symmetric_memory(3, np))
        refused(weft.StateError, "not initialized", lambda: distributed.free_symmetric_memory())
        if job.device < 0:  # what was refused has left nothing behind, nor does this
            refused(weft.WeftError, "nccl", lambda: initialize(0, group, ["nccl"]))
        assert distributed.get_context() is None

    @ranks(2)
    def test_symmetric_memory(job):
        """Shapes, types, orders of axes; ranks that ask for different sizes; freeing."""
        distributed.initialize(-1, WeftProcessGroup(job.world), ["host"])
        world = distributed.get_context().weft.world
        allocate = distributed.allocate_symmetric_memory
        for order, strides in (("C", (96, 32, 8)), ("F", (8, 16, 48)), ([1, 0, 2], (24, 8, 48))):
            a = allocate((2, 3, 4), np, axis_order=order)
            assert a.shape == (2, 3, 4) and a.dtype == np.float64 and a.strides == strides and not a.any(), a.strides
            a[1, 2, 3] = 7
            distributed.free_symmetric_memory(a)
        a, b = allocate(5, np, dtype="int32"), allocate((0, 3), np, dtype=np.uint8)
        a[:] = job.rank + 1
        assert world.all_reduce(a).result().tolist() == [3] * 5 and b.shape == (0, 3)
        refused(weft.MismatchError, "rank", lambda: allocate(5 + job.rank, np))
        distributed.finalize()
        distributed.initialize(-1, WeftProcessGroup(job.world), ["host"])
        messages = []
        logger = logging.Logger("of this test", logging.DEBUG)
        logger.addHandler(logging.Handler())
        logger.handlers[0].emit = lambda record: messages.append(record.getMessage())
        c = allocate(5 + job.rank, np, make_symmetric=True, skip_symmetric_check=True, logger=logger)
        assert c.size == 5 + job.rank and messages == ["weft.nvmath: 48 bytes of symmetric memory"], messages
        refused(ValueError, "package is", lambda: allocate(3, os))
        refused(ValueError, "axis_order is [0, 0], expected", lambda: allocate((2, 2), np, axis_order=[0, 0]))
        refused(ValueError, "axis_order is 'A', expected", lambda: allocate((2, 2), np, axis_order="A"))
        refused(weft.ArgumentError, "", lambda: distributed.free_symmetric_memory(np.zeros(3)))
        refused(TypeError, "a list is no array", lambda: distributed.free_symmetric_memory([1]))
        distributed.free_symmetric_memory(c)
        distributed.finalize()

    @ranks(2, emulated=True)
    def test_device(job):
        """Backend "nccl": the job has the device it was given, and symmetric memory lies on it, by a module like cupy."""
        device, group = job.device, WeftProcessGroup(job.world)
        test_device.cudart().cudaSetDevice(device)
        distributed.initialize(device, group, backends=["nccl"])
        context = distributed.get_context()
        world = context.weft.world
        assert context.device_id == context.weft.device == device >= 0, (context, context.weft.device)
        assert context.weft.backends == "host,nccl" and context.process_group is group and world is not job.world
        cupy = types.ModuleType("cupy")
        cupy.asarray = OnDevice.of_bytes
        a = distributed.allocate_symmetric_memory((2, 3), cupy, dtype="int32", axis_order="F")
        assert (a.shape, a.dtype, a.strides) == ((2, 3), np.int32, (4, 8)), (a.shape, a.dtype, a.strides)
        expect(a.flat.get(), 0)
        filled = test_device.Array.of(device, np.arange(6, dtype=np.int32) + job.rank)
        assert test_device.cudart().cudaMemcpy(*map(ctypes.c_void_p, (a.flat._address, filled._address)), 24, 3) == 0
        world.all_reduce(a.flat).wait()
        expect(a.flat.get(), 2 * np.arange(6) + 1)
        b = distributed.allocate_symmetric_memory(4, np)  # of the host beside it
        b[:] = job.rank
        assert world.all_reduce(b).result().tolist() == [1] * 4
        distributed.free_symmetric_memory(a, b)
        refused(weft.ArgumentError, "", lambda: distributed.free_symmetric_memory(a))
        distributed.finalize()
        assert context.weft.closed and not job.closed

    @over_mpi
    def test_mpi(self):
        """A part of COMM_WORLD, by each of the names that nvmath has had for it; left at exit."""
        run_over_mpi(self, 4, OVER_MPI)

    def test_launched(self):
        """Without a process group: the ranks that a launcher has started, here a single one."""
        program = (
            "import weft.nvmath as d, numpy; d.initialize(-1, backends=['host']); c = d.get_context()\n"
            "assert c.process_group.nranks == 1 and c.weft.world.all_reduce(numpy.ones(1)).result() == 1"
        )
        command = [sys.executable, "-m", "weft.run", "-n", "1", sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
