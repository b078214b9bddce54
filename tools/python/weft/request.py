"""One operation in flight."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, Iterable, NamedTuple, Optional, TypeVar

from weft import _quick, dtypes
from weft._weft import ffi, lib
from weft.errors import PendingError, StateError, WeftError, check, from_sentence, text

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

    from weft._weft import CData
    from weft.context import Context

T = TypeVar("T", covariant=True)

_PENDING = lib.WEFT_PENDING
_REFUSED = (lib.WEFT_ERR_ARGUMENT, lib.WEFT_ERR_STATE)  # from a wait: what the call met with, not the operation

# A wait goes back to Python so often that Ctrl-C and close() are seen; and more often where its own look at the
# completion descriptor may have hidden something from those who wait there.
_SLICE_MS, _WATCHED_SLICE_MS = 20, 10


class RequestInfo(NamedTuple):
    """What is known of a request; see weft_request_info in weft.h."""

    status: int
    peer: int
    tag: int
    sequence: int
    bytes: int
    received_bytes: int
    operation: str
    algorithm: str
    label: str
    dtype: Optional[str]
    submitted_ns: int
    started_ns: int
    settled_ns: int
    waited_ns: int


class Request(_quick.Flight, Generic[T]):
    """One operation in flight, from the call that made it until it has settled.

    It holds its arrays until it has settled.  One that is thrown away goes on by itself, and what it needs lives on.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, context: Context, handle: CData, result: T, keep: object, owner: Optional[Request[object]] = None):
        super().__init__(context, int(ffi.cast("uintptr_t", handle)), result, keep, owner)

    def done(self) -> bool:
        """Whether it has settled: the data is there, or it has failed.  Never blocks."""
        if self._settled:
            return True
        self._require_submitted()
        if not self._is_completed():
            return False
        self._settle(None)
        return True

    is_completed = done

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Block until it settles or `timeout` seconds pass; False if the time passed first, and the operation goes on.

        Raises what the operation failed with.  Ctrl-C ends the wait, not the operation.
        """
        if timeout is None and self._finish():
            return True
        if not self._settled and not self._wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def result(self, timeout: Optional[float] = None) -> T:
        """Wait as wait() does and give the array that the operation has written.

        Raises what the operation failed with, or PendingError, a TimeoutError, if `timeout` seconds passed first.
        """
        if not self.wait(timeout):
            raise PendingError(f"{timeout} s have passed: {self.message}")
        found: T = self._result
        return found

    def exception(self, timeout: Optional[float] = None) -> Optional[WeftError]:
        """Wait as result() does and give what the operation failed with, or None."""
        if not self._settled and not self._wait(timeout):
            raise PendingError(f"{timeout} s have passed: {self.message}")
        return self._error

    def cancel(self) -> None:
        """Ask it to stop.  It still settles, cancelled or done.  A cancelled collective is a failure for all ranks."""
        if not self._settled:
            self._require_submitted()
            lib.weft_cancel(self._handle)

    def add_done_callback(self, function: Callable[[Request[T]], object]) -> None:
        """Call function(request) once it has settled: at once if it has, else on a thread of Python's own."""
        if self.done():
            function(self)
        else:
            self._context._watcher.watch(self, lambda: function(self), None)

    def future(self) -> concurrent.futures.Future[T]:
        """A concurrent.futures.Future of the result, as concurrent.futures.wait and as_completed take it."""
        import concurrent.futures  # half of the time that importing weft would take, as asyncio

        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def tell(_: Request[T]) -> None:
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(self._result)

        self.add_done_callback(tell)
        return future

    def __await__(self) -> Generator[object, None, T]:
        """Await the result in asyncio, by the context's completion descriptor; cancelling that leaves the operation."""
        if not self.done():
            import asyncio

            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                if not future.done():
                    future.set_result(None)

            self._context._watcher.watch(self, tell, loop)
            yield from future
            self.done()
        return self.result()

    def stream_wait(self, stream: object) -> None:
        """Let later work on a CUDA stream wait for this operation on device memory; the host does not wait for its end."""
        from weft.streams import handle_of

        self._require_submitted()
        check(lib.weft_stream_wait(self._live_handle(), handle_of(stream)))

    @property
    def message(self) -> str:
        """In one line what it is, or once it has settled what happened."""
        if self._error is not None:
            return str(self._error)
        self._require_submitted()
        return text(lib.weft_request_message(self._live_handle()))

    @property
    def info(self) -> RequestInfo:
        """What is known of it: peer, tag and bytes of a message, times, the algorithm."""
        self._require_submitted()
        found = self._get_info()
        return RequestInfo(
            found.status,
            found.peer,
            found.tag,
            found.sequence,
            found.bytes,
            found.received_bytes,
            _text_or_empty(found.operation),
            _text_or_empty(found.algorithm),
            _text_or_empty(found.label),
            dtypes.NAMES.get(found.dtype),
            found.submitted_ns,
            found.started_ns,
            found.settled_ns,
            found.waited_ns,
        )

    def __repr__(self) -> str:
        if not self._address or self._context._closed:
            return "<weft.Request>"
        return f"<weft.Request {self.message}>"

    @property
    def _handle(self) -> Any:
        return ffi.cast("weft_request *", self._address)

    def _require_submitted(self) -> None:
        if not self._address:
            raise StateError("this operation joined a batch that has not ended")
        if self._context._closed:
            raise StateError("the context of this request is closed")

    def _live_handle(self) -> Any:
        if self._context._closed:
            raise StateError("the context of this request is closed")
        return self._handle

    def _wait(self, timeout: Optional[float]) -> bool:
        self._require_submitted()
        context: Context = self._context
        watcher, handle = context._watcher, self._handle
        deadline = None if timeout is None else time.monotonic() + timeout
        thread = threading.get_ident()
        context._waiting[thread] = None
        try:
            if context._closing or context._closed:  # which may have looked who waits before this thread was among them
                raise StateError("the context of this request is being closed")
            while True:
                slice_ms = _WATCHED_SLICE_MS if watcher.busy else _SLICE_MS
                if deadline is not None:
                    slice_ms = max(0, min(slice_ms, int((deadline - time.monotonic()) * 1000) + 1))
                status = lib.weft_wait(handle, slice_ms)
                if watcher.busy:
                    watcher.look()
                if status in _REFUSED:
                    check(status)
                if status != _PENDING:
                    self._settle(status)
                    return True
                if context._closing:
                    raise StateError("the context of this request is being closed")
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        finally:
            context._waiting.pop(thread, None)

    def _get_info(self) -> Any:
        info = ffi.new("weft_request_info *")
        lib.weft_request_get_info(self._live_handle(), info)
        return info

    # From here on the arrays are the caller's again, unless the library says that it could not let go of them.
    def _settle(self, status: Optional[int]) -> None:
        if status != 0:
            info = self._get_info()
            status = info.status
            if status != 0:
                rank = info.peer if status == lib.WEFT_ERR_PEER else None
                self._error = from_sentence(status, text(lib.weft_request_message(self._handle)), rank)
                if info.buffers_held:
                    self._context._held.append(self._keep)
        self._settled = True
        self._keep = None


def _text_or_empty(chars: Any) -> str:
    return text(chars) if chars != ffi.NULL else ""


def wait_all(requests: Iterable[Request[object]], timeout: Optional[float] = None) -> bool:
    """Wait for all of several; False if `timeout` seconds passed first.  Raises the first failure in the list."""
    deadline = None if timeout is None else time.monotonic() + timeout
    requests = list(requests)
    for request in requests:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not request._settled and not request._wait(left):
            return False
    for request in requests:
        request.wait(0)
    return True
