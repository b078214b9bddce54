"""Calls of the library that wait without a request: Ctrl-C ends them too.

KeyboardInterrupt is raised on the main thread between any two steps of Python.  So the main thread holds no lock here
that anybody else needs, nothing that must be undone is done there, and who has the result is decided by one step that
cannot be divided.
"""

from __future__ import annotations

import _thread
import threading
from typing import Callable, Optional, TypeVar

T = TypeVar("T")

Wanted = Callable[[], bool]

# How long a wait on the main thread does not look whether there was a signal: one that another thread of the process
# has taken does not end a call of the system here.
LOOK_S = 0.02


def call(
    function: Callable[[Wanted], T],
    running: Optional[dict[int, None]] = None,
    undo: Optional[Callable[[T], object]] = None,
) -> T:
    """function(wanted), on a thread of its own if this is the main thread, where KeyboardInterrupt ends the wait for it.

    The function goes on then until its own time is over, or until it asks wanted(), which is false from then on;
    undo(result) is called if it has a result after all.  `running` has the thread while the function runs.
    """
    inside = {} if running is None else running
    if threading.current_thread() is not threading.main_thread():
        return _count(function, inside)
    results: list[T] = []
    errors: list[BaseException] = []
    result_of: dict[str, str] = {}  # "who": "caller", or "nobody" once it was interrupted
    ended = _thread.allocate_lock()
    ended.acquire()

    def wanted() -> bool:
        return "who" not in result_of

    # Who is interrupted says so before it looks at `running`; here it is the other way round.  So nothing is called
    # that the other has found not to run.
    def run() -> None:
        inside[_thread.get_ident()] = None
        try:
            if wanted():
                results.append(function(wanted))
                if result_of.setdefault("who", "caller") == "nobody" and undo:
                    undo(results[0])
        except BaseException as error:  # told by who waits
            errors.append(error)
        finally:
            inside.pop(_thread.get_ident(), None)
            ended.release()

    try:
        if not _start(run):
            return _count(function, inside)
        while not ended.acquire(timeout=LOOK_S):
            pass
    except BaseException:
        if result_of.setdefault("who", "nobody") == "caller" and undo:
            undo(results[0])
        raise
    if errors:
        raise errors[0]
    return results[0]


def _count(function: Callable[[Wanted], T], inside: dict[int, None]) -> T:
    thread = _thread.get_ident()
    inside[thread] = None
    try:
        return function(lambda: True)
    finally:
        inside.pop(thread, None)


# Not by threading.Thread, whose start() waits with locks that KeyboardInterrupt leaves as they are.  Python 3.12 and
# later start none while the interpreter ends.
def _start(run: Callable[[], None]) -> bool:
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        return False
    return True
