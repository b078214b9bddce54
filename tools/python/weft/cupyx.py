"""cupyx.distributed on Weft: init_process_group and NCCLBackend, with its methods, argument orders and shapes.

    import weft.cupyx as distributed

    comm = distributed.init_process_group(2, rank)
    comm.all_reduce(in_array, out_array, "sum")
    comm.stop()

Arrays are cupy's or numpy's.  On a device an operation is ordered after the stream's earlier work and before its later
work, and the host does not wait for it.  On the host it is done when the method returns.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Protocol, Sequence

from weft import dtypes
from weft.context import Context, init
from weft.request import Request

_DEFAULT_HOST = "127.0.0.1"
_DEFAULT_PORT = 13333

_OPS = ("sum", "prod", "min", "max")


class Array(Protocol):
    """What cupy.ndarray and numpy.ndarray have in common, as far as it is needed here."""

    @property
    def dtype(self) -> Any: ...

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def size(self) -> int: ...

    @property
    def flags(self) -> Any: ...

    def ravel(self, order: Any = ...) -> Any: ...


class NCCLBackend:
    """The communicator of one rank, as init_process_group makes it."""

    def __init__(
        self, n_devices: int, rank: int, host: str = _DEFAULT_HOST, port: int = _DEFAULT_PORT, use_mpi: bool = False
    ) -> None:
        """Join n_devices ranks that meet at host and port, or with use_mpi over COMM_WORLD of mpi4py.

        An address other than a loopback one needs a secret, in WEFT_SECRET.
        """
        _check_place(n_devices, rank)
        self.rank = rank
        self._n_devices = n_devices
        self._context = _join(n_devices, rank, host, port, use_mpi)
        self._group = self._context.world

    def all_reduce(self, in_array: Array, out_array: Array, op: str = "sum", stream: object = None) -> None:
        """out_array = in_array of all ranks, reduced by "sum", "prod", "min" or "max"; complex ones by "sum" alone."""
        _check_op(op, in_array)
        a, o = _flat(in_array, "in_array"), _flat(out_array, "out_array")
        self._run(in_array, stream, lambda s: self._group.all_reduce(a, o, op, stream=s))

    def reduce(
        self, in_array: Array, out_array: Array, root: int = 0, op: str = "sum", stream: object = None
    ) -> None:
        """As all_reduce, but only root's out_array is written."""
        _check_op(op, in_array)
        a = _flat(in_array, "in_array")
        o = _flat(out_array, "out_array") if self.rank == root else None
        self._run(in_array, stream, lambda s: self._group.reduce(a, o, op, root, stream=s))

    def broadcast(self, in_out_array: Array, root: int = 0, stream: object = None) -> None:
        """Copy root's array to every rank's."""
        a = _flat(in_out_array, "in_out_array")
        self._run(in_out_array, stream, lambda s: self._group.broadcast(a, root, stream=s))

    def reduce_scatter(
        self, in_array: Array, out_array: Array, count: int, op: str = "sum", stream: object = None
    ) -> None:
        """Reduce n_devices * count elements; this rank gets its block of count in out_array."""
        _check_op(op, in_array)
        a = _flat(in_array, "in_array", count * self._n_devices)
        o = _flat(out_array, "out_array", count)
        self._run(in_array, stream, lambda s: self._group.reduce_scatter(a, o, op, stream=s))

    def all_gather(self, in_array: Array, out_array: Array, count: int, stream: object = None) -> None:
        """The first count elements of each rank's in_array, one after the other, into out_array."""
        a = _flat(in_array, "in_array", count)
        o = _flat(out_array, "out_array", count * self._n_devices)
        self._run(in_array, stream, lambda s: self._group.all_gather(a, o, stream=s))

    def send(self, array: Array, peer: int, stream: object = None) -> None:
        """Send array to a rank, which calls recv or send_recv."""
        a = _flat(array, "array")
        self._run(array, stream, lambda s: self._group.isend(a, peer, stream=s))

    def recv(self, out_array: Array, peer: int, stream: object = None) -> None:
        """Receive what a rank sends to this one."""
        o = _flat(out_array, "out_array")
        self._run(out_array, stream, lambda s: self._group.irecv(o, peer, 0, stream=s))

    def send_recv(self, in_array: Array, out_array: Array, peer: int, stream: object = None) -> None:
        """Send in_array to a rank and receive out_array from it."""
        a, o = _flat(in_array, "in_array"), _flat(out_array, "out_array")

        def start(s: object) -> Request[None]:
            with self._group.batch() as batch:
                self._group.isend(a, peer, stream=s, batch=batch)
                self._group.irecv(o, peer, 0, stream=s, batch=batch)
            return batch.request

        self._run(in_array, stream, start)

    def scatter(self, in_array: Array, out_array: Array, root: int = 0, stream: object = None) -> None:
        """Each rank gets its row of root's in_array, whose shape is (n_devices, ...); elsewhere it is not looked at."""
        o = _flat(out_array, "out_array")
        a = self._rows(in_array, "in_array", "scatter") if self.rank == root else None
        self._run(out_array, stream, lambda s: self._group.scatter(a, o, root, stream=s))

    def gather(self, in_array: Array, out_array: Array, root: int = 0, stream: object = None) -> None:
        """root gets the arrays of all ranks in out_array of shape (n_devices, ...); elsewhere it is not looked at."""
        a = _flat(in_array, "in_array")
        o = self._rows(out_array, "out_array", "gather") if self.rank == root else None
        self._run(in_array, stream, lambda s: self._group.gather(a, o, root, stream=s))

    def all_to_all(self, in_array: Array, out_array: Array, stream: object = None) -> None:
        """A row from each rank to each: both arrays have the shape (n_devices, ...)."""
        a, o = self._rows(in_array, "in_array", "all_to_all"), self._rows(out_array, "out_array", "all_to_all")
        self._run(in_array, stream, lambda s: self._group.all_to_all(a, o, stream=s))

    def barrier(self) -> None:
        """Wait, on the host, until all ranks have come."""
        self._group.barrier().wait()

    def stop(self) -> None:
        """Leave.  The communicator cannot be used afterwards."""
        self._context.close()

    def _rows(self, array: Array, role: str, operation: str) -> Any:
        if not array.shape or array.shape[0] != self._n_devices:
            raise RuntimeError(
                f"{operation} requires {role} to have {self._n_devices} elements in its first dimension, "
                f"found {tuple(array.shape)}"
            )
        return _flat(array, role)

    def _run(self, array: Array, stream: object, start: Callable[[object], Request[Any]]) -> None:
        if not hasattr(array, "__cuda_array_interface__"):
            start(None).wait()  # as cupy's NCCL takes it: a stream does not matter where nothing is on a device
            return
        used = array.__cuda_array_interface__.get("stream") if stream is None else stream
        start(used).stream_wait(used)


def init_process_group(
    n_devices: int,
    rank: int,
    *,
    backend: str = "nccl",
    host: Optional[str] = None,
    port: Optional[int] = None,
    use_mpi: bool = False,
) -> NCCLBackend:
    """Join n_devices ranks as `rank`, and give the communicator; every process calls it, and waits for the others.

    host and port default to CUPYX_DISTRIBUTED_HOST and CUPYX_DISTRIBUTED_PORT, else 127.0.0.1 and 13333.
    """
    _check_place(n_devices, rank)
    if backend != "nccl":
        raise ValueError(f"{backend} is not supported, expected nccl")
    if host is None:
        host = os.environ.get("CUPYX_DISTRIBUTED_HOST", _DEFAULT_HOST)
    if port is None:
        port = int(os.environ.get("CUPYX_DISTRIBUTED_PORT", _DEFAULT_PORT))
    return NCCLBackend(n_devices, rank, host, port, use_mpi)


def _check_place(n_devices: int, rank: int) -> None:
    if n_devices <= 0:
        raise ValueError(f"Invalid number of devices {n_devices}, expected 1 or more")
    if not 0 <= rank < n_devices:
        raise ValueError(f"Invalid rank {rank}, expected 0 <= rank < {n_devices}")


def _join(n_devices: int, rank: int, host: str, port: int, use_mpi: bool) -> Context:
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if use_mpi:
        from weft.mpi import bootstrap

        return init(bootstrap=bootstrap())
    return init(f"tcp://{place}:{port}", rank=rank, world_size=n_devices)


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
    flat = array.ravel(order="K")
    return flat if count is None else flat[:count]
