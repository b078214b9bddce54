"""The command line tools that lie in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NATIVE = Path(__file__).resolve().parent / "native"


def become(name: str) -> None:
    """Go on as that tool, with this program's arguments."""
    path = str(NATIVE / "bin" / name)
    os.execv(path, [path, *sys.argv[1:]])
