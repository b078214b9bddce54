"""Which interpreters weft runs in: the main one of a process, of an ordinary build of Python."""

from __future__ import annotations

import importlib
import sys


def require_supported() -> None:
    """ImportError with a sentence in an interpreter in which weft was never tried, before anything of it is loaded."""
    if "t" in getattr(sys, "abiflags", ""):
        raise ImportError(
            f"weft does not run on free-threaded builds of Python (this is {sys.version.split()[0]}t): its extension is "
            "made for the stable ABI, which they do not have; expected the ordinary build"
        )
    if _is_sub_interpreter():
        raise ImportError(
            "weft cannot be imported in a sub-interpreter: its threads, callbacks and exit belong to the main one; "
            "import it there, or start a process"
        )


# The module that knows has another name since 3.13, and is a detail of CPython: where there is none, nobody makes
# sub-interpreters by it.
def _is_sub_interpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            known = importlib.import_module(name)
        except ImportError:
            continue
        return bool(known.get_current() != known.get_main())
    return False
