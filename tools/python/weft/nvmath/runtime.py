"""The runtime: from a set of processes to a job, once in a process at a time."""

from __future__ import annotations

import atexit
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Sequence, Union

import numpy

from weft.context import Context, init
from weft.nvmath.process_group import MPIProcessGroup, ProcessGroup, ReductionOp, WeftProcessGroup

if TYPE_CHECKING:
    from mpi4py.MPI import Comm  # type: ignore[import-not-found,import-untyped,unused-ignore]

_BACKENDS = ("nccl", "host")

_lock = threading.Lock()
_context: Optional[DistributedContext] = None


@dataclass(frozen=True)
class DistributedContext:
    """What initialize() has made.

    device_id          the CUDA device that it was given
    process_group      the processes that take part
    nvshmem_available  False: Weft has no NVSHMEM
    nccl_comm          None: the communicators of NCCL are Weft's own, one for each of its groups
    weft               the job, whose `world` has every operation
    """

    device_id: int
    process_group: ProcessGroup
    nvshmem_available: bool
    nccl_comm: None
    weft: Context

    @property
    def communicator(self) -> Optional[Comm]:
        """The communicator of mpi4py that it was made of, as nvmath called it up to 0.8; None: of none."""
        return self.process_group.communicator if isinstance(self.process_group, MPIProcessGroup) else None


def initialize(
    device_id: int,
    process_group: Union[ProcessGroup, Comm, None] = None,
    backends: Sequence[str] = ("nccl",),
    *,
    communicator: Optional[Comm] = None,
    timeout: Optional[float] = None,
) -> None:
    """Make a job of the processes of a group.  A collective of all of them.

    device_id      the CUDA device of this process; -1: none, for backends ["host"]
    process_group  a ProcessGroup or a communicator of mpi4py; None: the ranks that a launcher has started
    backends       "nccl" for memory of devices, "host" for that of the host, which is there in any case
    communicator   what process_group was called up to nvmath 0.8
    timeout        seconds for meeting, and the default of every group; 1800

    Raises RuntimeError where it is initialized already, UnsupportedError where a backend cannot run here, and what
    weft.init() raises.
    """
    if not isinstance(device_id, int) or isinstance(device_id, bool):
        raise TypeError(f"device_id is {device_id!r}, expected the number of a CUDA device")
    if communicator is not None and process_group is not None:
        raise TypeError("process_group and communicator are both given, and mean the same")
    _check_backends(backends)
    group = _as_group(communicator if process_group is None else process_group)
    with _lock:
        global _context
        if _context is not None:
            raise RuntimeError("weft.nvmath is initialized already; finalize() comes before another initialize()")
        job = init(
            bootstrap=_Meeting(group) if group is not None else None,
            device=device_id,
            backends="host,nccl" if "nccl" in backends else "host",
            timeout=timeout,
        )
        _context = DistributedContext(device_id, group or WeftProcessGroup(job.world), False, None, job)


def finalize() -> None:
    """Leave the job.  A collective; memory of allocate_symmetric_memory() ends.  Also done at exit."""
    with _lock:
        global _context
        if _context is not None:
            _context.weft.close()
        _context = None


def get_context() -> Optional[DistributedContext]:
    """What initialize() has made; None before it, and after finalize()."""
    return _context


class _Meeting:
    """A process group as weft.init() meets by it: the bytes of each process are summed with the zeros of the others."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self.rank, self.size = group.rank, group.nranks

    def all_gather(self, own: bytes) -> list[bytes]:
        everybody = numpy.zeros((self.size, len(own)), numpy.uint8)
        everybody[self.rank] = numpy.frombuffer(own, numpy.uint8)
        self._group.allreduce_buffer(everybody.reshape(-1), op=ReductionOp.SUM)
        return [row.tobytes() for row in everybody]


def _check_backends(backends: Sequence[str]) -> None:
    if isinstance(backends, str):
        raise TypeError(f'backends is "{backends}", expected a list of names')
    if not backends:
        raise ValueError(f"backends is empty, expected one or more of {', '.join(_BACKENDS)}")
    for name in backends:
        if name == "nvshmem":
            from weft.errors import UnsupportedError

            raise UnsupportedError(
                'backend "nvshmem": Weft has no NVSHMEM; its symmetric memory is that of backend "nccl" (windows of NCCL) '
                'and "host" (shared memory), by allocate_symmetric_memory(); expected backends of these two'
            )
        if name not in _BACKENDS:
            raise ValueError(f"backend {name!r} is unknown, expected one or more of {', '.join(_BACKENDS)}")


def _as_group(given: Union[ProcessGroup, Comm, None]) -> Optional[ProcessGroup]:
    if given is None or isinstance(given, ProcessGroup):
        return given
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(given, mpi.Comm):
        return MPIProcessGroup(given)
    raise TypeError(f"process_group is {given!r}, expected a weft.nvmath.ProcessGroup or a communicator of mpi4py")


@atexit.register
def _finalize_at_exit() -> None:
    if _context is not None and not _context.weft.closed:
        finalize()
