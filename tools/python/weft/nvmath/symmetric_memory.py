"""Memory that every rank of the job has as much of, and that its peers reach: that of weft_mem_alloc."""

from __future__ import annotations

import logging
import math
from types import ModuleType
from typing import Any, Literal, Optional, Protocol, Sequence, Union

import numpy

from weft import arrays
from weft._weft import ffi
from weft.errors import StateError
from weft.nvmath.runtime import DistributedContext, get_context

_PACKAGES = ("numpy", "cupy", "torch")

AxisOrder = Union[Literal["C", "F"], Sequence[int]]


class SymmetricArray(Protocol):
    """What the arrays of the three packages have in common: it is an array of the one that was asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: object, /) -> object: ...

    def __setitem__(self, key: object, value: object, /) -> None: ...


def allocate_symmetric_memory(
    shape: Union[int, Sequence[int]],
    package: ModuleType,
    *,
    dtype: object = None,
    axis_order: AxisOrder = "C",
    make_symmetric: bool = False,
    skip_symmetric_check: bool = False,
    logger: Optional[logging.Logger] = None,
) -> SymmetricArray:
    """An array of zeros in memory that peers reach, equally much on every rank.  A collective of all ranks.

    package               numpy: memory of the host; cupy: of the device; torch: of the device if there is one, else host
    dtype                 a type of that package; its own default
    axis_order            "C", "F", or the axes from the one that changes fastest to the slowest
    make_symmetric        where ranks ask for different sizes, each gets the largest; else that is MismatchError
    skip_symmetric_check  whether sizes agree is looked at in any case, for it costs no message of its own
    logger                is told of each allocation, as debugging; the root logger
    """
    context = _initialized()
    if getattr(package, "__name__", None) not in _PACKAGES:
        raise ValueError(f"package is {package!r}, expected one of the modules {', '.join(_PACKAGES)}")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    order = _axes(axis_order, len(extents))
    kind, item_bytes = _type_of(package, dtype)
    nbytes = math.prod(extents) * item_bytes
    if make_symmetric:
        nbytes = int(context.weft.world.all_reduce(numpy.array([nbytes], numpy.uint64), op="max").result()[0])
    (logger or logging.getLogger()).debug("weft.nvmath: %d bytes of symmetric memory", nbytes)
    flat = _array(context, package, kind, math.prod(extents), item_bytes, max(1, nbytes))
    shaped = flat.reshape([extents[axis] for axis in reversed(order)])
    back = [len(order) - 1 - order.index(axis) for axis in range(len(order))]
    found: SymmetricArray = shaped.permute(back) if package.__name__ == "torch" else shaped.transpose(back)
    return found


def free_symmetric_memory(*tensors: SymmetricArray) -> None:
    """Free what allocate_symmetric_memory() gave.  StateError while an operation uses it; other ranks need not call."""
    world = _initialized().weft.world
    for tensor in tensors:
        world._deallocate(ffi.cast("void *", _address(tensor)))
        arrays.give_back(tensor)


def _initialized() -> DistributedContext:
    context = get_context()
    if context is None:
        raise StateError("weft.nvmath is not initialized: initialize() comes first")
    return context


def _axes(axis_order: AxisOrder, n: int) -> list[int]:
    """The axes, the one that changes fastest first."""
    if axis_order == "C":
        return list(reversed(range(n)))
    if axis_order == "F":
        return list(range(n))
    if isinstance(axis_order, str) or sorted(axis_order) != list(range(n)):
        raise ValueError(f'axis_order is {axis_order!r}, expected "C", "F" or each of the {n} axes once')
    return list(axis_order)


def _type_of(package: ModuleType, dtype: Any) -> tuple[Any, int]:
    """The type in the package's own words, and the bytes of an element."""
    if package.__name__ == "torch":
        kind = package.get_default_dtype() if dtype is None else dtype
        return kind, int(kind.itemsize)
    kind = numpy.dtype(numpy.float64 if dtype is None else dtype)
    return kind, kind.itemsize


class _OnDevice:
    """Bytes on a device, as cupy and torch take them over."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _array(
    context: DistributedContext, package: ModuleType, kind: Any, count: int, item_bytes: int, nbytes: int
) -> Any:
    """`count` elements in memory of nbytes that was just allocated."""
    job = context.weft
    if package.__name__ == "numpy" or (package.__name__ == "torch" and job.device < 0):
        memory = job.world.mem_alloc_bytes(nbytes)[: count * item_bytes]
        if package.__name__ == "numpy":
            return numpy.frombuffer(memory, kind, count)
        return package.frombuffer(memory, dtype=kind) if count else package.empty(0, dtype=kind)
    if job.device < 0:
        raise StateError(f"package is {package.__name__}, and no device is in use: initialize() with backend nccl")
    address = int(ffi.cast("uintptr_t", job.world._allocate(nbytes, arrays.CUDA)))
    holder = _OnDevice(address, count * item_bytes)
    if package.__name__ == "torch":
        return package.as_tensor(holder, device=f"cuda:{context.device_id}").view(kind)
    return package.asarray(holder).view(kind)


def _address(tensor: Any) -> int:
    if hasattr(tensor, "data_ptr"):
        return int(tensor.data_ptr())
    told = getattr(tensor, "__array_interface__", None) or getattr(tensor, "__cuda_array_interface__", None)
    if told is None:
        raise TypeError(f"a {type(tensor).__name__} is no array of allocate_symmetric_memory()")
    return int(told["data"][0])
