"""Tensors as the library sees them.

A tensor whose elements fill one piece of memory is taken as it lies.  Any other is read by way of a packed copy, and
written by way of one that is copied back once the operation has settled.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch

from weft import arrays, dtypes
from weft._weft import ffi
from weft.arrays import View
from weft.errors import UnsupportedError

_codes: dict[Any, Optional[int]] = {}


def view(tensor: Any, operation: str) -> View:
    """A tensor that fills one piece of memory; refuses what Weft has no type for."""
    kind = tensor.dtype
    if kind not in _codes:
        _codes[kind] = dtypes.from_name(str(kind))
    code = _codes[kind]
    if code is None:
        raise UnsupportedError(f"{operation}: a tensor is {kind}, expected one of: {', '.join(dtypes.CODES)}")
    memory = arrays.CUDA if tensor.is_cuda else arrays.HOST
    stream = torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None
    address, count = tensor.data_ptr(), tensor.numel()
    if count and not address:
        raise ValueError(f"{operation}: a tensor has {count} elements and no memory: its storage was freed")
    pointer = ffi.cast("char *", address) if count else ffi.NULL
    return View(pointer, count, code, memory, True, stream, tensor, tensor.device.index)


def only(tensors: Sequence[Any], operation: str) -> Any:
    """The tensor of a list that must have one."""
    if len(tensors) != 1:
        raise ValueError(f"{operation}: {len(tensors)} tensors are given, expected one for each rank")
    return expect_plain(tensors[0], operation)


def expect_plain(tensor: Any, operation: str) -> Any:
    """The tensor itself, unless it is of a kind that is refused."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"{operation}: a tensor is {tensor.layout}, expected torch.strided; to_dense() makes it that")
    if tensor.is_quantized:
        raise UnsupportedError(f"{operation}: a tensor is quantized ({tensor.dtype}), expected a plain one; int_repr() gives it")
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"{operation}: a tensor lies on {tensor.device}, expected cpu or cuda")
    return tensor.detach()


def packed(tensor: Any) -> Any:
    """The tensor, or a copy of it, with its elements one after the other, the last axis fastest."""
    return tensor if tensor.is_contiguous() else tensor.contiguous()


class Targets:
    """What an operation writes: tensors that fill memory, and what copies from those that stand for others."""

    def __init__(self) -> None:
        self._copies: list[tuple[Any, Any]] = []

    def one(self, tensor: Any, read: bool = False) -> Any:
        """What to write for a tensor; with `read` its elements are looked at too."""
        if tensor.is_contiguous():
            return tensor
        instead = tensor.contiguous() if read else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        self._copies.append((tensor, instead))
        return instead

    def several(self, tensors: Sequence[Any], operation: str) -> Any:
        """One tensor to write for several that follow one another."""
        kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
        if len(kinds) != 1:
            raise ValueError(f"{operation}: the tensors of a list have different types or devices, expected one")
        first = tensors[0]
        whole = torch.empty(sum(t.numel() for t in tensors), dtype=first.dtype, device=first.device)
        parts = whole.split([t.numel() for t in tensors])
        self._copies += [(t, part.view(t.shape)) for t, part in zip(tensors, parts)]
        return whole

    @property
    def finish(self) -> Optional[Callable[[], object]]:
        """What must be called once the operation has settled; None: nothing."""
        return self._copy_back if self._copies else None

    def _copy_back(self) -> None:
        for tensor, instead in self._copies:
            tensor.copy_(instead)


def joined(tensors: Sequence[Any], operation: str) -> Any:
    """The elements of several tensors, one after the other."""
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
    if len(kinds) != 1:
        raise ValueError(f"{operation}: the tensors of a list have different types or devices, expected one")
    return torch.cat([packed(tensor).reshape(-1) for tensor in tensors])
