"""An ordered set of ranks, and all that they do together."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence, TypeVar

from weft import arrays, dtypes, interruptible
from weft._weft import ffi, lib
from weft.arrays import View
from weft.context import milliseconds
from weft.errors import StateError, check, text
from weft.request import Request
from weft.streams import handle_of

if TYPE_CHECKING:
    import numpy

    from weft.batch import Batch
    from weft.context import Context
    from weft.mesh import Mesh

T = TypeVar("T")

ANY_RANK = int(lib.WEFT_ANY_RANK)
ANY_TAG = int(lib.WEFT_ANY_TAG)

_REPORT_ROOM = 65536
_kept: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()  # what a structure of C points to
_NOTHING = View(ffi.NULL, 0, 0, lib.WEFT_MEMORY_AUTO, True, None, None)


class Group:
    """An ordered set of ranks; Context.world is that of all.

    Every operation returns a Request at once.  Arrays are numpy's, or whatever has the buffer protocol, DLPack or
    __cuda_array_interface__: C-contiguous, of one of Weft's types; they are never copied.  Until the request has
    settled, what is written belongs to the library, and what is read must not change.  All operations take

    timeout  seconds from submission until it must have settled; else the group's
    stream   for arrays on a device: the stream whose earlier work comes first; else the array's own, or the default one
    label    a name that is shown in messages and traces
    batch    the batch to join; the request settles with it

    and raise ValueError or TypeError for an array that does not fit, weft.errors for what the library refuses.
    """

    def __init__(self, context: Context, handle: Any, keep: object) -> None:
        self._context = context
        self._handle = handle
        self._keep = keep
        self.rank: int = lib.weft_group_rank(handle)
        self.size: int = lib.weft_group_size(handle)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The job that it belongs to."""
        return self._context

    @property
    def label(self) -> str:
        """Its name."""
        return text(lib.weft_group_label(self._open_handle()))

    def to_world(self, rank: int) -> int:
        """The rank in the world of a rank of this group; -1: there is no such rank."""
        return int(lib.weft_group_to_world(self._open_handle(), rank))

    def from_world(self, rank: int) -> int:
        """The rank in this group of a rank of the world; -1: it is no member."""
        return int(lib.weft_group_from_world(self._open_handle(), rank))

    def dead(self) -> list[int]:
        """The members known to be dead."""
        room = ffi.new("int[]", self.size)
        count = lib.weft_group_dead(self._open_handle(), room, self.size)
        return list(room[0 : min(count, self.size)])

    def check(self) -> None:
        """Raises what broke this group, if anything has."""
        check(lib.weft_group_status(self._open_handle()))

    def set_timeout(self, timeout: float) -> None:
        """Seconds that later operations of this rank have; float("inf"): no end."""
        check(lib.weft_group_set_timeout(self._open_handle(), milliseconds(timeout, 0)))

    def abort(self, why: str = "") -> None:
        """Settle everything in flight on every member, cancelled: "rank 2 aborted the group: WHY"."""
        check(lib.weft_group_abort(self._open_handle(), why.encode()))

    def report(self) -> str:
        """Who has submitted what, a line per rank.  Waits up to 1 s."""
        room, handle = ffi.new("char[]", _REPORT_ROOM), self._open_handle()
        check(lib.weft_group_report(handle, room, _REPORT_ROOM))
        return text(room)

    def free(self) -> None:
        """Free the group.  Pending operations finish first.  The world and a mesh's groups are not freed."""
        check(lib.weft_group_free(self._open_handle()))
        self._handle = ffi.NULL

    def __repr__(self) -> str:
        if self._handle == ffi.NULL or self._context.closed:
            return "<weft.Group, freed>"
        return f"<weft.Group {self.label!r}, rank {self.rank} of {self.size}>"

    # ---- other groups --------------------------------------------------------------------------------------------

    def new_group(self, ranks: Iterable[int], *, label: Optional[str] = None, timeout: Optional[float] = None) -> Group:
        """Make a group of some ranks of this one; only those call it.  Waits until all have.

        timeout also becomes the group's own.
        """
        members = list(ranks)
        made, slot = ffi.new("weft_group **"), ffi.new("weft_request **")
        call = self._call(timeout, None, label, None, ())
        check(lib.weft_new_group(self._open_handle(), members, len(members), call, made, slot))
        return self._await_group(made[0], slot)

    def split(
        self, color: int, key: int = 0, *, label: Optional[str] = None, timeout: Optional[float] = None
    ) -> Optional[Group]:
        """Groups by colour, a collective: equal colours form a group ordered by (key, rank).  color < 0: None."""
        made, slot = ffi.new("weft_group **"), ffi.new("weft_request **")
        call = self._call(timeout, None, label, None, ())
        check(lib.weft_split_group(self._open_handle(), color, key, call, made, slot))
        if made[0] == ffi.NULL:
            Request(self._context, slot[0], None, None).wait()
            return None
        return self._await_group(made[0], slot)

    def shrink(self, *, label: Optional[str] = None, timeout: Optional[float] = None) -> Group:
        """The group of the living ranks of this one, in the old order; called by each of them, after a failure."""
        made, slot = ffi.new("weft_group **"), ffi.new("weft_request **")
        call = self._call(timeout, None, label, None, ())
        check(lib.weft_shrink_group(self._open_handle(), call, made, slot))
        return self._await_group(made[0], slot)

    def mesh(self, axes: str, *, timeout: Optional[float] = None) -> Mesh:
        """Lay the ranks out on a grid, last axis fastest: "pp=2,dp=-1,tp=8", -1: what is left.  A collective."""
        from weft.mesh import Mesh

        made, slot = ffi.new("weft_mesh **"), ffi.new("weft_request **")
        call = self._call(timeout, None, None, None, ())
        check(lib.weft_mesh_create(self._open_handle(), axes.encode(), call, made, slot))
        try:
            Request(self._context, slot[0], None, None).wait()
        except BaseException:
            lib.weft_mesh_free(made[0])
            raise
        return Mesh(self, made[0])

    def batch(self) -> Batch:
        """Operations that start and settle together: `with group.batch() as batch`, and batch=batch in each call."""
        from weft.batch import Batch

        return Batch(self)

    # ---- memory --------------------------------------------------------------------------------------------------

    def mem_alloc_bytes(self, nbytes: int) -> memoryview:
        """Zeroed bytes that peers can reach: collectives on it make no extra copy.  A collective that waits.

        They end with mem_free or with the context; nothing may look at them afterwards.
        """
        handle, made = self._open_handle(), ffi.new("void **")
        interruptible.call(lambda: check(lib.weft_mem_alloc(handle, nbytes, lib.WEFT_MEMORY_HOST, made)))
        return memoryview(ffi.buffer(made[0], nbytes)).cast("B")

    def mem_alloc(self, shape: int | tuple[int, ...], dtype: str = "float64") -> numpy.ndarray[Any, Any]:
        """As mem_alloc_bytes(), a numpy array of zeros."""
        import math

        import numpy

        kind = numpy.dtype(dtype)
        count = shape if isinstance(shape, int) else math.prod(shape)
        data = self.mem_alloc_bytes(max(1, count * kind.itemsize))
        return numpy.frombuffer(data, kind, count).reshape(shape)

    def mem_free(self, memory: memoryview | numpy.ndarray[Any, Any]) -> None:
        """Free what mem_alloc or mem_alloc_bytes gave.  StateError while an operation uses it."""
        pointer = arrays.view(memory, "memory").pointer
        check(lib.weft_mem_free(self._open_handle(), pointer))

    # ---- messages ------------------------------------------------------------------------------------------------

    def isend(
        self,
        array: T,
        peer: int,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Send an array to a rank.  Settles when the array may be changed again."""
        a = arrays.view(array, "array")
        return self._submit(
            lib.weft_isend, (a.pointer, a.size, a.dtype, peer, tag), array, (a,), timeout, stream, label, batch
        )

    def irecv(
        self,
        array: T,
        peer: int = ANY_RANK,
        tag: int = ANY_TAG,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Receive into an array, which a shorter message fills in part; Request.info tells peer, tag and bytes.

        TruncatedError for a longer message, MismatchError for one of another type.
        """
        a = arrays.writable(array, "array")
        return self._submit(
            lib.weft_irecv, (a.pointer, a.size, a.dtype, peer, tag), array, (a,), timeout, stream, label, batch
        )

    def probe(
        self, peer: int = ANY_RANK, tag: int = ANY_TAG, *, timeout: Optional[float] = None, label: Optional[str] = None
    ) -> Request[None]:
        """Find the next message: Request.info tells peer, tag, bytes and dtype; receive_probed gets it."""
        return self._submit(lib.weft_probe, (peer, tag), None, (), timeout, None, label, None)

    def receive_probed(self, probe: Request[None], array: T, *, timeout: Optional[float] = None) -> Request[T]:
        """Receive the message that a probe has found."""
        a = arrays.writable(array, "array")
        slot = ffi.new("weft_request **")
        call = self._call(timeout, None, None, None, (a,))
        check(lib.weft_receive_probed(probe._live_handle(), a.pointer, a.size, a.dtype, call, slot))
        return Request(self._context, slot[0], array, (a, self))

    def send_recv(
        self,
        array: object,
        out: T,
        peer: int,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Exchange arrays of one size with a rank; out may be array itself."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        args = (a.pointer, o.pointer, a.size, a.dtype, peer)
        return self._submit(lib.weft_send_recv, args, out, (a, o), timeout, stream, label, batch)

    # ---- collectives ---------------------------------------------------------------------------------------------

    def broadcast(
        self,
        array: T,
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Copy the root's array to every rank's."""
        a = arrays.view(array, "array") if self.rank == root else arrays.writable(array, "array")
        return self._submit(
            lib.weft_broadcast, (a.pointer, a.size, a.dtype, root), array, (a,), timeout, stream, label, batch
        )

    def all_reduce(
        self,
        array: T,
        out: Optional[T] = None,
        op: str = "sum",
        *,
        scale: float = 0.0,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Reduce the arrays of all ranks, element by element, into out of every rank; without out in place.

        op: "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", or "premul_sum", which takes scale.
        """
        a, o, result = self._in_and_out(array, out)
        args = (a.pointer, o.pointer, a.size, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_all_reduce, args, result, (a, o), timeout, stream, label, batch, scale)

    def reduce(
        self,
        array: T,
        out: Optional[T] = None,
        op: str = "sum",
        root: int = 0,
        *,
        scale: float = 0.0,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_reduce, on root alone; elsewhere out is not looked at."""
        if self.rank == root:
            a, o, result = self._in_and_out(array, out)
        else:
            a, o, result = arrays.view(array, "array"), _NOTHING, array
        args = (a.pointer, o.pointer, a.size, a.dtype, dtypes.reduction(op), root)
        return self._submit(lib.weft_reduce, args, result, (a, o), timeout, stream, label, batch, scale)

    def reduce_scatter(
        self,
        array: object,
        out: T,
        op: str = "sum",
        *,
        scale: float = 0.0,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Reduce arrays of size * n elements, of which this rank's block of n comes into out."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(a, o.size * self.size, "array", f"{self.size} ranks times the {o.size} of out")
        arrays.expect_apart(a, o, self.rank * o.nbytes)
        args = (a.pointer, o.pointer, o.size, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_reduce_scatter, args, out, (a, o), timeout, stream, label, batch, scale)

    def all_gather(
        self,
        array: object,
        out: T,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """The arrays of all ranks, of n elements each, one after the other into out, of size * n."""
        a, o = self._into_blocks(array, out)
        args = (a.pointer, o.pointer, a.size, a.dtype)
        return self._submit(lib.weft_all_gather, args, out, (a, o), timeout, stream, label, batch)

    def gather(
        self,
        array: object,
        out: T,
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather, into out on root alone; elsewhere out may be None."""
        if self.rank == root:
            a, o = self._into_blocks(array, out)
        else:
            a, o = arrays.view(array, "array"), _NOTHING
        args = (a.pointer, o.pointer, a.size, a.dtype, root)
        return self._submit(lib.weft_gather, args, out, (a, o), timeout, stream, label, batch)

    def scatter(
        self,
        array: object,
        out: T,
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """Each rank gets its block of n elements of the root's array of size * n; elsewhere array may be None."""
        o = arrays.writable(out, "out")
        a = _NOTHING
        if self.rank == root:
            a = arrays.view(array, "array")
            arrays.expect_alike(a, o)
            arrays.expect_count(a, o.size * self.size, "array", f"{self.size} ranks times the {o.size} of out")
            arrays.expect_apart(a, o, root * o.nbytes)
        args = (a.pointer, o.pointer, o.size, o.dtype, root)
        return self._submit(lib.weft_scatter, args, out, (a, o), timeout, stream, label, batch)

    def all_to_all(
        self,
        array: object,
        out: T,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """A block from each rank to each: both of size * n elements, block r goes to and comes from rank r."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        if a.size % self.size:
            raise ValueError(f"array has {a.size} elements, expected a multiple of the {self.size} ranks")
        args = (a.pointer, o.pointer, a.size // self.size, a.dtype)
        return self._submit(lib.weft_all_to_all, args, out, (a, o), timeout, stream, label, batch)

    def barrier(
        self, *, timeout: Optional[float] = None, label: Optional[str] = None, batch: Optional[Batch] = None
    ) -> Request[None]:
        """No rank's barrier settles before all ranks have submitted it."""
        return self._submit(lib.weft_barrier, (), None, (), timeout, None, label, batch)

    # ---- collectives of uneven blocks: counts[r] elements at displs[r], packed without displs ----------------------

    def all_gather_v(
        self,
        array: object,
        out: T,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather of counts[r] elements of rank r; counts and displs are equal on all ranks."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(o, "out", counts, displs)
        arrays.expect_count(a, counts[self.rank], "array", f"counts[{self.rank}]")
        args = (a.pointer, a.size, o.pointer, counts, _or_null(displs), a.dtype)
        return self._submit(lib.weft_all_gather_v, args, out, (a, o), timeout, stream, label, batch)

    def gather_v(
        self,
        array: object,
        out: T,
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As all_gather_v, on root alone; elsewhere out, counts and displs may be None."""
        a, o = arrays.view(array, "array"), _NOTHING
        if self.rank == root:
            o = arrays.writable(out, "out")
            arrays.expect_alike(a, o)
            self._expect_blocks(o, "out", counts, displs)
        args = (a.pointer, a.size, o.pointer, _or_null(counts), _or_null(displs), a.dtype, root)
        return self._submit(lib.weft_gather_v, args, out, (a, o), timeout, stream, label, batch)

    def scatter_v(
        self,
        array: object,
        out: T,
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As scatter of counts[r] elements to rank r; elsewhere than on root array, counts and displs may be None."""
        a, o = _NOTHING, arrays.writable(out, "out")
        if self.rank == root:
            a = arrays.view(array, "array")
            arrays.expect_alike(a, o)
            self._expect_blocks(a, "array", counts, displs)
        args = (a.pointer, _or_null(counts), _or_null(displs), o.pointer, o.size, o.dtype, root)
        return self._submit(lib.weft_scatter_v, args, out, (a, o), timeout, stream, label, batch)

    def reduce_scatter_v(
        self,
        array: object,
        out: T,
        counts: Sequence[int],
        op: str = "sum",
        *,
        scale: float = 0.0,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """As reduce_scatter of counts[r] elements for rank r; counts are equal on all ranks."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(a, "array", counts, None)
        arrays.expect_count(o, counts[self.rank], "out", f"counts[{self.rank}]")
        args = (a.pointer, o.pointer, counts, a.dtype, dtypes.reduction(op))
        return self._submit(lib.weft_reduce_scatter_v, args, out, (a, o), timeout, stream, label, batch, scale)

    def all_to_all_v(
        self,
        array: object,
        in_counts: Sequence[int],
        out: T,
        out_counts: Sequence[int],
        in_displs: Optional[Sequence[int]] = None,
        out_displs: Optional[Sequence[int]] = None,
        *,
        timeout: Optional[float] = None,
        stream: object = None,
        label: Optional[str] = None,
        batch: Optional[Batch] = None,
    ) -> Request[T]:
        """A block from each rank to each: in_counts[r] is what rank r has as out_counts of this rank."""
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        self._expect_blocks(a, "array", in_counts, in_displs)
        self._expect_blocks(o, "out", out_counts, out_displs)
        arrays.expect_apart(a, o, None)
        args = (a.pointer, in_counts, _or_null(in_displs), o.pointer, out_counts, _or_null(out_displs), a.dtype)
        return self._submit(lib.weft_all_to_all_v, args, out, (a, o), timeout, stream, label, batch)

    # ---- how all of this is done -----------------------------------------------------------------------------------

    def _open_handle(self) -> Any:
        if self._handle == ffi.NULL:
            raise StateError("this group is freed")
        if self._context._closed:
            raise StateError("the context of this group is closed")
        return self._handle

    def _submit(
        self,
        function: Any,
        args: tuple[Any, ...],
        result: T,
        views: tuple[View, ...],
        timeout: Optional[float],
        stream: object,
        label: Optional[str],
        batch: Optional[Batch],
        scale: float = 0.0,
    ) -> Request[T]:
        context = self._context
        if context._forsaken:
            context._bury()
        if batch is not None:
            call = self._call(timeout, stream, label, batch, views, scale)
            check(function(self._open_handle(), *args, call, ffi.NULL))
            return batch._join(result, views)
        call = ffi.NULL
        if timeout is not None or stream is not None or label is not None or scale or _on_device(views):
            call = self._call(timeout, stream, label, None, views, scale)
        slot = ffi.new("weft_request **")
        status = function(self._open_handle(), *args, call, slot)
        if status:
            check(status)
        return Request(context, slot[0], result, (views, self))

    def _call(
        self,
        timeout: Optional[float],
        stream: object,
        label: Optional[str],
        batch: Optional[Batch],
        views: tuple[View, ...],
        scale: float = 0.0,
    ) -> Any:
        call = ffi.new("weft_call *")
        call.timeout_ms = milliseconds(timeout, 0)
        call.scale = scale
        if batch is not None:
            call.batch = batch._open_handle()
        if _on_device(views):
            call.memory = arrays.CUDA
            told = next((view.stream for view in views if view.stream is not None), None)
            call.stream = handle_of(told if stream is None else stream)
        elif stream is not None:
            raise ValueError("stream is given for arrays of the host, which no stream has work on")
        if label is not None:
            kept = ffi.new("char[]", label.encode())
            call.label = kept
            _kept[call] = kept
        return call

    def _in_and_out(self, array: T, out: Optional[T]) -> tuple[View, View, T]:
        if out is None:
            a = arrays.writable(array, "array")
            return a, a, array
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        return a, o, out

    def _into_blocks(self, array: object, out: object) -> tuple[View, View]:
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size * self.size, "out", f"{self.size} ranks times the {a.size} of array")
        arrays.expect_apart(o, a, self.rank * a.nbytes, ("out", "array"))
        return a, o

    def _expect_blocks(
        self, view: View, role: str, counts: Optional[Sequence[int]], displs: Optional[Sequence[int]]
    ) -> None:
        if counts is None or len(counts) != self.size:
            given = "None" if counts is None else f"{len(counts)} numbers"
            raise ValueError(f"counts has {given}, expected one for each of {self.size} ranks")
        if displs is not None and len(displs) != self.size:
            raise ValueError(f"displs has {len(displs)} numbers, expected one for each of {self.size} ranks")
        if any(count < 0 for count in counts) or any(place < 0 for place in displs or ()):
            raise ValueError("counts and displs have a number below 0")
        end = sum(counts) if displs is None else max(place + count for place, count in zip(displs, counts))
        if end > view.size:
            raise ValueError(f"{role} has {view.size} elements, expected {end} by counts and displs")

    def _await_group(self, handle: Any, slot: Any) -> Group:
        try:
            Request(self._context, slot[0], None, None).wait()
        except BaseException:
            lib.weft_group_free(handle)
            raise
        return Group(self._context, handle, None)


def _on_device(views: tuple[View, ...]) -> bool:
    return any(view.memory == arrays.CUDA for view in views)


def _or_null(numbers: Optional[Sequence[int]]) -> Any:
    return ffi.NULL if numbers is None else numbers
