"""What a call or a request can fail with: one class per failure of weft_status."""

from __future__ import annotations

import builtins
import re
from typing import Optional, Type

from weft._weft import ffi, lib


class WeftError(RuntimeError):
    """A call or a request of Weft has failed.  str() is the library's sentence.

    status     the number in weft.h, and name the name that it has there
    rank       the rank of the group that is late, dead or at fault, where the library knows it; else None
    operation  the operation that failed, "all_reduce"; None where a call was refused before there was one
    group      the name of its group; None where there is none
    """

    status = 0

    def __init__(
        self,
        sentence: str,
        *,
        rank: Optional[int] = None,
        operation: Optional[str] = None,
        group: Optional[str] = None,
    ) -> None:
        super().__init__(sentence)
        self.rank = rank
        self.operation = operation
        self.group = group

    def extended(self, sentence: str) -> WeftError:
        """This failure, told by another sentence."""
        return type(self)(sentence, rank=self.rank, operation=self.operation, group=self.group)

    @property
    def name(self) -> str:
        """The status as weft.h calls it: "WEFT_ERR_PEER"."""
        return text(lib.weft_status_name(self.status))


class PendingError(WeftError, builtins.TimeoutError):
    """The time that was given to wait has passed, and the operation goes on."""

    status = lib.WEFT_PENDING


class ArgumentError(WeftError, ValueError):
    """An argument is out of range."""

    status = lib.WEFT_ERR_ARGUMENT


class OutOfMemoryError(WeftError, MemoryError):
    """There is no more memory, or a limit is reached."""

    status = lib.WEFT_ERR_MEMORY


class TimeoutError(WeftError, builtins.TimeoutError):
    """The operation's own time ran out."""

    status = lib.WEFT_ERR_TIMEOUT


class CancelledError(WeftError):
    """The operation was cancelled before it was done."""

    status = lib.WEFT_ERR_CANCELLED


class PeerError(WeftError, ConnectionError):
    """A peer died, left or cannot be reached; rank says which."""

    status = lib.WEFT_ERR_PEER


class MismatchError(WeftError):
    """Ranks disagree on what to do."""

    status = lib.WEFT_ERR_MISMATCH


class BrokenError(WeftError):
    """An earlier failure broke this group."""

    status = lib.WEFT_ERR_BROKEN


class UnsupportedError(WeftError, NotImplementedError):
    """This is not possible on this backend, with this type or in this build."""

    status = lib.WEFT_ERR_UNSUPPORTED


class AuthError(WeftError, PermissionError):
    """The job's secret does not match."""

    status = lib.WEFT_ERR_AUTH


class TruncatedError(WeftError, BufferError):
    """What came is longer than the room given for it."""

    status = lib.WEFT_ERR_TRUNCATED


class SystemCallError(WeftError, OSError):
    """A call of the system, CUDA, NCCL or MPI failed."""

    status = lib.WEFT_ERR_SYSTEM


class StateError(WeftError):
    """The call is not allowed here or now."""

    status = lib.WEFT_ERR_STATE


BY_STATUS: dict[int, Type[WeftError]] = {
    error.status: error
    for error in (
        PendingError,
        ArgumentError,
        OutOfMemoryError,
        TimeoutError,
        CancelledError,
        PeerError,
        MismatchError,
        BrokenError,
        UnsupportedError,
        AuthError,
        TruncatedError,
        SystemCallError,
        StateError,
    )
}

# "all_reduce #1 on group tp0 (16 B float32): 0.3 s passed; rank 2 (host a, pid 77) has not joined; ..."
_OPERATION = re.compile(r"^([a-z_]+) #\d+ (?:on group (\S+))?")
_RANK = re.compile(r"\brank (\d+)\b")


def text(chars: object) -> str:
    """A string of the library."""
    found = ffi.string(chars)
    return bytes(found).decode("utf-8", "replace") if isinstance(found, bytes) else ""


def from_sentence(status: int, sentence: str, rank: Optional[int] = None) -> WeftError:
    """The exception for a failure that the library tells by `sentence`, which names the rank where `rank` does not."""
    about = _OPERATION.match(sentence)
    if rank is None:
        named = _RANK.search(sentence[about.end() :] if about else sentence)
        rank = int(named.group(1)) if named else None
    return BY_STATUS.get(status, WeftError)(
        sentence,
        rank=rank,
        operation=about.group(1) if about else None,
        group=about.group(2) if about else None,
    )


def check(status: int) -> None:
    """Raises what this thread's last call of the library failed with."""
    if status != 0:
        raise from_sentence(status, text(lib.weft_last_error()))
