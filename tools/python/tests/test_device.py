"""Arrays on a device: the emulated one of tests/emulation, for this needs no GPU.  weft.cupyx on arrays that are as cupy's."""

import ctypes
import os
import pathlib
import unittest

import numpy as np
from job import ranks, refused
from test_cupyx import expect, place

import weft
import weft.cupyx as distributed


def cudart():
    """The emulated library that the rank's own context has loaded."""
    folder = pathlib.Path(os.environ["LD_LIBRARY_PATH"])
    return ctypes.CDLL(str(next(folder.glob("libcudart.so.*"))))


class Array:
    """What cupy's arrays have, as far as weft.cupyx looks at them."""

    def __init__(self, address, dtype, shape, keep=None, stream=None):
        self.dtype, self.shape, self._address, self._keep = np.dtype(dtype), tuple(shape), address, keep
        self.size = int(np.prod(self.shape))
        self.flags = np.empty(self.shape, np.uint8).flags
        self.__cuda_array_interface__ = {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (address, False),
            "version": 3,
            "stream": stream,
        }

    @classmethod
    def of(cls, device, values, stream=None):
        values = np.ascontiguousarray(values)
        address = ctypes.c_void_p()
        assert cudart().cudaSetDevice(device) == 0
        assert cudart().cudaMalloc(ctypes.byref(address), ctypes.c_size_t(max(1, values.nbytes))) == 0
        made = cls(address.value, values.dtype, values.shape, stream=stream)
        made._device = device
        made._copy(ctypes.c_void_p(made._address), ctypes.c_void_p(values.ctypes.data), 1)
        return made

    def get(self):
        assert cudart().cudaDeviceSynchronize() == 0
        found = np.empty(self.shape, self.dtype)
        self._copy(ctypes.c_void_p(found.ctypes.data), ctypes.c_void_p(self._address), 2)
        return found

    def copy(self, order="C"):
        return Array.of(self._device, self.get())

    def ravel(self, order="C"):
        return self._as((self.size,))

    def __getitem__(self, part):
        assert part.start is None and part.step is None
        return self._as((min(part.stop, self.size),))

    def _as(self, shape):
        return Array(self._address, self.dtype, shape, self, self.__cuda_array_interface__["stream"])

    def _copy(self, to, of, kind):
        assert cudart().cudaMemcpy(to, of, ctypes.c_size_t(self.size * self.dtype.itemsize), kind) == 0


class Stream:
    """What cupy's streams have, of a stream that the default one does not wait for."""

    def __init__(self):
        made = ctypes.c_void_p()
        assert cudart().cudaStreamCreateWithFlags(ctypes.byref(made), 1) == 0
        self.ptr = made.value

    def copy(self, to, of):
        """Has `to` be a copy of another array when this stream has come so far."""
        nbytes = ctypes.c_size_t(of.size * of.dtype.itemsize)
        pointers = ctypes.c_void_p(to._address), ctypes.c_void_p(of._address)
        assert cudart().cudaMemcpyAsync(*pointers, nbytes, 3, ctypes.c_void_p(self.ptr)) == 0
        return to


class Device(unittest.TestCase):
    @ranks(2, emulated=True)
    def test_core(job):
        """Requests on arrays of the device; the stream waits, and the host need not; another device is refused."""
        assert job.backends == "host,nccl" and job.device >= 0, (job.backends, job.device)
        g, other = job.world, 1 - job.rank
        x = Array.of(job.device, np.arange(4.0))
        assert g.all_reduce(x).result() is x
        expect(x.get(), 2 * np.arange(4.0))
        got = g.irecv(y := Array.of(job.device, np.zeros(4)), other, 1)
        g.isend(Array.of(job.device, np.full(4, job.rank + 1.0)), other, 1).wait()
        got.wait()
        expect(y.get(), other + 1)
        stream = ctypes.c_void_p()
        assert cudart().cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
        request = g.all_reduce(x, stream=stream.value)
        request.stream_wait(stream.value)
        assert cudart().cudaStreamSynchronize(stream) == 0
        expect(x.get(), 4 * np.arange(4.0))
        request.wait()
        expect(g.all_reduce(x, copy=True).result().get(), 8 * np.arange(4.0))
        expect(x.get(), 4 * np.arange(4.0))
        sent = {"copy": True, "stream": stream.value}  # the stream does not know of the copy
        refused(ValueError, "stream is given beside copy=True: array is copied on", lambda: g.isend(x, other, **sent))
        far = Array.of(1 - job.device, np.zeros(4))
        refused(weft.ArgumentError, f"is memory of device {1 - job.device}, expected", lambda: g.isend(far, other))
        far.device = type("Device", (), {"id": 1 - job.device})
        refused(ValueError, f"an array lies on device {1 - job.device}, expected {job.device}", lambda: g.isend(far, other))
        g.barrier().wait()

    @ranks(2, emulated=True)
    def test_cupyx(job):
        """Every method of the communicator, on arrays of the device."""
        device = job.device
        comm = distributed.init_process_group(2, job.rank, host="127.0.0.1", port=place(job))

        def here(values):
            return Array.of(device, np.asarray(values))

        for kind in (np.int32, np.float16, np.float64, np.complex64):
            own = [np.arange(6).astype(kind).reshape(2, 3) + r for r in range(2)]
            mine, peer = here(own[comm.rank]), 1 - comm.rank
            comm.all_reduce(mine, out := here(np.zeros((2, 3), kind)))
            expect(out.get(), own[0] + own[1])
            comm.reduce(mine, out := here(np.zeros((2, 3), kind)), 1)
            expect(out.get(), own[0] + own[1] if comm.rank == 1 else 0)
            comm.reduce_scatter(mine, out := here(np.zeros(3, kind)), 3)
            expect(out.get(), (own[0] + own[1])[comm.rank])
            comm.broadcast(out := here(own[comm.rank]), 1)
            expect(out.get(), own[1])
            comm.all_gather(mine, out := here(np.zeros((2, 4), kind)), 4)
            expect(out.get(), np.stack([own[0].ravel()[:4], own[1].ravel()[:4]]))
            comm.gather(mine, out := here(np.zeros((2, 2, 3), kind)), 0)
            expect(out.get(), np.stack(own) if comm.rank == 0 else 0)
            comm.scatter(here(np.stack(own)), out := here(np.zeros((2, 3), kind)), 1)
            expect(out.get(), own[comm.rank])
            comm.all_to_all(mine, out := here(np.zeros((2, 3), kind)))
            expect(out.get(), np.stack([own[0][comm.rank], own[1][comm.rank]]))
            comm.send_recv(mine, out := here(np.zeros((2, 3), kind)), peer)
            expect(out.get(), own[peer])
            if comm.rank == 0:
                comm.send(mine, 1)
            else:
                comm.recv(out, 0)
                expect(out.get(), own[0])
            refused(RuntimeError, "all_to_all requires in_array", lambda: comm.all_to_all(here(np.zeros(3)), mine))
        comm.barrier()
        comm.stop()

    @ranks(2, emulated=True)
    def test_cupyx_streams(job):
        """Every method comes after what its stream has, and the stream after it; the emulation ends whoever is in between."""
        cudart().cudaSetDevice(job.device)
        comm, stream = distributed.init_process_group(2, job.rank, host="127.0.0.1", port=place(job)), Stream()
        own = [np.arange(6.0).reshape(2, 3) + r for r in range(2)]
        both, peer = own[0] + own[1], 1 - comm.rank

        def here(values):
            return Array.of(job.device, values)

        def later(values):
            return stream.copy(here(np.zeros(values.shape)), here(values))

        def expect_later(expected, method, *given, out, **more):
            seen = here(np.zeros(out.shape))  # made first, for that waits for the default stream
            method(*given, **more)
            expect(stream.copy(seen, out).get(), expected)

        rows = (
            ("all_reduce", own[comm.rank], ["sum"], both),
            ("reduce", own[comm.rank], [1, "sum"], both if comm.rank == 1 else np.zeros((2, 3))),
            ("reduce_scatter", own[comm.rank], [3, "sum"], both[comm.rank]),
            ("all_gather", own[comm.rank], [6], np.stack(own)),
            ("gather", own[comm.rank], [0], np.stack(own) if comm.rank == 0 else np.zeros((2, 2, 3))),
            ("scatter", np.stack(own), [1], own[comm.rank]),
            ("all_to_all", own[comm.rank], [], np.stack([own[0][comm.rank], own[1][comm.rank]])),
            ("send_recv", own[comm.rank], [peer], own[peer]),
        )
        for name, values, more, expected in rows:
            out, given = here(np.zeros(expected.shape)), later(values)
            expect_later(expected, getattr(comm, name), given, out, *more, stream, out=out)
        out = later(own[comm.rank])
        expect_later(own[1], comm.broadcast, out, 1, stream, out=out)
        if comm.rank == 0:
            comm.send(later(own[0]), 1, stream=stream)
        else:
            expect_later(own[0], comm.recv, out, 0, stream=stream, out=out)
        told = later(own[comm.rank])
        told.__cuda_array_interface__["stream"] = stream.ptr
        expect_later(both, comm.all_reduce, told, out, out=out)  # on the stream that the array tells
        comm.stop()


if __name__ == "__main__":
    unittest.main()
