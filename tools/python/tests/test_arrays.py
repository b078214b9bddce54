"""What is taken for an array, and the sentence for each that is not."""

import array as arrays_of_python
import ctypes
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import ml_dtypes
import numpy as np
from job import ranks, refused

import weft
from weft import arrays, cuda, dtypes


class OnDevice:
    """What cupy and others show of an array on a device."""

    def __init__(self, **told):
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3, **told}


class OverDlpack:
    """An array that shows itself by DLPack alone, as torch's do."""

    def __init__(self, array, device=(1, 0)):
        self._array = array
        self._device = device

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **_):
        return self._array.__dlpack__()


class OnEither(OnDevice):
    """An array of a package whose arrays have __array_interface__ on the host alone."""

    dtype, flags, size = np.dtype(np.float32), np.zeros(4).flags, 4

    @property
    def __array_interface__(self):
        raise AttributeError("it lies on a device")


class Tensor:
    """What torch's tensors are copied by; counts the copies."""

    def __init__(self, packed):
        self._packed, self.copies = packed, 0

    def detach(self):
        return self

    def is_contiguous(self):
        return self._packed

    def contiguous(self):
        return self if self._packed else self.clone()

    def clone(self):
        self._packed = True
        self.copies += 1
        return self


def as_of_jax(kind):
    """Arrays as jax's, which has another copy() than numpy, and streams that it tells nobody."""

    def copy(self):
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def block_until_ready(self):
        self.waited_for = True
        return self

    methods = {"copy": copy, "block_until_ready": block_until_ready}
    return type("ArrayImpl", (kind,), {"__module__": "jaxlib._jax", "waited_for": False, **methods})


def frozen():
    found = np.zeros(4)
    found.flags.writeable = False
    return found


class Arrays(unittest.TestCase):
    def test_taken(self):
        """Address, size, type and kind of memory of every kind of array."""
        numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
        for name, array in {
            "numpy": numbers,
            "memoryview": memoryview(numbers),
            "DLPack": OverDlpack(numbers),
        }.items():
            with self.subTest(name):
                found = arrays.view(array, "array")
                self.assertEqual(found.address, numbers.ctypes.data)
                self.assertEqual((found.size, dtypes.NAMES[found.dtype], found.memory), (6, "float32", arrays.HOST))
                self.assertTrue(found.writable)
        for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            array = np.zeros(3, kind)
            found = arrays.view(array, "array")
            self.assertEqual((found.address, found.nbytes), (array.ctypes.data, array.nbytes))
        for kind, number in ((2, 1), (13, None)):  # managed memory is of every device
            found = arrays.view(OverDlpack(numbers, (kind, 1)), "array")
            self.assertEqual((found.memory, found.device), (arrays.CUDA, number))
        found = arrays.view(OnEither(), "array")
        self.assertEqual((found.address, found.memory), (4096, arrays.CUDA))
        found = arrays.view(OnDevice(stream=7), "array")
        self.assertEqual((found.address, found.size, found.memory, found.stream), (4096, 4, arrays.CUDA, 7))
        self.assertFalse(arrays.view(OnDevice(data=(4096, True)), "array").writable)
        self.assertFalse(arrays.view(b"bytes", "array").writable)
        self.assertEqual(arrays.view(np.zeros((0, 3)), "array").size, 0)
        self.assertEqual(arrays.view(numbers[:1], "array").size, 3)
        self.assertEqual(arrays.view((ctypes.c_int32 * 3)(), "array").size, 3)

    def test_refused(self):
        """A sentence for each that cannot be given to the library as it is."""
        x = np.zeros((4, 4))
        for array, error, sentence in (
            (x[:, 1], ValueError, "array of shape (4,) has strides (32,), expected C-contiguous elements"),
            (x.T[:2], ValueError, "has strides"),
            (memoryview(bytes(8))[::2], ValueError, "has strides"),
            (OnDevice(strides=(8,)), ValueError, "has strides"),
            (OverDlpack(x[:, 1]), ValueError, "has strides"),
            (np.zeros(2, "datetime64[s]"), TypeError, "array is datetime64[s], expected one of: int8"),
            (np.zeros(2, object), TypeError, "array is object"),
            (np.zeros(2, ml_dtypes.float8_e4m3), TypeError, "array is float8_e4m3"),
            (np.zeros(2, ">f4"), TypeError, "array has its bytes in the other order (>f4)"),
            (np.zeros(2, np.longdouble), TypeError, "array is "),
            (OnDevice(typestr="|V3"), TypeError, "array is |V3"),
            (OverDlpack(np.zeros(2), (4, 0)), ValueError, "DLPack's kind 4, expected the host or CUDA"),
            ([1.0, 2.0], TypeError, "array is a list, expected an array"),
            (None, TypeError, "array is a NoneType"),
        ):
            with self.subTest(sentence), self.assertRaises(error) as told:
                arrays.view(array, "array")
            self.assertIn(sentence, str(told.exception))

    def test_operations_refuse(self):
        """Arrays that do not fit an operation are refused before anything is sent; then the group still works."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder, "place").as_uri()
            with weft.init(place, rank=0, world_size=1) as job:
                g, x = job.world, np.zeros(4)
                g.mem_free(gone := g.mem_alloc(4))
                for call, error, sentence in (
                    (lambda: g.all_reduce(gone, copy=True), ValueError, "array lies in memory that mem_free has given"),
                    (lambda: g.all_reduce(frozen()), ValueError, "array is read-only"),
                    (lambda: g.all_reduce(x, frozen()), ValueError, "out is read-only"),
                    (lambda: g.all_reduce(x, np.zeros(3)), ValueError, "out has 3 elements, expected 4"),
                    (lambda: g.all_reduce(x, np.zeros(4, int)), TypeError, "array is float64 and out is int64"),
                    (lambda: g.all_reduce(x, x[:2]), ValueError, "out has 2 elements, expected 4"),
                    (lambda: g.all_reduce(np.zeros(8)[:4], OnDevice(typestr="<f8")), ValueError, "kinds of memory"),
                    (lambda: g.all_reduce(x, op="mean"), ValueError, "'mean' is no reduction; there are: sum, prod"),
                    (lambda: g.all_reduce(x, timeout=0), ValueError, "timeout is 0 s, expected more than 0"),
                    (lambda: g.all_reduce(x, stream=3), ValueError, "stream is given for arrays of the host"),
                    (lambda: g.all_reduce(np.zeros(2, complex), op="max"), weft.UnsupportedError, "complex128"),
                    (lambda: g.all_gather(x, np.zeros(5)), ValueError, "out has 5 elements, expected 4: 1 ranks"),
                    (lambda: g.all_gather_v(x, x, [4, 4]), ValueError, "counts has 2 numbers, expected one for each"),
                    (lambda: g.all_gather_v(x, np.zeros(5), [4], [2]), ValueError, "out has 5 elements, expected 6"),
                    (lambda: g.broadcast(x, 3), weft.ArgumentError, "3"),
                    (lambda: g.isend(x, 1), weft.ArgumentError, "1"),
                    (lambda: g.mesh("dp=3"), weft.ArgumentError, "3"),
                    (lambda: g.new_group([4]), weft.ArgumentError, "4"),
                    (lambda: job.store().wait("key"), TypeError, "keys is the text 'key'"),
                ):
                    with self.subTest(sentence), self.assertRaises(error) as told:
                        call()
                    self.assertIn(sentence, str(told.exception))
                y = np.zeros(8)
                for call in (
                    lambda: g.all_reduce(y[:6], y[2:]),
                    lambda: g.send_recv(y[:4], y[2:6], 0),
                    lambda: g.all_to_all_v(x, [4], x, [4]),
                ):
                    with self.assertRaises(ValueError) as told:
                        call()
                    self.assertIn("overlap: out begins at byte", str(told.exception))
                for call in (
                    lambda: g.broadcast(x, copy=True, stream=3),
                    lambda: g.all_reduce(x, copy=True, stream=3),
                    lambda: g.all_gather(x, x.copy(), copy=True, stream=3),
                    lambda: g.scatter_v(x, x.copy(), [4], copy=True, stream=3),
                    lambda: g.isend(x, 0, copy=True, stream=3),
                    lambda: g.send_recv(x, x.copy(), 0, copy=True, stream=3),
                ):
                    refused(ValueError, "stream is given beside copy=True", call)
                self.assertTrue(g.all_reduce(x, x).wait())

    @ranks(2)
    def test_copy(job):
        """With copy=True an array may have strides and be changed at once, and is not written; without it, it is."""
        g, n = job.world, job.size
        whole = np.arange(12.0).reshape(3, 4)
        column = whole[:, 1]  # 1, 5, 9
        request = g.all_reduce(column, copy=True)
        column[:] = 0
        assert request.result().tolist() == [2, 10, 18] and request.result().flags.c_contiguous
        assert column.tolist() == [0, 0, 0]
        column[:] = [1, 5, 9]
        out = np.zeros(3)
        assert g.all_reduce(column, out, copy=True).result() is out and out.tolist() == [2, 10, 18]
        assert g.broadcast(column + g.rank, 1, copy=True).result().tolist() == [2, 6, 10]
        both = np.zeros((n, 3))
        assert (g.all_gather(column, both, copy=True).result() == [1, 5, 9]).all()
        assert (g.all_to_all(np.asfortranarray(both), np.zeros((n, 3)), copy=True).result() == [1, 5, 9]).all()
        got = g.irecv(np.zeros(3), 1 - g.rank, 1)
        g.isend(column, 1 - g.rank, 1, copy=True).wait()
        assert got.result().tolist() == [1, 5, 9]
        assert g.send_recv(column, np.zeros(3), 1 - g.rank, copy=True).result().tolist() == [1, 5, 9]
        buffer = memoryview(bytearray(range(8)))[::2]  # 0, 2, 4, 6
        assert list(g.all_reduce(buffer, copy=True).result()) == [0, 4, 8, 12]
        assert list(g.all_reduce(memoryview(bytes(2)), copy=True).result()) == [0, 0]
        number = ctypes.c_double(g.rank + 0.5)
        assert g.all_reduce(number, copy=True).result()[()] == 2 and number.value == g.rank + 0.5
        for kind in (ctypes.c_double, ctypes.c_long, ctypes.c_uint16):
            assert list(g.all_reduce((kind * 3)(1, 2, 400), copy=True).result()) == [2, 4, 800], kind
        g.all_reduce(arrays_of_python.array("d"), copy=g.rank == 0).wait()

    def test_uncopied(self):
        """A sentence for each that has no copy."""
        unordered = type("Unordered", (OnDevice,), {"copy": lambda self: self})
        for array, sentence in (
            (OverDlpack(np.zeros(3)), "array is a OverDlpack, of which copy=True makes none"),
            (unordered(), "array is a Unordered, of which copy=True makes none"),
            ([1.0], "array is a list, of which copy=True makes none"),
            (memoryview(np.zeros(3, complex)), "array is a buffer of format 'Zd', of which copy=True makes none"),
            ((ctypes.c_int.__ctype_be__ * 2)(), "array is of format '>i', expected one of: int8"),
        ):
            with self.subTest(sentence):
                refused(TypeError, sentence, lambda: arrays.copied(array, "array", None))

    def test_copies(self):
        """torch's tensors are copied once, strided or not; jax's are waited for, for no stream of theirs is known."""
        for packed in (True, False):
            tensor = Tensor(packed)
            self.assertEqual(arrays.copied(tensor, "array", None).copies, 1)
        for array in (as_of_jax(OverDlpack)(np.zeros(3)), as_of_jax(OnDevice)()):
            made = arrays.copied(array, "array", None)
            self.assertTrue(made is not array and made.waited_for)
            self.assertFalse(arrays.view(made, "array").writable)

    def test_told_by_packages(self):
        """The current stream and the device of torch's tensors and cupy's arrays; jax's are not written."""

        class Tensor(OnDevice):
            device = types.SimpleNamespace(index=1)

        class Array(OnDevice):
            device = types.SimpleNamespace(id=2)

        stream = types.SimpleNamespace(cuda_stream=77)
        cuda = types.SimpleNamespace(current_stream=lambda device: stream if device is Tensor.device else None)
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(Tensor=Tensor, cuda=cuda)):
            found = arrays.view(Tensor(), "array")
            self.assertEqual((found.stream, found.device), (77, 1))
            found = arrays.view(Array(stream=5), "array")
            self.assertEqual((found.stream, found.device), (5, 2))
        self.assertEqual(arrays.view(OnDevice(), "array").stream, None)
        immutable = type("Array", (OverDlpack,), {"__module__": "jaxlib._jax"})(np.zeros(3))
        self.assertFalse(arrays.view(immutable, "array").writable)

    def test_other_cuda(self):
        """Who has a CUDA of a major version that the package cannot use is told which ones it can."""
        for module, have, sentence in (
            (True, {11}, "this process has CUDA 11, and this package is for CUDA 12 or 13"),
            (True, {11, 14}, "this process has CUDA 11 and CUDA 14, and this package is for CUDA 12 or 13"),
            (False, {13}, "this process has CUDA 13, and this package was built without CUDA"),
            (True, {12}, None),
            (True, {11, 13}, None),
            (True, set(), None),
        ):
            with self.subTest(have), tempfile.TemporaryDirectory() as folder:
                with unittest.mock.patch.multiple(cuda, has_module=lambda: module, loaded=lambda: have):
                    with weft.init(pathlib.Path(folder, "place").as_uri(), rank=0, world_size=1, backends="host") as job:
                        with self.assertRaises(weft.UnsupportedError) as told:
                            job.world.all_reduce(OnDevice())
                self.assertIn("no backend of this context moves device memory", str(told.exception))
                self.assertEqual("this process has" in str(told.exception), sentence is not None)
                self.assertIn(sentence or "", str(told.exception))
        self.assertIn(cuda.has_module(), (True, False))
        with open("/proc/self/maps") as maps:
            self.assertEqual(bool(cuda.loaded()), "libcudart" in maps.read())

    @ranks(2)
    def test_dlpack(job):
        """Arrays that are seen by DLPack are written where they lie."""
        x = np.full(3, job.rank + 1.0, np.float32)
        job.world.all_reduce(OverDlpack(x)).wait()
        assert list(x) == [3, 3, 3], x


if __name__ == "__main__":
    unittest.main()
