# Made at build time from weft.h by _ffi_build.py.
from typing import Any

ffi: Any
lib: Any
