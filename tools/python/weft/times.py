"""Seconds, as they are given here, in milliseconds, as weft.h has them."""

from __future__ import annotations

from typing import Optional

from weft._weft import lib


def milliseconds(seconds: Optional[float], default: int) -> int:
    """A time for the library: seconds, `default` for None, forever for infinity; never 0, which would be a default."""
    if seconds is None:
        return default
    if seconds == float("inf"):
        return int(lib.WEFT_FOREVER)
    if not seconds > 0:
        raise ValueError(f"timeout is {seconds} s, expected more than 0")
    return max(1, round(seconds * 1000))
