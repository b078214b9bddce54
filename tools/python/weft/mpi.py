"""Meeting over MPI: the ranks of a communicator of mpi4py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from mpi4py.MPI import Comm  # type: ignore[import-not-found,import-untyped,unused-ignore]

    from weft.bootstrap import Bootstrap


class _Communicator:
    def __init__(self, comm: Comm) -> None:
        self._comm = comm
        self.rank = int(comm.Get_rank())
        self.size = int(comm.Get_size())

    def all_gather(self, own: bytes) -> list[bytes]:
        everybody = bytearray(len(own) * self.size)
        self._comm.Allgather(bytearray(own), everybody)
        return [bytes(everybody)]


def world() -> Comm:
    """COMM_WORLD of mpi4py; RuntimeError with a sentence where that is not installed."""
    try:
        from mpi4py import MPI  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RuntimeError("meeting over MPI needs the package mpi4py, which is not installed") from error
    return MPI.COMM_WORLD


def bootstrap(comm: Optional[Comm] = None) -> Bootstrap:
    """For init(bootstrap=...): the ranks of any communicator of mpi4py, without one of COMM_WORLD."""
    return _Communicator(world() if comm is None else comm)
