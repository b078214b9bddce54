"""Where an array's elements lie: by the buffer protocol, __cuda_array_interface__ or DLPack, by a copy only on demand.

None of the packages that make arrays is imported here.  What cannot be given to the library as it is raises TypeError
or ValueError with a sentence that names the value and what was expected.
"""

from __future__ import annotations

import math
import sys
import weakref
from typing import Any, NamedTuple, Optional, Sequence, TypeVar

from weft import _quick, dtypes
from weft._weft import ffi, lib

HOST = lib.WEFT_MEMORY_HOST
CUDA = lib.WEFT_MEMORY_CUDA

T = TypeVar("T")

# DLPack's kinds of devices: memory of the host (also pinned), of CUDA, and managed.
_DL_HOST, _DL_CUDA, _DL_MANAGED = (1, 3), (2, 13), 13


class View(NamedTuple):
    """An array as the library sees it."""

    pointer: Any  # what cffi takes for a void *
    size: int
    dtype: int
    memory: int
    writable: bool
    stream: Optional[int]  # the stream whose work makes the elements, where the array tells one
    keep: object  # holds the elements
    device: Optional[int] = None  # the device that it says it lies on, where it says so

    @property
    def nbytes(self) -> int:
        return self.size * dtypes.SIZES[self.dtype]

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self.pointer))


def view(array: object, role: str) -> View:
    """The elements of an array; `role` is what an error calls it: "out".  What is a view already is given back."""
    if isinstance(array, View):
        return array
    dtype = getattr(array, "dtype", None)
    # numpy makes a dictionary whenever an array is asked.  Others must be: the word may be missing on a device.
    if dtype is not None and (isinstance(array, _ndarray()) or hasattr(array, "__array_interface__")):
        return _of_numpy(array, dtype, role)
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cuda(array, role)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, role)
    return _of_buffer(array, role)


def writable(array: object, role: str) -> View:
    """As view(), of an array that is written."""
    found = view(array, role)
    if not found.writable:
        raise ValueError(f"{role} is read-only, and the result is to be written there")
    return found


def copied(array: T, role: str, stream: object) -> T:
    """A packed copy of an array, of the same package's; for a call that asked for it by copy=True.

    On a device the copy is made on the package's current stream, so a call that names a stream is refused.
    """
    if stream is not None:
        raise ValueError(
            f"stream is given beside copy=True: {role} is copied on its package's current stream, which is waited for; "
            "expected one of the two"
        )
    _expect_there(array, role)
    given: Any = array
    made: T
    if _is_immutable(array) and hasattr(array, "copy"):  # jax, which tells no stream that the copy is made on
        made = given.copy().block_until_ready()
    elif _has_interface(array) and hasattr(array, "copy"):  # numpy, cupy
        try:
            made = given.copy(order="C")
        except TypeError as error:
            raise TypeError(_uncopied(role, type(array).__name__)) from error
    elif hasattr(array, "clone"):  # torch
        plain = given.detach()
        made = plain.clone() if plain.is_contiguous() else plain.contiguous()
    elif hasattr(array, "__dlpack__") or not _is_buffer(array):
        raise TypeError(_uncopied(role, type(array).__name__))
    else:
        made = _copied_buffer(array, role)
    return made


# numpy's type of arrays; none where nobody has imported numpy.
def _ndarray() -> Any:
    return getattr(sys.modules.get("numpy"), "ndarray", ())


def _has_interface(array: object) -> bool:
    return hasattr(array, "__array_interface__") or hasattr(array, "__cuda_array_interface__")


def _is_buffer(array: object) -> bool:
    try:
        memoryview(array)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _copied_buffer(array: Any, role: str) -> Any:
    seen = memoryview(array)
    if dtypes.from_format(seen.format, seen.itemsize) is None:
        raise TypeError(_untyped(role, f"of format {seen.format!r}"))
    letter = dtypes.native_letter(seen.format, seen.itemsize)
    plain: Any = memoryview(bytearray(seen.tobytes()))
    try:
        return plain.cast(letter, seen.shape) if seen.nbytes else plain.cast(letter)
    except ValueError as error:  # complex numbers, and float16 before Python 3.12
        raise TypeError(_uncopied(role, f"buffer of format {seen.format!r}")) from error


def _uncopied(role: str, name: str) -> str:
    expected = "an array of numpy, cupy, torch or jax, or a buffer of real numbers"
    return f"{role} is a {name}, of which copy=True makes none: expected {expected}"


def expect_count(found: View, count: int, role: str, why: str) -> None:
    """Refuses an array that has not `count` elements, which `why` explains."""
    if found.size != count:
        raise ValueError(f"{role} has {found.size} elements, expected {count}: {why}")


def expect_alike(source: View, target: View) -> None:
    """Refuses two arrays of one operation whose types or kinds of memory differ."""
    if source.dtype != target.dtype:
        names = dtypes.NAMES
        raise TypeError(f"array is {names[source.dtype]} and out is {names[target.dtype]}, expected one type")
    if source.memory != target.memory:
        raise ValueError("array and out lie in different kinds of memory, expected both on the host or on the device")


def expect_apart(
    first: View, second: View, in_place: Optional[int], names: tuple[str, str] = ("array", "out")
) -> None:
    """Refuses two arrays that overlap, other than in place.

    in_place: how many bytes `second` lies behind `first` when it is in place; None where nothing may overlap.
    """
    begin, other = first.address, second.address
    if begin + first.nbytes <= other or other + second.nbytes <= begin or other - begin == in_place:
        return
    where = "" if in_place is None else f", or {names[1]} at byte {in_place} of {names[0]}"
    raise ValueError(
        f"{names[0]} and {names[1]} overlap: {names[1]} begins at byte {other - begin} of {names[0]}; "
        f"expected them apart{where}"
    )


# What mem_free has given back and somebody still holds: by the identity of the buffer that mem_alloc made.
_given_back: dict[int, weakref.ref[Any]] = {}


def give_back(array: object) -> None:
    """The memory that an array lies in is no more: arrays that look at it are refused from now on."""
    root = _root(array)
    if not isinstance(root, ffi.buffer):
        return
    key = id(root)
    _given_back[key] = weakref.ref(root, lambda _: _given_back.pop(key, None))


# What an array looks at in the end, by way of others.
def _root(array: Any) -> Any:
    while True:
        under = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
        if under is None:
            return array
        array = under


def _expect_there(array: object, role: str) -> None:
    if _given_back and id(_root(array)) in _given_back:
        raise ValueError(f"{role} lies in memory that mem_free has given back")


def _of_numpy(array: Any, dtype: Any, role: str) -> View:
    code = _numpy_codes.get(dtype)
    if code is None:
        code = _numpy_code(dtype, role)
    flags = array.flags
    if not flags.c_contiguous:
        raise ValueError(_strided(role, array.shape, array.strides))
    if _given_back:
        _expect_there(array, role)
    try:
        pointer = ffi.from_buffer(array) if array.size else ffi.NULL
    except (BufferError, ValueError, TypeError):  # types of other packages, such as ml_dtypes', are no buffers
        pointer = ffi.cast("char *", array.__array_interface__["data"][0])
    return View(pointer, array.size, code, HOST, flags.writeable, None, (array, pointer))


_numpy_codes: dict[object, int] = {}


def _numpy_code(dtype: Any, role: str) -> int:
    name = getattr(dtype, "name", str(dtype))
    code = dtypes.from_name(name)
    if code is None:
        raise TypeError(_untyped(role, name))
    if not dtype.isnative:
        raise TypeError(f"{role} has its bytes in the other order ({dtype.str}), expected this machine's")
    _numpy_codes[dtype] = code
    _quick.know_arrays(_ndarray())
    return code


def _of_buffer(array: object, role: str) -> View:
    try:
        seen = memoryview(array)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{role} is a {type(array).__name__}, expected an array: a buffer, DLPack or __cuda_array_interface__"
        ) from None
    if not seen.c_contiguous:
        raise ValueError(_strided(role, seen.shape, seen.strides))
    _expect_there(seen, role)
    code = dtypes.from_format(seen.format, seen.itemsize)
    if code is None:
        raise TypeError(_untyped(role, f"of format {seen.format!r}"))
    pointer = ffi.from_buffer(seen) if seen.nbytes else ffi.NULL
    return View(pointer, seen.nbytes // seen.itemsize, code, HOST, not seen.readonly, None, (array, pointer))


def _of_cuda(array: Any, role: str) -> View:
    told = array.__cuda_array_interface__
    shape, typestr = tuple(told["shape"]), told["typestr"]
    code = dtypes.from_typestr(typestr)
    if code is None:
        code = dtypes.from_name(str(getattr(array, "dtype", typestr)))
    if code is None:
        raise TypeError(_untyped(role, typestr))
    if not _packed(shape, told.get("strides"), dtypes.SIZES[code]):
        raise ValueError(_strided(role, shape, told["strides"]))
    if told.get("mask") is not None:
        raise ValueError(f"{role} has a mask, expected plain elements")
    address, readonly = told["data"]
    size, stream = math.prod(shape), told.get("stream")
    _expect_memory(address, size, role)
    if stream is None:
        stream = _torch_stream(array)
    device = _device_number(array)
    writes = not (readonly or _is_immutable(array))
    return View(ffi.cast("char *", address), size, code, CUDA, writes, stream, array, device)


# torch's tensors tell no stream; torch itself does.
def _torch_stream(array: Any) -> Optional[int]:
    torch: Any = sys.modules.get("torch")
    tensor: Any = getattr(torch, "Tensor", None)
    if tensor is None or not isinstance(array, tensor):
        return None
    return int(torch.cuda.current_stream(array.device).cuda_stream)


# array.device is a number's holder with cupy (.id) and torch (.index).
def _device_number(array: Any) -> Optional[int]:
    device = getattr(array, "device", None)
    number = getattr(device, "id", getattr(device, "index", None))
    return number if isinstance(number, int) else None


def _expect_memory(address: int, size: int, role: str) -> None:
    if size and not address:
        raise ValueError(f"{role} has {size} elements and no memory: it was freed, or never had any")


def _of_dlpack(array: Any, role: str) -> View:
    import ctypes

    kind, device = array.__dlpack_device__()
    if int(kind) not in _DL_HOST + _DL_CUDA:
        raise ValueError(f"{role} lies on a device of DLPack's kind {int(kind)}, expected the host or CUDA")
    on_device = int(kind) in _DL_CUDA
    # On a device no synchronisation is asked of the producer (-1): the operation itself is ordered after a stream.
    capsule = array.__dlpack__(stream=-1) if on_device else array.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = ffi.cast("weft_py_dl_tensor *", get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    code = dtypes.from_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    if code is None:
        raise TypeError(_untyped(role, str(getattr(array, "dtype", f"of DLPack's code {tensor.dtype.code}"))))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides != ffi.NULL else None
    if not _packed(shape, strides, 1):
        raise ValueError(_strided(role, shape, strides))
    size = math.prod(shape)
    _expect_memory(int(ffi.cast("uintptr_t", tensor.data)), size, role)
    pointer = ffi.cast("char *", tensor.data) + tensor.byte_offset if tensor.data != ffi.NULL else ffi.NULL
    memory = CUDA if on_device else HOST
    number = int(device) if on_device and int(kind) != _DL_MANAGED else None  # every device may use managed memory
    return View(pointer, size, code, memory, not _is_immutable(array), None, (array, capsule), number)


# jax says so of its arrays, and DLPack's first form has no word for it.
def _is_immutable(array: object) -> bool:
    return type(array).__module__.partition(".")[0] in ("jax", "jaxlib")


def _packed(shape: Sequence[int], strides: Optional[Sequence[int]], unit: int) -> bool:
    """Whether elements lie one after the other, the last axis fastest; strides count what `unit` of an element is."""
    if strides is None or 0 in shape:
        return True
    expected = unit
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _strided(role: str, shape: object, strides: object) -> str:
    return f"{role} of shape {shape} has strides {strides}, expected C-contiguous elements; no copy is made for you, unless copy=True asks for one"


def _untyped(role: str, name: str) -> str:
    return f"{role} is {name}, expected one of: {', '.join(dtypes.CODES)}"
