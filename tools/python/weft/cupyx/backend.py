"""The communicator of one rank, and how it comes to be."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Union

from weft.context import Context, init
from weft.cupyx.dense import Array, Dense
from weft.cupyx.sparse import Matrix, Sparse, is_sparse
from weft.request import Request

_DEFAULT_HOST = "127.0.0.1"
_DEFAULT_PORT = 13333

Operand = Union[Array, Matrix]
Operands = Union[Array, List[Matrix]]  # those of all ranks


class NCCLBackend:
    """The communicator of one rank, as init_process_group makes it.

    Arrays lie in C's or Fortran's order, of any shape whose number of elements is right; scatter, gather and all_to_all
    look at the shape of what all ranks have, (n_devices, ...).  On arrays of the host a method returns when it is done.
    On those of a device `stream`, else the stream that the array tells, else the default one has it: the host goes on.

    Sparse matrices are COO, CSR or CSC.  They are reduced by "sum", and by "prod" as matrices; what all ranks have of
    them is a list, to which all_gather, gather and all_to_all append.

    Raised before anything is sent are RuntimeError for an op that there is not, elements with gaps between them and a
    first dimension, or a list, of other than n_devices; ValueError for complex numbers by another op than "sum",
    matrices by another than "sum" and "prod", a count that an array has not room for, sizes or formats that differ;
    TypeError for a type or a sparse format that Weft has not; and StateError after stop().  What fails later is another
    of weft.errors, which are RuntimeError too: PeerError with the rank that died, TimeoutError with the one that is late.
    """

    def __init__(
        self, n_devices: int, rank: int, host: str = _DEFAULT_HOST, port: int = _DEFAULT_PORT, use_mpi: bool = False
    ) -> None:
        """Join n_devices ranks that meet at host and port, or with use_mpi over COMM_WORLD of mpi4py.

        An address other than a loopback one needs a secret, in WEFT_SECRET.  Raises what init_process_group() raises.
        """
        if not use_mpi:
            _check_place(n_devices, rank)
        self.rank = rank
        self._n_devices = n_devices
        self._context = _join(n_devices, rank, host, port, use_mpi)
        self._group = self._context.world

    def all_reduce(self, in_array: Operand, out_array: Operand, op: str = "sum", stream: object = None) -> None:
        """out_array = in_array of all ranks, reduced by "sum", "prod", "min" or "max"; complex ones by "sum" alone."""
        self._of(in_array, stream).all_reduce(in_array, out_array, op)

    def reduce(
        self, in_array: Operand, out_array: Operand, root: int = 0, op: str = "sum", stream: object = None
    ) -> None:
        """As all_reduce, but only root's out_array is written."""
        self._of(in_array, stream).reduce(in_array, out_array, root, op)

    def broadcast(self, in_out_array: Operand, root: int = 0, stream: object = None) -> None:
        """Copy root's array to every rank's."""
        self._of(in_out_array, stream).broadcast(in_out_array, root)

    def reduce_scatter(
        self, in_array: Operands, out_array: Operand, count: int, op: str = "sum", stream: object = None
    ) -> None:
        """Reduce n_devices * count elements; this rank gets its block of count in out_array."""
        self._of(in_array, stream).reduce_scatter(in_array, out_array, count, op)

    def all_gather(self, in_array: Operand, out_array: Operands, count: int, stream: object = None) -> None:
        """The first count elements of each rank's in_array, one after the other, into out_array."""
        self._of(in_array, stream).all_gather(in_array, out_array, count)

    def send(self, array: Operand, peer: int, stream: object = None) -> None:
        """Send array to a rank, which calls recv or send_recv."""
        self._of(array, stream).send(array, peer)

    def recv(self, out_array: Operand, peer: int, stream: object = None) -> None:
        """Receive what a rank sends to this one."""
        self._of(out_array, stream).recv(out_array, peer)

    def send_recv(self, in_array: Operand, out_array: Operand, peer: int, stream: object = None) -> None:
        """Send in_array to a rank and receive out_array from it."""
        self._of(in_array, stream).send_recv(in_array, out_array, peer)

    def scatter(self, in_array: Operands, out_array: Operand, root: int = 0, stream: object = None) -> None:
        """Each rank gets its row of root's in_array, whose shape is (n_devices, ...); elsewhere it is not looked at."""
        self._of(out_array, stream).scatter(in_array, out_array, root)

    def gather(self, in_array: Operand, out_array: Operands, root: int = 0, stream: object = None) -> None:
        """root gets the arrays of all ranks in out_array of shape (n_devices, ...); elsewhere it is not looked at."""
        self._of(in_array, stream).gather(in_array, out_array, root)

    def all_to_all(self, in_array: Operands, out_array: Operands, stream: object = None) -> None:
        """A row from each rank to each: both arrays have the shape (n_devices, ...)."""
        self._of(in_array, stream).all_to_all(in_array, out_array)

    def barrier(self) -> None:
        """Wait, on the host, until all ranks have come."""
        self._group.barrier().wait()

    def stop(self) -> None:
        """Leave.  The communicator cannot be used afterwards."""
        self._context.close()

    # A list is one of matrices.
    def _of(self, array: object, stream: object) -> Any:
        kind = Sparse if isinstance(array, (list, tuple)) or is_sparse(array) else Dense
        return kind(self._group, lambda of, start: self._run(of, stream, start))

    def _run(self, array: Any, stream: object, start: Callable[[object], Request[Any]]) -> None:
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

    Raises ValueError for a backend other than "nccl", n_devices below 1 and a rank that is none of them, with use_mpi also
    where they are not those of COMM_WORLD's processes; and what weft.init() raises.
    """
    if not use_mpi:
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
    if use_mpi:
        return _join_over_mpi(n_devices, rank)
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return init(f"tcp://{place}:{port}", rank=rank, world_size=n_devices)


# The ranks that were given need not be MPI's: MPI orders its own by them.  What one process was given wrong is refused
# by all of them, so that none waits for it.
def _join_over_mpi(n_devices: int, rank: int) -> Context:
    from weft.mpi import bootstrap, world

    given = world().allgather((n_devices, rank))
    size = len(given)
    counts, ranks = [count for count, _ in given], sorted(each for _, each in given)
    if counts != [size] * size:
        told = counts if len(set(counts)) > 1 else n_devices
        raise ValueError(f"n_devices is {told}, expected {size}, the processes of COMM_WORLD, by use_mpi")
    if ranks != list(range(size)):
        raise ValueError(f"the ranks are {ranks}, expected each of 0 to {size - 1} once")
    ordered = world().Split(0, rank)
    try:
        return init(bootstrap=bootstrap(ordered))
    finally:
        ordered.Free()
