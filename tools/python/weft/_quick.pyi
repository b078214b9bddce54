# Types of the module that _quick.c makes: the short way of a collective.
from typing import Any, Callable, Optional

from weft.errors import WeftError
from weft.watcher import Watcher

class Job:
    """What the short way knows of a job."""

    _watcher: Watcher
    _watched: dict[Any, Any]
    _forsaken: list[tuple[int, object]]
    _closed: bool
    _closing: bool
    @property
    def _inside(self) -> int: ...

class Flight:
    """What the short way knows of a request."""

    _address: int
    _result: Any
    _keep: object
    _error: Optional[WeftError]
    _owner: object
    _settled: bool
    def __init__(self, context: Job, address: int, result: object, keep: object, owner: object, /) -> None: ...
    @property
    def _context(self) -> Any: ...
    def _finish(self) -> bool: ...
    def _is_completed(self) -> bool: ...

def all_reduce(group: object, context: Job, address: int, array: object, out: object, op: str, /) -> Any: ...
def prepare(
    request: type[Flight],
    check: Callable[[int], None],
    reductions: dict[str, int],
    codes: dict[object, int],
    given_back: dict[int, Any],
    /,
) -> None: ...
def know_arrays(kind: object, /) -> None: ...
