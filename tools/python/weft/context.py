"""This process's part in a job."""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type

from weft import _quick, interruptible
from weft._weft import ffi, lib
from weft.bootstrap import Bootstrap, Bridge
from weft.errors import PendingError, StateError, UnsupportedError, check, text
from weft.interruptible import Wanted
from weft.times import milliseconds
from weft.watcher import Watcher

if TYPE_CHECKING:
    from weft._weft import CData
    from weft.group import Group
    from weft.store import Store

_AT_EXIT_MS = 2000
_OTHERS_S = 1.0  # what abort gives the calls of other threads to end
_LEAVE_SLICE_MS = 50


class Context(_quick.Job):
    """What weft.init() gives: the job, with its groups, requests, memory and store, until close()."""

    def __init__(self, handle: CData) -> None:
        self._handle = handle
        self._closed = False
        self._closing = False
        self._waiting: dict[int, None] = {}  # the threads that wait inside the library
        self._forsaken = []  # requests nobody has any more, with what they need
        self._held: list[object] = []  # arrays that must stay until the context is closed
        self._watcher = Watcher(self)
        self._watched = self._watcher._watched
        self._world: Optional[Group] = None
        self._host: Optional[Group] = None
        _open.add(self)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        else:
            self.abort(f"{type(error).__name__}: {error}")

    @property
    def world(self) -> Group:
        """The group of every rank of the job."""
        if self._world is None:
            from weft.group import Group

            self._world = Group(self, lib.weft_world(self._open_handle()), None)
        return self._world

    @property
    def host_group(self) -> Group:
        """The group of the ranks of this host."""
        if self._host is None:
            from weft.group import Group

            self._host = Group(self, lib.weft_host_group(self._open_handle()), None)
        return self._host

    @property
    def rank(self) -> int:
        """This process's rank in the job."""
        return self.world.rank

    @property
    def size(self) -> int:
        """The number of ranks in the job."""
        return self.world.size

    @property
    def local_rank(self) -> int:
        """This rank among those of this host."""
        return int(lib.weft_local_rank(self._open_handle()))

    @property
    def local_size(self) -> int:
        """The number of ranks on this host."""
        return int(lib.weft_local_size(self._open_handle()))

    @property
    def device(self) -> int:
        """The CUDA device in use, or -1."""
        return int(lib.weft_device(self._open_handle()))

    @property
    def backends(self) -> str:
        """The backends in use: "host" or "host,nccl"."""
        return text(lib.weft_backends(self._open_handle()))

    @property
    def closed(self) -> bool:
        """Whether it has been left."""
        return self._closed

    def store(self) -> Store:
        """The store that all ranks of the job see.  Waits until rank 0 serves it, at most the context's timeout."""
        from weft.store import Store

        handle = self._open_handle()

        def open_store(_: Wanted) -> Any:
            found = lib.weft_context_store(handle)
            if found == ffi.NULL:
                raise StateError(text(lib.weft_last_error()))
            return found

        return Store(interruptible.call(open_store, self._waiting), self)

    def close(self, timeout: float = 30.0) -> None:
        """Leave the job: wait until this rank's requests have settled and its messages have been taken, and free all.

        PendingError if `timeout` seconds pass first; nothing has been freed then.  Arrays of mem_alloc() end here.
        """
        if self._closed:
            return
        deadline = time.monotonic() + timeout
        for request in self._watcher.unsettled():
            if not request._settled and not request._wait(max(0.0, deadline - time.monotonic())):
                raise PendingError(f"{timeout} s have passed, and somebody awaits this: {request.message}")
        self._closing = True
        try:
            if not self._await_others(deadline):
                raise PendingError(f"{timeout} s have passed, and another thread is inside a call of this context")
            interruptible.call(lambda wanted: self._leave(wanted, deadline), self._waiting)
        finally:
            self._closing = False

    def abort(self, why: str = "") -> None:
        """Cancel everything, leave and free all, now; the other ranks are told why."""
        if self._closed:
            return
        self._closing = True
        alone = self._await_others(time.monotonic() + _OTHERS_S)
        if not alone:  # what waits for other ranks ends by this
            lib.weft_group_abort(lib.weft_world(self._open_handle()), why.encode())
            alone = self._await_others(time.monotonic() + _OTHERS_S)
        interruptible.call(lambda _: self._drop(why, alone), self._waiting)

    def __repr__(self) -> str:
        if self._closed:
            return "<weft.Context, closed>"
        return f"<weft.Context, rank {self.rank} of {self.size}>"

    def _open_handle(self) -> Any:
        if self._closed:
            raise StateError("this context is closed")
        return self._handle

    def _descriptor(self) -> int:
        found = int(lib.weft_completion_fd(self._open_handle()))
        if found < 0:
            raise StateError(text(lib.weft_last_error()))
        return found

    # Requests that nobody has any more and that have settled by now are given back.
    def _bury(self) -> None:
        forsaken, self._forsaken = self._forsaken, []
        for address, keep in forsaken:
            handle = ffi.cast("weft_request *", address)
            if lib.weft_is_completed(handle):
                lib.weft_release(handle)
            else:
                self._forsaken.append((address, keep))

    # Whether no other thread waits inside the library any more, or by `deadline`.  A wait of this thread that is
    # still among them was interrupted before it could say that it is over; none that _quick counts ever is.
    def _await_others(self, deadline: float) -> bool:
        own = threading.get_ident()
        while self._inside or any(thread != own for thread in list(self._waiting)):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.001)
        return True

    # On one thread from the call that frees everything to the note that it has.
    def _leave(self, wanted: Wanted, deadline: float) -> None:
        self._watcher.stop()
        while not self._closed and wanted():
            left_ms = int((deadline - time.monotonic()) * 1000)
            status = lib.weft_finalize(self._handle, max(1, min(left_ms, _LEAVE_SLICE_MS)))
            if status == lib.WEFT_OK:
                self._forget()
            elif status != lib.WEFT_PENDING:
                check(status)
            elif left_ms <= _LEAVE_SLICE_MS:
                raise PendingError(text(lib.weft_last_error()))

    # Memory that another thread is about to look at cannot be freed; it lasts as long as the process then.
    def _drop(self, why: str, alone: bool) -> None:
        if self._closed:
            return
        self._watcher.stop()
        if alone:
            lib.weft_abort(self._handle, why.encode())
        self._forget()

    def _forget(self) -> None:
        self._closed = True
        self._handle = ffi.NULL
        self._forsaken = []
        self._held = []
        _open.discard(self)


_open: weakref.WeakSet[Context] = weakref.WeakSet()


# Before the interpreter takes its arrays away under operations that still run.  An exception that ends the program
# is told to the others.
@atexit.register
def _leave_at_exit() -> None:
    last = getattr(sys, "last_value", None)
    for context in list(_open):
        try:
            if last is not None:
                context.abort(f"{type(last).__name__}: {last}")
            else:
                context.close(_AT_EXIT_MS / 1000)
        except Exception:
            if not context._closed:
                context.abort("the program has ended")


def init(
    init_method: Optional[str] = None,
    *,
    rank: int = -1,
    world_size: int = -1,
    store: Optional[Store] = None,
    bootstrap: Optional[Bootstrap] = None,
    job: Optional[str] = None,
    secret: Optional[str] = None,
    backends: Optional[str] = None,
    device: int = -1,
    timeout: Optional[float] = None,
) -> Context:
    """Join the job; blocks until all ranks have met.

    init_method  "env://", "tcp://HOST:PORT", "tcp://[MULTICAST]:PORT" or "file:///PATH"; $WEFT_INIT_METHOD, else "env://"
    store        to meet through a store instead, with world_size
    bootstrap    to meet by something of the caller's own instead, such as weft.mpi.bootstrap()
    job          a name that keeps jobs on one address apart
    secret       "file:PATH", "fd:N" or "env:NAME"; $WEFT_SECRET in the same form
    backends     "host" or "host,nccl"; all that can run here
    timeout      seconds for joining, and the default of every group; 1800

    Raises TimeoutError, which names the ranks that are missing, AuthError, ArgumentError and others of weft.errors.
    """
    config = ffi.new("weft_config *")
    lib.weft_py_config_init(config)
    texts = {"init_method": init_method, "job": job, "secret": secret, "backends": backends}
    if store is not None:
        config.store = store._open_handle()
    config.rank, config.world_size, config.device = rank, world_size, device
    used = Bridge(bootstrap) if bootstrap is not None else None
    if used is not None:
        config.bootstrap = used.structure
    config.timeout_ms = milliseconds(timeout, 0)

    def join(_: Wanted) -> Context:
        kept = {name: ffi.new("char[]", value.encode()) for name, value in texts.items() if value is not None}
        for name, value in kept.items():
            setattr(config, name, value)
        made = ffi.new("weft_context **")
        status = lib.weft_init(config, made)
        if used is not None and used.error is not None:
            raise used.error
        try:
            check(status)
        except UnsupportedError as error:  # backends="nccl" in a process that has another CUDA
            from weft import cuda

            raise cuda.explained(error) from None
        return Context(made[0])

    if used is not None:  # what it brings may insist on the thread that it was made on
        return join(lambda: True)
    return interruptible.call(join, undo=lambda made: made.abort("interrupted while it joined"))
