"""Which CUDA the package's module can use, and which one this process has: torch and cupy bring their own."""

from __future__ import annotations

import re
from pathlib import Path

from weft.errors import UnsupportedError
from weft.tool import NATIVE

MAJORS = (12, 13)  # as runtime/nccl/cudart.c

_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")


def has_module() -> bool:
    """Whether the package was built with CUDA."""
    return (NATIVE / "lib" / "weft" / "libweft_nccl.so").exists()


def loaded() -> set[int]:
    """The major versions that are loaded in this process."""
    return {int(major) for major in _RUNTIME.findall(Path("/proc/self/maps").read_text(encoding="utf-8"))}


def explained(error: UnsupportedError) -> UnsupportedError:
    """An error of memory of a device, with the reason where CUDA of another major version is that."""
    present = loaded()
    if not present:
        return error
    have = " and ".join(f"CUDA {major}" for major in sorted(present))
    if not has_module():
        why = "this package was built without CUDA: it needs a build that found it"
        return _longer(error, f"this process has {have}, and {why}")
    if not present.isdisjoint(MAJORS):
        return error
    return _longer(error, f"this process has {have}, and this package is for CUDA {' or '.join(map(str, MAJORS))}")


def _longer(error: UnsupportedError, why: str) -> UnsupportedError:
    return UnsupportedError(f"{error}; {why}", rank=error.rank, operation=error.operation, group=error.group)
