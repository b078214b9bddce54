"""Sets of processes that know each other already: of MPI, of torch.distributed, of Weft, or of the caller's own."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, TypeVar, Union

if TYPE_CHECKING:
    import numpy
    from mpi4py.MPI import Comm  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from numpy.typing import NDArray
    from torch.distributed import ProcessGroup as TorchGroup

    from weft.group import Group

    Array = NDArray[numpy.generic]

T = TypeVar("T")


class ReductionOp(IntEnum):
    """What allreduce_buffer does with elements."""

    SUM = 0
    MIN = 1
    MAX = 2


class ProcessGroup(ABC):
    """A set of processes, with the few collectives by which they become a job.  They are not used after that."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """This process's number in the group."""

    @property
    @abstractmethod
    def nranks(self) -> int:
        """The number of processes in the group."""

    @abstractmethod
    def broadcast_buffer(self, array: Array, *, root: int = 0) -> None:
        """Copy the root's array, of numpy, into that of every process."""

    @abstractmethod
    def allreduce_buffer(self, array: Array, *, op: ReductionOp) -> None:
        """Reduce the arrays of all processes, element by element, into each of them."""

    @abstractmethod
    def allreduce_object(self, obj: T, *, op: Callable[[T, T], T]) -> T:
        """Reduce the objects of all processes, two at a time, by a function; every process gets the result."""


class MPIProcessGroup(ProcessGroup):
    """The processes of a communicator of mpi4py: of any, a part of COMM_WORLD too."""

    def __init__(self, mpi_comm: Comm) -> None:
        from mpi4py import MPI  # type: ignore[import-not-found,import-untyped,unused-ignore]

        if not isinstance(mpi_comm, MPI.Comm):
            raise TypeError(f"mpi_comm is {mpi_comm!r}, expected a communicator of mpi4py")
        self._comm = mpi_comm
        self._in_place = MPI.IN_PLACE
        self._ops = {ReductionOp.SUM: MPI.SUM, ReductionOp.MIN: MPI.MIN, ReductionOp.MAX: MPI.MAX}

    @property
    def communicator(self) -> Comm:
        """The communicator that it was made of."""
        return self._comm

    @property
    def rank(self) -> int:
        return int(self._comm.Get_rank())

    @property
    def nranks(self) -> int:
        return int(self._comm.Get_size())

    def broadcast_buffer(self, array: Array, *, root: int = 0) -> None:
        self._comm.Bcast(array, root=root)

    def allreduce_buffer(self, array: Array, *, op: ReductionOp) -> None:
        self._comm.Allreduce(self._in_place, array, self._ops[ReductionOp(op)])

    def allreduce_object(self, obj: T, *, op: Callable[[T, T], T]) -> T:
        found: T = self._comm.allreduce(obj, op=op)
        return found


class TorchProcessGroup(ProcessGroup):
    """The processes of a group of torch.distributed; torch_process_group=None: of its default group.

    device_id  "cpu", or the CUDA device that the group's backend uses on this process
    """

    def __init__(self, *, device_id: Union[int, Literal["cpu"]], torch_process_group: Optional[TorchGroup] = None) -> None:
        import torch
        import torch.distributed as dist

        if device_id != "cpu" and (not isinstance(device_id, int) or isinstance(device_id, bool)):
            raise ValueError(f'device_id is {device_id!r}, expected the number of a device or "cpu"')
        if not dist.is_initialized():
            raise RuntimeError("torch.distributed is not initialized")
        backend = dist.get_backend(torch_process_group)
        if backend in ("nccl", "xccl") and device_id == "cpu":
            raise ValueError(f'device_id is "cpu", and the backend {backend} of this group moves memory of devices only')
        self._torch, self._dist, self._group = torch, dist, torch_process_group
        self._device_id = device_id
        self._device = torch.device("cpu" if device_id == "cpu" else f"cuda:{device_id}")
        self._ops = {
            ReductionOp.SUM: dist.ReduceOp.SUM,
            ReductionOp.MIN: dist.ReduceOp.MIN,
            ReductionOp.MAX: dist.ReduceOp.MAX,
        }

    @property
    def device_id(self) -> Union[int, Literal["cpu"]]:
        """The device that the group's backend uses on this process."""
        return self._device_id

    @property
    def rank(self) -> int:
        return int(self._dist.get_rank(self._group))

    @property
    def nranks(self) -> int:
        return int(self._dist.get_world_size(self._group))

    def broadcast_buffer(self, array: Array, *, root: int = 0) -> None:
        source = root if self._group is None else self._dist.get_global_rank(self._group, root)
        self._through(array, lambda tensor: self._dist.broadcast(tensor, source, group=self._group))

    def allreduce_buffer(self, array: Array, *, op: ReductionOp) -> None:
        reduction = self._ops[ReductionOp(op)]
        self._through(array, lambda tensor: self._dist.all_reduce(tensor, reduction, group=self._group))

    def allreduce_object(self, obj: T, *, op: Callable[[T, T], T]) -> T:
        objects: list[Any] = [None] * self.nranks
        with self._on_device():
            self._dist.all_gather_object(objects, obj, group=self._group)
        reduced: T = functools.reduce(op, objects)
        return reduced

    # By way of a tensor: on the host of the array's own elements, else of a copy of them.
    def _through(self, array: Array, collective: Callable[[Any], object]) -> None:
        tensor = self._torch.from_numpy(array)
        with self._on_device():
            moved = tensor.to(self._device)
            collective(moved)
            if moved is not tensor:
                tensor.copy_(moved)

    def _on_device(self) -> AbstractContextManager[object]:
        if self._device_id == "cpu":
            return nullcontext()
        found: AbstractContextManager[object] = self._torch.cuda.device(self._device)
        return found


class WeftProcessGroup(ProcessGroup):
    """The members of a group of Weft, of a job that there is already."""

    _NAMES = {ReductionOp.SUM: "sum", ReductionOp.MIN: "min", ReductionOp.MAX: "max"}

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def nranks(self) -> int:
        return self._group.size

    def broadcast_buffer(self, array: Array, *, root: int = 0) -> None:
        self._group.broadcast(array, root).wait()

    def allreduce_buffer(self, array: Array, *, op: ReductionOp) -> None:
        self._group.all_reduce(array, op=self._NAMES[ReductionOp(op)]).wait()

    def allreduce_object(self, obj: T, *, op: Callable[[T, T], T]) -> T:
        return functools.reduce(op, self._group.all_gather_object(obj, by="pickle"))
