"""A thread that does the work of operations while torch waits for them by a Future.

torch waits for a Future in C++, DistributedDataParallel too, so no call of Weft is waiting there: only the library's own
threads go on, which sleep between any two steps that depend on another rank.  This thread waits by Weft instead.  That it
tells nobody of what has settled is no matter: callbacks do.
"""

from __future__ import annotations

import queue
import threading

from weft.errors import WeftError
from weft.request import Request

_TURN_S = 0.1  # for one operation, before the next one's turn
_IDLE_S = 5.0  # without work the thread ends

_lock = threading.Lock()
_wanted: queue.SimpleQueue[Request[object]] = queue.SimpleQueue()
_running: list[threading.Thread] = []


def help_with(request: Request[object]) -> None:
    """Wait for it on the thread, in turn with others."""
    with _lock:
        _wanted.put(request)
        if _running:
            return
        thread = threading.Thread(target=_help, name="weft-torch", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # none can be had, or the interpreter ends: the library's own threads go on
            return
        _running.append(thread)


def _help() -> None:
    while True:
        try:
            request = _wanted.get(timeout=_IDLE_S)
        except queue.Empty:
            with _lock:
                if _wanted.empty():
                    _running.clear()
                    return
            continue
        try:
            if not request.wait(_TURN_S):
                _wanted.put(request)
        except WeftError:  # told by the future
            pass
        del request  # or it would live, with its arrays, until the next one comes
