"""Weft's own ways to meet, as init methods of torch: ranks that nobody has assigned, multicast, group_name.

    dist.init_process_group("weft", init_method="file:///mnt/shared/job", world_size=4, group_name="mine")
    dist.init_process_group("weft", init_method="tcp://239.1.2.3:23456", world_size=4)
    dist.init_process_group("weft", init_method="weft+file:///mnt/shared/job?group_name=mine", world_size=4)

What torch.distributed had of this in 2017 it has no more: for the backend "weft" alone, an address of multicast, and a
place without a rank, are taken from torch's own init methods; the prefix weft+ takes any.  A rank that is not given is
assigned; group_name keeps jobs at one place apart.  torch's store is the job's own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import ipaddress
from datetime import timedelta
from typing import Callable, Iterator, Optional, Union
from urllib.parse import SplitResult, parse_qs, urlsplit

import torch.distributed as dist
from torch.distributed import distributed_c10d

from weft.context import Context, init

_PREFIX = "weft+"
_SCHEMES = ("tcp", "file", "env")
_WORDS = ("rank", "world_size", "group_name")

_TORCHS_OWN = ("tcp", "file")  # schemes that torch has, and had ranks assigned by in 2017

_met: list[Context] = []  # by this, and torch has made no group of it yet
_asked: list[str] = []  # the group_name of the call of init_process_group that this thread is in, if it asks for Weft

Meeting = Iterator["tuple[dist.Store, int, int]"]


class JobStore(dist.Store):
    """The job's own store, as torch calls stores."""

    def __init__(self, context: Context, timeout: timedelta) -> None:
        super().__init__()
        self._store, self._timeout = context.store(), timeout
        self._count = "weft.torch/keys"

    def set(self, key: str, value: Union[bytes, str]) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        return self._store.get(key, self._timeout.total_seconds())

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)

    # An absent key counts as one whose value is "", and where the two differ the value that is there is the answer.
    def compare_set(self, key: str, expected: Union[bytes, str], desired: Union[bytes, str]) -> bytes:
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


def register(backends: tuple[str, ...]) -> None:
    """Makes weft+SCHEME:// known to torch, and the forms of 2017 to these backends; a second call does nothing."""
    for scheme in _SCHEMES:
        try:
            dist.register_rendezvous_handler(_PREFIX + scheme, _meet)
        except RuntimeError:  # it is known
            return
    torchs = importlib.import_module("torch.distributed.rendezvous")  # an attribute of that name is a function
    known = getattr(torchs, "_rendezvous_handlers", {})
    for scheme in _TORCHS_OWN:
        if scheme in known:
            known[scheme] = _in_place_of(known[scheme])
    dist.init_process_group = distributed_c10d.init_process_group = _telling(dist.init_process_group, backends)


# torch does not tell who meets the backend, nor the group_name, which it ignores.
def _telling(torchs: Callable[..., None], backends: tuple[str, ...]) -> Callable[..., None]:
    signature = inspect.signature(torchs)

    @functools.wraps(torchs)
    def init_process_group(*args: object, **kwargs: object) -> None:
        given = signature.bind_partial(*args, **kwargs).arguments
        of_devices = str(given.get("backend") or "").lower().split(",")
        asked = any(each.rpartition(":")[2] in backends for each in of_devices)
        _asked[:] = [str(given.get("group_name") or "")] if asked else []
        try:
            torchs(*args, **kwargs)
        finally:
            _asked.clear()

    return init_process_group


def _in_place_of(torchs: Callable[..., Meeting]) -> Callable[..., Meeting]:
    def meet(url: str, **options: object) -> Meeting:
        parts = urlsplit(url)
        if _asked and (_is_multicast(parts) or "rank" not in parse_qs(parts.query)):
            return _meet(parts._replace(scheme=_PREFIX + parts.scheme).geturl(), **options)  # type: ignore[arg-type]
        return torchs(url, **options)

    return meet


def _is_multicast(parts: SplitResult) -> bool:
    try:
        return ipaddress.ip_address(parts.hostname or "").is_multicast
    except ValueError:  # a name, or none
        return False


def take(rank: int, size: int) -> Optional[Context]:
    """The context by which torch's default group has met, if it has met so; once."""
    if _met and (_met[0].rank, _met[0].size) == (rank, size):
        return _met.pop()
    return None


def _meet(url: str, timeout: timedelta = timedelta(minutes=30), **_: object) -> Meeting:
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
        job=query.get("group_name") or (_asked[0] if _asked and _asked[0] else None),
        device=device(),
        timeout=timeout.total_seconds(),
    )
    _met[:] = [context]
    yield JobStore(context, timeout), context.rank, context.size
    raise RuntimeError(f"{url}: the ranks have met, and do so once")
