"""Which CUDA the package's module is made for, and which one this process has: torch and cupy bring their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Optional

from weft.errors import UnsupportedError
from weft.tool import NATIVE

_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")


def made_for() -> Optional[int]:
    """The major version that the module was linked with; None: there is no module."""
    module = NATIVE / "lib" / "weft" / "libweft_nccl.so"
    found = _RUNTIME.search(module.read_bytes().decode("latin-1")) if module.exists() else None
    return int(found.group(1)) if found else None


def loaded() -> set[int]:
    """The major versions that are loaded in this process."""
    return {int(major) for major in _RUNTIME.findall(Path("/proc/self/maps").read_text(encoding="utf-8"))}


def explained(error: UnsupportedError) -> UnsupportedError:
    """An error of memory of a device, with the reason where CUDA of another major version is that."""
    needed, present = made_for(), loaded()
    if not present:
        return error
    have = " and ".join(f"CUDA {major}" for major in sorted(present))
    if needed is None:
        why = "this package was built without CUDA: it needs a build that found it"
        return _longer(error, f"this process has {have}, and {why}")
    if needed in present:
        return error
    why = f"this package was built for CUDA {needed}: it needs packages for CUDA {needed}, or a build beside {have}"
    return _longer(error, f"this process has {have}, and {why}")


def _longer(error: UnsupportedError, why: str) -> UnsupportedError:
    return UnsupportedError(f"{error}; {why}", rank=error.rank, operation=error.operation, group=error.group)
