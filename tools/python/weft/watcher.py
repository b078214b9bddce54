"""Who is told when a request has settled without waiting for it: callbacks and asyncio.

The context has one completion descriptor, which is readable from a settling until the next wait or test begins.  So
one rule holds here: whoever has made such a call looks at everything that is watched, and tells whoever asked.  A
request that somebody else's wait has hidden from the descriptor is found by that one.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

from weft._weft import lib

_Tell = Callable[[], object]

if TYPE_CHECKING:
    import asyncio

    from weft.context import Context
    from weft.request import Request

    _Loop = asyncio.AbstractEventLoop
    _Listener = Tuple[_Tell, Optional[_Loop]]


class Watcher:
    """The watched requests of one context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._watched: dict[Request[Any], list[_Listener]] = {}
        self._loops: dict[_Loop, int] = {}  # how many listeners each has
        self._ready: list[_Tell] = []  # for the thread to call, which ends when nothing is left
        self._descriptor = -1  # once it was asked for
        self._thread: Optional[threading.Thread] = None
        self._pipe: Optional[tuple[int, int]] = None  # wakes it

    @property
    def busy(self) -> bool:
        """Whether anything is watched."""
        return bool(self._watched)

    def watch(self, request: Request[Any], tell: _Tell, loop: Optional[_Loop]) -> None:
        """Call tell() once the request has settled: on `loop`, whose thread this is, or on a thread made for it."""
        descriptor = self._descriptor = self._context._descriptor()
        with self._lock:
            self._watched.setdefault(request, []).append((tell, loop))
            if loop is not None:
                count = self._loops.get(loop, 0)
                self._loops[loop] = count + 1
                if count == 0:
                    loop.add_reader(descriptor, self.sweep)
            elif self._thread is None:
                self._start_thread(descriptor)
        if lib.weft_is_completed(request._handle):  # before the descriptor was looked at
            self.look()

    def sweep(self) -> None:
        """Tell of everything that has settled."""
        with self._lock:
            if not self._watched or self._context._closed:
                return
            lib.weft_test(next(iter(self._watched))._handle)  # clears the descriptor, and only then it is looked
            completed = lib.weft_is_completed
            settled = [request for request in self._watched if completed(request._handle)]
            for request in settled:
                request.done()
            on_loops = self._take_off(settled)
        self._tell(on_loops)

    def look(self) -> None:
        """Have somebody sweep, after a call that may have hidden something from the descriptor.

        Not the main thread: KeyboardInterrupt could be raised between what is taken off here and its telling.
        """
        if threading.current_thread() is not threading.main_thread():
            self.sweep()
            return
        self._wake()
        for loop in list(self._loops):
            try:
                loop.call_soon_threadsafe(self.sweep)
            except RuntimeError:  # it is closed
                pass

    def unsettled(self) -> list[Request[Any]]:
        """What is watched and has not been told of yet."""
        with self._lock:
            return list(self._watched)

    def stop(self) -> None:
        """Tell everybody who still waits, settled or not, and end the thread: the context is about to close."""
        self.sweep()
        with self._lock:
            on_loops = self._take_off(list(self._watched))
            thread, pipe = self._thread, self._pipe
        self._tell(on_loops)
        if thread is not None and thread is not threading.current_thread():
            self._wake()
            thread.join()
        for loop in list(self._loops):  # whose readers would look at a descriptor that is closed
            try:
                loop.call_soon_threadsafe(loop.remove_reader, self._descriptor)
            except RuntimeError:
                pass
        if pipe is not None and thread is not threading.current_thread():
            self._pipe = None
            os.close(pipe[0])
            os.close(pipe[1])

    # Lock held.  What is for the thread is handed to it in the same step, or it could end in between; what is for
    # loops is given back.
    def _take_off(self, requests: list[Request[Any]]) -> list[tuple[_Tell, _Loop]]:
        listeners = [listener for request in requests for listener in self._watched.pop(request)]
        self._ready += [tell for tell, loop in listeners if loop is None]
        return [(tell, loop) for tell, loop in listeners if loop is not None]

    def _tell(self, on_loops: list[tuple[_Tell, _Loop]]) -> None:
        for tell, loop in on_loops:
            try:
                loop.call_soon_threadsafe(self._tell_on_loop, tell, loop)
            except RuntimeError:  # the loop is closed: nobody waits there any more
                with self._lock:
                    self._loops.pop(loop, None)
        if self._ready and threading.current_thread() is not self._thread:
            self._wake()

    def _tell_on_loop(self, tell: _Tell, loop: _Loop) -> None:
        with self._lock:
            self._loops[loop] = count = self._loops.get(loop, 1) - 1
            if count == 0:
                del self._loops[loop]
                loop.remove_reader(self._descriptor)
        tell()

    def _wake(self) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], b"x")
            except BlockingIOError:  # it is full: whoever reads there wakes up anyhow
                pass

    def _start_thread(self, descriptor: int) -> None:
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
        self._thread = threading.Thread(
            target=self._call_back, args=(descriptor, self._pipe[0]), name="weft-callbacks", daemon=True
        )
        self._thread.start()

    # Once nothing is watched no sweep clears the descriptor, so the thread does not wait there any more.
    def _call_back(self, descriptor: int, woken: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            if woken in (ready for ready, _ in poll.poll()):
                os.read(woken, 4096)
            self.sweep()
            while self._ready:
                _call(self._ready.pop(0))
            with self._lock:
                if not self._watched and not self._ready:
                    self._thread = None
                    return


def _call(tell: _Tell) -> None:
    try:
        tell()
    except Exception:
        import traceback

        print("weft: a function of add_done_callback has raised:", file=sys.stderr)
        traceback.print_exc()
