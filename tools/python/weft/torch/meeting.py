"""weft+SCHEME://, Weft's own ways to meet as init methods of torch: ranks that nobody has assigned, multicast, group_name.

    dist.init_process_group("weft", init_method="weft+file:///mnt/shared/job?group_name=mine", world_size=4)
    dist.init_process_group("weft", init_method="weft+tcp://239.1.2.3:23456", world_size=4)

What torch.distributed had of this in 2017 it has no more.  A rank that is not given is assigned; group_name keeps jobs
at one place apart.  torch's store is the job's own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Iterator, Optional
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist

from weft.context import Context, init

_PREFIX = "weft+"
_SCHEMES = ("tcp", "file", "env")
_WORDS = ("rank", "world_size", "group_name")

_met: list[Context] = []  # by this, and torch has made no group of it yet


class JobStore(dist.Store):
    """The job's own store, as torch calls stores."""

    def __init__(self, context: Context, timeout: timedelta) -> None:
        super().__init__()
        self._store, self._timeout = context.store(), timeout
        self._count = "weft.torch/keys"

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        return self._store.get(key, self._timeout.total_seconds())

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)

    # An absent key counts as one whose value is "", and where the two differ the value that is there is the answer.
    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        absent = len(expected) == 0 and self._store.compare_set(key, None, desired)
        if absent or self._store.compare_set(key, expected, desired):
            return desired.encode() if isinstance(desired, str) else bytes(desired)
        return self._store.get(key, 0)

    def delete_key(self, key: str) -> bool:
        return self._store.delete(key)

    def check(self, keys: list[str]) -> bool:
        return all(self._has(key) for key in keys)

    def wait(self, keys: list[str], timeout: Optional[timedelta] = None) -> None:
        self._store.wait(list(keys), (timeout or self._timeout).total_seconds())

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def _has(self, key: str) -> bool:
        from weft.errors import TimeoutError

        try:
            self._store.wait([key], 0)
        except TimeoutError:
            return False
        return True


def register() -> None:
    """Makes weft+SCHEME:// known to torch.distributed; a second call does nothing."""
    for scheme in _SCHEMES:
        try:
            dist.register_rendezvous_handler(_PREFIX + scheme, _meet)
        except RuntimeError:  # it is known
            return


def take(rank: int, size: int) -> Optional[Context]:
    """The context by which torch's default group has met, if it has met so; once."""
    if _met and (_met[0].rank, _met[0].size) == (rank, size):
        return _met.pop()
    return None


def _meet(url: str, timeout: timedelta = timedelta(minutes=30), **_: Any) -> Iterator[tuple[JobStore, int, int]]:
    from weft.torch.registration import device

    parts = urlsplit(url)
    query = {word: values[-1] for word, values in parse_qs(parts.query).items()}
    unknown = [word for word in query if word not in _WORDS]
    if unknown:
        raise ValueError(f"{url} has {unknown[0]}, expected of {', '.join(_WORDS)}")
    context = init(
        parts._replace(scheme=parts.scheme[len(_PREFIX) :], query="").geturl(),
        rank=int(query.get("rank", -1)),
        world_size=int(query.get("world_size", -1)),
        job=query.get("group_name"),
        device=device(),
        timeout=timeout.total_seconds(),
    )
    _met[:] = [context]
    yield JobStore(context, timeout), context.rank, context.size
    raise RuntimeError(f"{url}: the ranks have met, and do so once")
