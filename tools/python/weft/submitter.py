"""How an operation comes to the library: what every one of a group has in common."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Optional, Sequence, TypeVar

from weft import arrays
from weft._weft import ffi, lib
from weft.arrays import View
from weft.errors import StateError, UnsupportedError, check
from weft.request import Request
from weft.streams import handle_of
from weft.times import milliseconds

if TYPE_CHECKING:
    from weft._weft import CData
    from weft.batch import Batch
    from weft.context import Context

T = TypeVar("T")

_kept: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()  # what a structure of C points to


class Submitter:
    """A group's handle, with which operations are submitted."""

    def __init__(self, context: Context, handle: CData) -> None:
        self._context = context
        self._handle = handle
        self._address = int(ffi.cast("uintptr_t", handle))  # for _quick
        self.rank: int = lib.weft_group_rank(handle)
        self.size: int = lib.weft_group_size(handle)

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
            self._refused(status, views)
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
            self._expect_device(views)
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

    # A context without a backend for devices does not say why it has none.
    def _refused(self, status: int, views: tuple[View, ...]) -> None:
        try:
            check(status)
        except UnsupportedError as error:
            if self._context.device >= 0 or not _on_device(views):
                raise
            from weft import cuda

            raise cuda.explained(error) from None

    # In a job without a device the library says what is missing.
    def _expect_device(self, views: tuple[View, ...]) -> None:
        own = self._context.device
        for view in views:
            if own >= 0 and view.device not in (None, own):
                raise ValueError(f"an array lies on device {view.device}, expected {own}, the device of this job's rank")

    def _in_and_out(self, array: T, out: Optional[T], copy: bool, stream: object) -> tuple[View, View, T]:
        if copy:
            array = arrays.copied(array, "array", stream)
        if out is None:
            a = arrays.writable(array, "array")
            return a, a, array
        a, o = arrays.view(array, "array"), arrays.writable(out, "out")
        arrays.expect_alike(a, o)
        arrays.expect_count(o, a.size, "out", "as many as array has")
        arrays.expect_apart(a, o, 0)
        return a, o, out

    def _into_blocks(self, array: object, out: object, copy: bool, stream: object) -> tuple[View, View]:
        a, o = source(array, copy, stream), arrays.writable(out, "out")
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


def source(array: object, copy: bool, stream: object) -> View:
    """What an operation reads: an array, or a packed copy of it, for which no stream may be given."""
    return arrays.view(arrays.copied(array, "array", stream) if copy else array, "array")


def _on_device(views: tuple[View, ...]) -> bool:
    for view in views:  # any() of a generator takes several times as long
        if view.memory == arrays.CUDA:
            return True
    return False
