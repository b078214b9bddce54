# Types of the module that cffi makes: its functions and structures have the types of C.
from typing import Any

class CData:
    """A value of C: a pointer, a structure, an array."""

    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, key: int | slice) -> Any: ...
    def __int__(self) -> int: ...

ffi: Any
lib: Any
