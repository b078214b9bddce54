"""Arrays between ranks, of any layout whose elements lie one after the other."""

from __future__ import annotations

from typing import Any, Callable, Literal, Optional, Protocol, Sequence

from weft import dtypes
from weft.group import Group
from weft.request import Request

# How an operation is run: with an array that is on a device or not, and the call that starts it on a stream.
Run = Callable[[Any, Callable[[object], "Request[Any]"]], None]

_OPS = ("sum", "prod", "min", "max")


class Dtype(Protocol):
    """What the types of numpy and cupy have in common."""

    @property
    def kind(self) -> str: ...


class Flags(Protocol):
    """How the elements of an array lie."""

    @property
    def c_contiguous(self) -> bool: ...

    @property
    def f_contiguous(self) -> bool: ...


class Array(Protocol):
    """What cupy.ndarray and numpy.ndarray have in common, as far as it is needed here."""

    @property
    def dtype(self) -> Dtype: ...

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def size(self) -> int: ...

    @property
    def flags(self) -> Flags: ...

    def ravel(self, order: Literal["K"]) -> object: ...


class Dense:
    """The operations of a group on arrays."""

    def __init__(self, group: Group, run: Run) -> None:
        self._group = group
        self._run = run

    def all_reduce(self, in_array: Array, out_array: Array, op: str) -> None:
        _check_op(op, in_array)
        a, o = _flat(in_array, "in_array"), _flat(out_array, "out_array")
        self._run(in_array, lambda s: self._group.all_reduce(a, o, op, stream=s))

    def reduce(self, in_array: Array, out_array: Array, root: int, op: str) -> None:
        _check_op(op, in_array)
        a = _flat(in_array, "in_array")
        o = _flat(out_array, "out_array") if self._group.rank == root else None
        self._run(in_array, lambda s: self._group.reduce(a, o, op, root, stream=s))

    def broadcast(self, in_out_array: Array, root: int) -> None:
        a = _flat(in_out_array, "in_out_array")
        self._run(in_out_array, lambda s: self._group.broadcast(a, root, stream=s))

    def reduce_scatter(self, in_array: Array, out_array: Array, count: int, op: str) -> None:
        _check_op(op, in_array)
        a = _flat(in_array, "in_array", count * self._group.size)
        o = _flat(out_array, "out_array", count)
        self._run(in_array, lambda s: self._group.reduce_scatter(a, o, op, stream=s))

    def all_gather(self, in_array: Array, out_array: Array, count: int) -> None:
        a = _flat(in_array, "in_array", count)
        o = _flat(out_array, "out_array", count * self._group.size)
        self._run(in_array, lambda s: self._group.all_gather(a, o, stream=s))

    def send(self, array: Array, peer: int) -> None:
        a = _flat(array, "array")
        self._run(array, lambda s: self._group.isend(a, peer, stream=s))

    def recv(self, out_array: Array, peer: int) -> None:
        o = _flat(out_array, "out_array")
        self._run(out_array, lambda s: self._group.irecv(o, peer, 0, stream=s))

    def send_recv(self, in_array: Array, out_array: Array, peer: int) -> None:
        a, o = _flat(in_array, "in_array"), _flat(out_array, "out_array")

        def start(s: object) -> Request[None]:
            with self._group.batch() as batch:
                self._group.isend(a, peer, stream=s, batch=batch)
                self._group.irecv(o, peer, 0, stream=s, batch=batch)
            return batch.request

        self._run(in_array, start)

    def scatter(self, in_array: Array, out_array: Array, root: int) -> None:
        o = _flat(out_array, "out_array")
        a = self._rows(in_array, "in_array", "scatter") if self._group.rank == root else None
        self._run(out_array, lambda s: self._group.scatter(a, o, root, stream=s))

    def gather(self, in_array: Array, out_array: Array, root: int) -> None:
        a = _flat(in_array, "in_array")
        o = self._rows(out_array, "out_array", "gather") if self._group.rank == root else None
        self._run(in_array, lambda s: self._group.gather(a, o, root, stream=s))

    def all_to_all(self, in_array: Array, out_array: Array) -> None:
        a, o = self._rows(in_array, "in_array", "all_to_all"), self._rows(out_array, "out_array", "all_to_all")
        self._run(in_array, lambda s: self._group.all_to_all(a, o, stream=s))

    def _rows(self, array: Array, role: str, operation: str) -> Any:
        if not array.shape or array.shape[0] != self._group.size:
            raise RuntimeError(
                f"{operation} requires {role} to have {self._group.size} elements in its first dimension, "
                f"found {tuple(array.shape)}"
            )
        return _flat(array, role)


def _check_op(op: str, array: Array) -> None:
    if op not in _OPS:
        raise RuntimeError(f"Unknown op {op}, expected one of {', '.join(_OPS)}")
    _check_dtype(array)
    if array.dtype.kind == "c" and op != "sum":
        raise ValueError(f"Only sum is supported for complex arrays, not {op}")


def _check_dtype(array: Array) -> None:
    if dtypes.from_name(str(array.dtype)) is None:
        raise TypeError(f"Unknown dtype {array.dtype}")


# In memory order, so that an array of Fortran's layout is taken as it lies too, as NCCL does.
def _flat(array: Array, role: str, count: Optional[int] = None) -> Any:
    _check_dtype(array)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise RuntimeError(f"NCCL requires arrays to be either c- or f-contiguous, and {role} is not")
    if count is not None and not 0 <= count <= array.size:
        raise ValueError(f"{role} has {array.size} elements, expected at least the {count} by count")
    flat: Any = array.ravel(order="K")
    return flat if count is None else flat[:count]
