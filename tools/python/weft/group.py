"""An ordered set of ranks, and all that they do together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Literal, Optional, TypeVar, overload

from weft import arrays, interruptible
from weft._weft import ffi, lib
from weft.errors import check, text
from weft.objects import Objects
from weft.request import Request
from weft.times import milliseconds

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from weft._weft import CData
    from weft.batch import Batch
    from weft.context import Context
    from weft.mesh import Mesh

_REPORT_ROOM = 65536

S = TypeVar("S", bound="numpy.generic")


class Group(Objects):
    """An ordered set of ranks; Context.world is that of all.

    Every operation returns a Request at once.  Arrays are numpy's, or whatever has the buffer protocol, DLPack or
    __cuda_array_interface__: C-contiguous, of one of Weft's types; they are not copied unasked.  Until the request has
    settled, what is written belongs to the library, and what is read must not change.  All operations take

    copy     True: array is copied first, so it may have strides and be changed at once; what would be written into it
             is what result() gives; not with stream, as the copy of an array on a device is made on the current one
    timeout  seconds from submission until it must have settled; else the group's
    stream   for arrays on a device: the stream whose earlier work comes first; else the array's own, or the default one
    label    a name that is shown in messages and traces
    batch    the batch to join; the request settles with it

    and raise ValueError or TypeError for an array that does not fit, weft.errors for what the library refuses.
    """

    def __init__(self, context: Context, handle: CData, keep: object) -> None:
        super().__init__(context, handle)
        self._keep = keep

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
        """Settle everything in flight on every member, cancelled: "rank 2 aborted the group: WHY"; of a broken group messages too."""
        check(lib.weft_group_abort(self._open_handle(), why.encode()))

    def report(self) -> str:
        """Who has submitted what, a line per rank.  Waits up to 1 s."""
        room, handle = ffi.new("char[]", _REPORT_ROOM), self._open_handle()
        self._interruptible(lambda: lib.weft_group_report(handle, room, _REPORT_ROOM))
        return text(room)

    def free(self) -> None:
        """Free the group.  Pending operations finish first.  The world and a mesh's groups are not freed."""
        check(lib.weft_group_free(self._open_handle()))
        self._handle, self._address = ffi.NULL, 0

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
        return memoryview(ffi.buffer(self._allocate(nbytes, arrays.HOST), nbytes)).cast("B")

    @overload
    def mem_alloc(
        self, shape: int | tuple[int, ...], dtype: Literal["float64"] = "float64"
    ) -> NDArray[numpy.float64]: ...

    @overload
    def mem_alloc(self, shape: int | tuple[int, ...], dtype: type[S]) -> NDArray[S]: ...

    @overload
    def mem_alloc(self, shape: int | tuple[int, ...], dtype: str) -> NDArray[numpy.generic]: ...

    def mem_alloc(self, shape: int | tuple[int, ...], dtype: str | type[S] = "float64") -> NDArray[numpy.generic]:
        """As mem_alloc_bytes(), a numpy array of zeros."""
        import math

        import numpy

        kind = numpy.dtype(dtype)
        count = shape if isinstance(shape, int) else math.prod(shape)
        data = self.mem_alloc_bytes(max(1, count * kind.itemsize))
        return numpy.frombuffer(data, kind, count).reshape(shape)

    def mem_free(self, memory: memoryview | NDArray[numpy.generic]) -> None:
        """Free what mem_alloc or mem_alloc_bytes gave.  StateError while an operation uses it."""
        self._deallocate(arrays.view(memory, "memory").pointer)
        arrays.give_back(memory)

    # ---- how all of this is done -----------------------------------------------------------------------------------

    def _interruptible(self, function: Callable[[], int]) -> None:
        interruptible.call(lambda _: check(function()), self._context._waiting)

    # Memory of a kind, arrays.HOST or arrays.CUDA, as a void *.
    def _allocate(self, nbytes: int, kind: int) -> Any:
        handle, made = self._open_handle(), ffi.new("void **")
        self._interruptible(lambda: lib.weft_mem_alloc(handle, nbytes, kind, made))
        return made[0]

    def _deallocate(self, pointer: Any) -> None:
        check(lib.weft_mem_free(self._open_handle(), pointer))

    def _await_group(self, handle: Any, slot: Any) -> Group:
        try:
            Request(self._context, slot[0], None, None).wait()
        except BaseException:
            lib.weft_group_free(handle)
            raise
        return Group(self._context, handle, None)
