"""torch.distributed's process group on a group of Weft.

The names of methods, their arguments and their order are torch's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from weft.context import Context
from weft.errors import TimeoutError, UnsupportedError, WeftError
from weft.group import Group
from weft.request import Request
from weft.torch import sparse
from weft.torch.tensors import Targets, expect_plain, joined, only, packed, view
from weft.torch.work import Work

_LEAVE_S = 30.0
_SHORTEST_S = 0.001  # of a deadline: with none a barrier has the group's

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}


class ProcessGroup(dist.ProcessGroup):
    """One rank's part in a group, as torch.distributed calls it."""

    def __init__(self, group: Group, context: Optional[Context], store: dist.Store, timeout: timedelta) -> None:
        super().__init__(group.rank, group.size)
        self._group = group
        self._context = context  # what is left with this group; None: the group alone ends
        self._store = store
        self._timeout = timeout
        self._number = 0
        self._name = self._desc = ""
        self._coalesced: Optional[list[Work]] = None  # what began since start_coalescing

    # ---- what it is ----------------------------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return "weft"

    def name(self) -> str:
        return "weft"

    _get_backend_name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    def getGroupDesc(self) -> str:
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        self._desc = desc

    _set_group_desc = setGroupDesc
    group_desc = property(getGroupDesc)

    def get_group_store(self) -> dist.Store:
        return self._store

    # What torch asks where it looks for a device for objects, for checkpoints and for monitored_barrier.
    @property
    def _device_types(self) -> list[Any]:
        own = [torch.device("cpu")]
        return own if self._group.context.closed or self._group.context.device < 0 else [*own, torch.device("cuda")]

    # It is its own backend, on every device.
    def _get_backend(self, device: Any) -> ProcessGroup:
        return self

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: every rank counts from 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._number

    def set_timeout(self, timeout: timedelta) -> None:
        self._group.set_timeout(timeout.total_seconds())
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        if not self._group.context.closed:
            self._group.abort("torch.distributed's abort")

    def shutdown(self) -> None:
        if self._group.context.closed:
            return
        if self._context is None:
            try:
                self._group.free()
            except WeftError:  # it goes with its context
                pass
            return
        try:
            self._context.close(_LEAVE_S)
        except WeftError as error:
            self._context.abort(str(error))

    def __repr__(self) -> str:
        return f"<weft.torch.ProcessGroup {self._name!r}, rank {self.rank()} of {self.size()}>"

    # ---- one tensor ------------------------------------------------------------------------------------------------

    def broadcast(self, tensors: Sequence[Tensor], opts: dist.BroadcastOptions) -> Work:
        tensor = only(tensors, "broadcast")
        targets = Targets()
        used = targets.one(tensor, read=opts.rootRank == self.rank())
        request = self._group.broadcast(view(used, "broadcast"), opts.rootRank, timeout=_seconds(opts))
        finish = targets.finish if opts.rootRank != self.rank() else None
        return self._work([request], list(tensors), finish)

    def allreduce(self, tensors: Sequence[Tensor], opts: Optional[dist.AllreduceOptions] = None) -> Work:
        opts = dist.AllreduceOptions() if opts is None else opts
        if len(tensors) == 1 and tensors[0].layout is torch.sparse_coo:
            return self._work(
                sparse.all_reduce(self._group, tensors[0], opts.reduceOp, _seconds(opts)), list(tensors), None
            )
        tensor = only(tensors, "all_reduce")
        op, scale = _reduction(opts.reduceOp, "all_reduce")
        targets = Targets()
        used = view(targets.one(tensor, read=True), "all_reduce")
        request = self._group.all_reduce(used, None, op, scale=scale, timeout=_seconds(opts))
        return self._work([request], list(tensors), targets.finish)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: dist.AllreduceCoalescedOptions) -> Work:
        op, scale = _reduction(opts.reduceOp, "all_reduce_coalesced")
        targets = Targets()
        used = [targets.one(expect_plain(t, "all_reduce_coalesced"), read=True) for t in tensors]
        with self._group.batch() as batch:
            for tensor in used:
                self._group.all_reduce(view(tensor, "all_reduce_coalesced"), None, op, scale=scale, batch=batch)
            batch.end(timeout=_seconds(opts))
        return self._work([batch.request], list(tensors), targets.finish)

    def reduce(self, tensors: Sequence[Tensor], opts: dist.ReduceOptions) -> Work:
        tensor = only(tensors, "reduce")
        op, scale = _reduction(opts.reduceOp, "reduce")
        targets = Targets()
        used = view(targets.one(tensor, read=True), "reduce")
        request = self._group.reduce(used, None, op, opts.rootRank, scale=scale, timeout=_seconds(opts))
        finish = targets.finish if opts.rootRank == self.rank() else None
        return self._work([request], list(tensors), finish)

    # ---- a block of each rank --------------------------------------------------------------------------------------

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Optional[dist.AllgatherOptions] = None) -> Work:
        targets = Targets()
        request = self._gather_all(output, input, targets, opts, None)
        return self._work([request], [output], targets.finish)

    _allgather_base = all_gather_single

    def allgather(
        self,
        outputs: Sequence[Sequence[Tensor]],
        inputs: Sequence[Tensor],
        opts: Optional[dist.AllgatherOptions] = None,
    ) -> Work:
        tensor, lists = only(inputs, "all_gather"), _list(outputs, self.size(), "all_gather")
        targets = Targets()
        whole = targets.several([expect_plain(t, "all_gather") for t in lists], "all_gather")
        counts = [t.numel() for t in lists]
        a, o, seconds = view(packed(tensor), "all_gather"), view(whole, "all_gather"), _seconds(opts)
        if len(set(counts)) == 1:
            request = self._group.all_gather(a, o, timeout=seconds)
        else:
            request = self._group.all_gather_v(a, o, counts, timeout=seconds)
        return self._work([request], list(lists), targets.finish)

    def allgather_coalesced(
        self,
        outputs: Sequence[Sequence[Tensor]],
        inputs: Sequence[Tensor],
        opts: Optional[dist.AllgatherOptions] = None,
    ) -> Work:
        targets = Targets()
        wholes = []
        for place in range(len(inputs)):
            lists = [expect_plain(of_rank[place], "all_gather_coalesced") for of_rank in outputs]
            wholes.append(targets.several(lists, "all_gather_coalesced"))
        with self._group.batch() as batch:
            for whole, tensor in zip(wholes, inputs):
                self._gather_all(whole, tensor, targets, opts, batch)
            batch.end(timeout=_seconds(opts))
        return self._work([batch.request], [t for of_rank in outputs for t in of_rank], targets.finish)

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Optional[dist.AllgatherOptions] = None
    ) -> Work:
        targets = Targets()
        with self._group.batch() as batch:
            for output, tensor in zip(outputs, inputs):
                self._gather_all(output, tensor, targets, opts, batch)
            batch.end(timeout=_seconds(opts))
        return self._work([batch.request], list(outputs), targets.finish)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: dist.GatherOptions) -> Work:
        tensor, targets = only(inputs, "gather"), Targets()
        whole, lists = None, []
        if opts.rootRank == self.rank():
            lists = [expect_plain(t, "gather") for t in _list(outputs, self.size(), "gather")]
            whole = view(targets.several(lists, "gather"), "gather")
        request = self._group.gather(view(packed(tensor), "gather"), whole, opts.rootRank, timeout=_seconds(opts))
        return self._work([request], list(lists), targets.finish)

    def gather_single(self, output: Tensor, input: Tensor, opts: dist.GatherOptions) -> Work:
        targets = Targets()
        root = opts.rootRank == self.rank()
        whole = view(targets.one(expect_plain(output, "gather")), "gather") if root else None
        used = view(packed(expect_plain(input, "gather")), "gather")
        request = self._group.gather(used, whole, opts.rootRank, timeout=_seconds(opts))
        return self._work([request], [output] if root else [], targets.finish)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: dist.ScatterOptions) -> Work:
        tensor, targets = only(outputs, "scatter"), Targets()
        whole = None
        if opts.rootRank == self.rank():
            lists = [expect_plain(t, "scatter") for t in _list(inputs, self.size(), "scatter")]
            whole = view(joined(lists, "scatter"), "scatter")
        used = view(targets.one(tensor), "scatter")
        request = self._group.scatter(whole, used, opts.rootRank, timeout=_seconds(opts))
        return self._work([request], list(outputs), targets.finish)

    def reduce_scatter(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Sequence[Tensor]],
        opts: Optional[dist.ReduceScatterOptions] = None,
    ) -> Work:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        tensor, targets = only(outputs, "reduce_scatter"), Targets()
        lists = [expect_plain(t, "reduce_scatter") for t in _list(inputs, self.size(), "reduce_scatter")]
        op, scale = _reduction(opts.reduceOp, "reduce_scatter")
        counts = [t.numel() for t in lists]
        a, o = view(joined(lists, "reduce_scatter"), "reduce_scatter"), view(targets.one(tensor), "reduce_scatter")
        seconds = _seconds(opts)
        if len(set(counts)) == 1:
            request = self._group.reduce_scatter(a, o, op, scale=scale, timeout=seconds)
        else:
            request = self._group.reduce_scatter_v(a, o, counts, op, scale=scale, timeout=seconds)
        return self._work([request], list(outputs), targets.finish)

    def reduce_scatter_single(
        self, output: Tensor, input: Tensor, opts: Optional[dist.ReduceScatterOptions] = None
    ) -> Work:
        targets = Targets()
        request = self._reduce_blocks(output, input, targets, opts, None)
        return self._work([request], [output], targets.finish)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Optional[dist.ReduceScatterOptions] = None
    ) -> Work:
        targets = Targets()
        with self._group.batch() as batch:
            for output, tensor in zip(outputs, inputs):
                self._reduce_blocks(output, tensor, targets, opts, batch)
            batch.end(timeout=_seconds(opts))
        return self._work([batch.request], list(outputs), targets.finish)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- a block from each rank to each ----------------------------------------------------------------------------

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Optional[dist.AllToAllOptions] = None,
    ) -> Work:
        targets = Targets()
        a = view(packed(expect_plain(input, "all_to_all")), "all_to_all")
        o = view(targets.one(expect_plain(output, "all_to_all")), "all_to_all")
        into, out_of = self._counts(output, output_splits), self._counts(input, input_splits)
        if not output_splits and not input_splits:
            request = self._group.all_to_all(a, o, timeout=_seconds(opts))
        else:
            request = self._group.all_to_all_v(a, out_of, o, into, timeout=_seconds(opts))
        return self._work([request], [output], targets.finish)

    alltoall_base = all_to_all_single

    def alltoall(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Optional[dist.AllToAllOptions] = None
    ) -> Work:
        targets = Targets()
        for tensors in (outputs, inputs):
            if len(tensors) != self.size():
                raise ValueError(f"all_to_all: {len(tensors)} tensors are given, expected {self.size()}")
        a = joined([expect_plain(t, "all_to_all") for t in inputs], "all_to_all")
        o = targets.several([expect_plain(t, "all_to_all") for t in outputs], "all_to_all")
        request = self._group.all_to_all_v(
            view(a, "all_to_all"),
            [t.numel() for t in inputs],
            view(o, "all_to_all"),
            [t.numel() for t in outputs],
            timeout=_seconds(opts),
        )
        return self._work([request], list(outputs), targets.finish)

    # ---- messages --------------------------------------------------------------------------------------------------

    def send(self, tensors: Sequence[Tensor], dst: int, tag: int) -> Work:
        request = self._group.isend(view(packed(only(tensors, "send")), "send"), dst, tag)
        return self._work([request], list(tensors), None, counted=False)

    def recv(self, tensors: Sequence[Tensor], src: int, tag: int) -> Work:
        targets = Targets()
        request = self._group.irecv(view(targets.one(only(tensors, "recv")), "recv"), src, tag)
        return self._work([request], list(tensors), targets.finish, counted=False)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        targets = Targets()
        request = self._group.irecv(view(targets.one(only(tensors, "recv")), "recv"), tag=tag)
        return self._work([request], list(tensors), targets.finish, counted=False)

    def barrier(self, opts: Optional[dist.BarrierOptions] = None) -> Work:
        return self._work([self._group.barrier(timeout=_seconds(opts))], [], None)

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose failure names the ranks that have not come, as every one of Weft's does, on every rank."""
        limit = self._timeout if timeout is None else timeout
        try:
            self._group.barrier(timeout=max(limit.total_seconds(), _SHORTEST_S)).wait()
        except TimeoutError as error:
            words = f"Rank {self.rank()} timed out in monitoredBarrier after {limit.total_seconds() * 1e3:.0f} ms"
            late = "" if error.rank is None else f"Rank {error.rank} failed to pass monitoredBarrier: "
            raise error.extended(f"{words}: {late}{error}") from None

    # ---- several operations as one ---------------------------------------------------------------------------------

    # torch's coalescing manager calls operations in between, whose work is waited for each.
    def start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    _start_coalescing = start_coalescing

    def end_coalescing(self, device: torch.device) -> Work:
        works: list[Work] = self._coalesced or []
        self._coalesced = None
        return Work(
            [request for work in works for request in work._requests],
            [tensor for work in works for tensor in work._tensors],
            lambda: _end_all(works),
            self._number,
        )

    _end_coalescing = end_coalescing

    # ---- how all of this is done -----------------------------------------------------------------------------------

    def _work(
        self,
        requests: list[Request[Any]],
        tensors: list[Any],
        finish: Optional[Callable[[], object]],
        counted: bool = True,
    ) -> Work:
        if counted:
            self._number += 1
        work = Work(requests, tensors, finish, self._number)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # The deadline of a batch is that of its end.
    def _gather_all(self, output: Any, input: Any, targets: Targets, opts: Any, batch: Any) -> Request[Any]:
        a = view(packed(expect_plain(input, "all_gather")), "all_gather")
        o = view(targets.one(expect_plain(output, "all_gather")), "all_gather")
        seconds = None if batch is not None else _seconds(opts)
        return self._group.all_gather(a, o, timeout=seconds, batch=batch)

    def _reduce_blocks(self, output: Any, input: Any, targets: Targets, opts: Any, batch: Any) -> Request[Any]:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        op, scale = _reduction(opts.reduceOp, "reduce_scatter")
        a = view(packed(expect_plain(input, "reduce_scatter")), "reduce_scatter")
        o = view(targets.one(expect_plain(output, "reduce_scatter")), "reduce_scatter")
        seconds = None if batch is not None else _seconds(opts)
        return self._group.reduce_scatter(a, o, op, scale=scale, timeout=seconds, batch=batch)

    # Splits count rows of the first axis.
    def _counts(self, tensor: Any, splits: Sequence[int]) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        if not splits:
            if rows % self.size():
                raise ValueError(f"all_to_all: {rows} rows cannot be split evenly among {self.size()} ranks")
            splits = [rows // self.size()] * self.size()
        if sum(splits) != rows:
            raise ValueError(f"all_to_all: the splits add up to {sum(splits)}, expected the {rows} rows of the tensor")
        row = tensor.numel() // rows if rows else 0
        return [split * row for split in splits]


def _end_all(works: list[Work]) -> None:
    for work in works:
        work._end()


def _list(lists: Sequence[Sequence[Any]], size: int, operation: str) -> Sequence[Any]:
    if len(lists) != 1 or len(lists[0]) != size:
        given = len(lists[0]) if lists else 0
        raise ValueError(f"{operation}: a list of {given} tensors is given, expected one of {size}, the ranks")
    return lists[0]


# torch says -1 ms for a time that was not given.
def _seconds(opts: Any) -> Optional[float]:
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


def _reduction(op: Any, operation: str) -> tuple[str, float]:
    for known, name in _OPS.items():
        if op == known:
            return name, 0.0
    if op == dist.ReduceOp.PREMUL_SUM and isinstance(op.factor, float):
        return "premul_sum", op.factor
    raise UnsupportedError(
        f"{operation}: the reduction is {op}, expected one of {', '.join(_OPS.values())}, or premul_sum by a number"
    )
