"""Calls of the library that wait without a request: Ctrl-C ends them too."""

from __future__ import annotations

import threading
from typing import Callable, Optional, TypeVar

T = TypeVar("T")

_LOOK_S = 0.05


def call(function: Callable[[], T], undo: Optional[Callable[[T], object]] = None) -> T:
    """function(), on a thread of its own if this is the main thread, where KeyboardInterrupt ends the wait for it.

    The function goes on then until its own time is over; undo(result) is called if it has a result after all.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    results: list[T] = []
    errors: list[BaseException] = []
    lock, finished, given_up = threading.Lock(), threading.Event(), threading.Event()

    def run() -> None:
        try:
            result = function()
            with lock:
                results.append(result)
                late = given_up.is_set()
            if late and undo:
                undo(result)
        except BaseException as error:  # told by who waits
            errors.append(error)
        finally:
            finished.set()

    threading.Thread(target=run, name="weft-call", daemon=True).start()
    try:
        while not finished.wait(_LOOK_S):
            pass
    except BaseException:
        with lock:
            given_up.set()
            if results and undo:
                undo(results[0])
        raise
    if errors:
        raise errors[0]
    return results[0]
