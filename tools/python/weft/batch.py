"""Operations that start and settle together."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type, TypeVar

from weft._weft import ffi, lib
from weft.errors import StateError, check
from weft.request import Request

if TYPE_CHECKING:
    from weft.group import Group

T = TypeVar("T")


class Batch:
    """Operations of one group that start and settle together.  All ranks batch the same collectives.

        with group.batch() as batch:
            group.isend(x, 1, batch=batch)
            got = group.irecv(y, 1, batch=batch)
        got.wait()              # or batch.request.wait(): every one of them settles with the whole

    An exception inside discards the batch.
    """

    def __init__(self, group: Group) -> None:
        made = ffi.new("weft_batch **")
        check(lib.weft_batch_begin(group._open_handle(), made))
        self._group = group
        self._handle = made[0]
        self._members: list[Request[Any]] = []
        self._keep: list[object] = []
        self._request: Optional[Request[None]] = None

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._handle == ffi.NULL:
            return
        if error is None:
            self.end()
        else:
            self.discard()

    @property
    def request(self) -> Request[None]:
        """The one request of all of them, once the batch has ended."""
        if self._request is None:
            raise StateError("this batch has not ended")
        return self._request

    def end(self, *, timeout: Optional[float] = None, label: Optional[str] = None) -> Request[None]:
        """Submit all of it.  After a call that could not join nothing is submitted, and that failure is raised."""
        call = self._group._call(timeout, None, label, None, ())
        slot, handle = ffi.new("weft_request **"), self._open_handle()
        self._handle = ffi.NULL  # end frees it, whatever it returns
        check(lib.weft_batch_end(handle, call, slot))
        whole = Request(self._group._context, slot[0], None, (self._keep, self._group))
        for member in self._members:
            member._address, member._owner = whole._address, whole
        self._request = whole
        return whole

    def discard(self) -> None:
        """Submit nothing of it."""
        lib.weft_batch_discard(self._open_handle())
        self._handle = ffi.NULL

    def _open_handle(self) -> Any:
        if self._handle == ffi.NULL:
            raise StateError("this batch has ended")
        self._group._open_handle()
        return self._handle

    def _join(self, result: T, views: object) -> Request[T]:
        member = Request(self._group._context, ffi.NULL, result, None)
        self._members.append(member)
        self._keep.append(views)
        return member
