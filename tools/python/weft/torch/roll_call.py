"""The ranks of a group of torch tell each other by its store what they need to meet.

A store may hold what earlier ranks have left: torchrun gives restarted ranks the store of those before, and a file stays
when a job has crashed.  So before anything is told, a roll is called: each rank says a number that nobody has said
before, rank 0 offers the list of all, and the list is taken once every rank has found its own number in it.  What is told
then has that list in its keys.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Iterator, Sequence

from weft.errors import SystemCallError, TimeoutError, WeftError

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.05  # between two looks at what another rank may have said since
_SHORTEST_S = 0.001  # that a deadline leaves: no time at all would be a default


class RollCall:
    """A weft.Bootstrap over a store of torch, until a deadline.  What fails is told as one of weft.errors."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self.size = rank, size
        self._store, self._timeout = store, timeout
        self._deadline = time.monotonic() + timeout.total_seconds()
        self._own = secrets.token_hex(8).encode()
        self._turn = 0
        with self._told([self._key("here", each) for each in range(size)]):
            self._store.set(self._key("here", rank), self._own)
            self._roll = self._call() if rank == 0 else self._answer()

    def all_gather(self, own: bytes) -> list[bytes]:
        """The bytes of every rank."""
        self._turn += 1
        keys = [f"weft/{self._roll}/{self._turn}/{rank}" for rank in range(self.size)]
        with self._told(keys):
            self._store.set(keys[self.rank], own)
            self._wait(keys)
            return [bytes(self._store.get(key)) for key in keys]

    def left(self) -> float:
        """Seconds until the deadline, never 0."""
        return max(_SHORTEST_S, self._deadline - time.monotonic())

    # Rank 0: offers the list of who is there until all have found themselves in it.
    def _call(self) -> str:
        offered, look_s = b"", _FIRST_LOOK_S
        others = range(1, self.size)
        self._store.set(self._key("taken", 0), b"-")  # so that nobody waits for the key while the list changes
        while True:
            offer = b" ".join(self._said("here", rank) for rank in range(self.size))
            if offer != offered:
                self._store.set(self._key("offer", 0), offer)
                offered, look_s = offer, _FIRST_LOOK_S
            name = _name(offer).encode()
            if all(self._said("found", rank) == name for rank in others):
                self._store.set(self._key("taken", 0), name)
                return name.decode()
            look_s = self._look_again_after(look_s)

    # Every other rank: a list without its number is of ranks before, or of a time at which rank 0 had not heard it.
    def _answer(self) -> str:
        found, look_s = b"", _FIRST_LOOK_S
        self._store.set(self._key("found", self.rank), b"-")
        while True:
            offer = self._said("offer", 0)
            if offer.split(b" ")[self.rank : self.rank + 1] == [self._own] and _name(offer).encode() != found:
                found = _name(offer).encode()
                self._store.set(self._key("found", self.rank), found)
                look_s = _FIRST_LOOK_S
            if found and self._said("taken", 0) == found:
                return found.decode()
            look_s = self._look_again_after(look_s)

    # Waits for the key.
    def _said(self, what: str, rank: int) -> bytes:
        key = self._key(what, rank)
        self._wait([key])
        return bytes(self._store.get(key))

    def _key(self, what: str, rank: int) -> str:
        return f"weft/{what}/{rank}"

    # torch's stores count whole milliseconds.
    def _wait(self, keys: Sequence[str]) -> None:
        self._store.wait(list(keys), timedelta(milliseconds=math.ceil(1000 * self.left())))

    def _look_again_after(self, seconds: float) -> float:
        if time.monotonic() >= self._deadline:
            raise _Late
        time.sleep(seconds)
        return min(2 * seconds, _LONGEST_LOOK_S)

    # keys: what each rank says first, in the order of ranks; without one it is late.
    @contextmanager
    def _told(self, keys: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except WeftError:  # a store of Weft's
            raise
        except (RuntimeError, OSError) as error:
            raise self._failure(keys, error) from error

    # torch's stores have an error of their own for a time that is over, and another one with each version.
    def _failure(self, keys: Sequence[str], error: Exception) -> WeftError:
        if time.monotonic() < self._deadline:
            return SystemCallError(f"torch's store failed while {self.size} ranks met over it: {error}")
        late = next((rank for rank, key in enumerate(keys) if not self._has(key)), None)
        why = "what it holds of some may be of ranks before" if late is None else f"rank {late} has not come"
        passed = f"{self._timeout.total_seconds():.3g} s passed"
        return TimeoutError(f"{passed}, and not all {self.size} ranks have met over torch's store: {why}", rank=late)

    # A store that has failed says nothing.
    def _has(self, key: str) -> bool:
        try:
            return bool(self._store.check([key]))
        except RuntimeError:
            return True


class _Late(RuntimeError):
    """The deadline is over."""


def _name(roll: bytes) -> str:
    return hashlib.sha256(roll).hexdigest()[:16]
