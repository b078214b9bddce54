"""How ranks find each other, when the caller brings it."""

from __future__ import annotations

from typing import Any, Optional, Protocol

from weft._weft import ffi, lib


class Bootstrap(Protocol):
    """Something that knows the ranks already, and by which they tell each other a few bytes while they join."""

    @property
    def rank(self) -> int:
        """This process's rank."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def all_gather(self, own: bytes) -> list[bytes]:
        """The bytes of every rank, each as long as this rank's, in the order of ranks."""


class Bridge:
    """A Bootstrap as the library calls it.  An exception in all_gather ends the call of init, which raises it."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self.error: Optional[BaseException] = None
        self._handle = ffi.new_handle(self)
        self.structure = ffi.new(
            "weft_bootstrap *", (self._handle, bootstrap.rank, bootstrap.size, lib.weft_py_all_gather)
        )


@ffi.def_extern(error=lib.WEFT_ERR_SYSTEM)  # type: ignore[untyped-decorator]
def weft_py_all_gather(state: Any, own: Any, everybody: Any, bytes_each: int) -> int:
    bridge = ffi.from_handle(state)
    try:
        parts = bridge.bootstrap.all_gather(bytes(ffi.buffer(own, bytes_each)))
        whole = b"".join(parts)
        if len(whole) != bytes_each * bridge.bootstrap.size:
            raise ValueError(
                f"all_gather of the bootstrap gave {len(whole)} bytes, "
                f"expected {bytes_each} of each of {bridge.bootstrap.size} ranks"
            )
        ffi.memmove(everybody, whole, len(whole))
        return int(lib.WEFT_OK)
    except BaseException as error:
        bridge.error = error
        return int(lib.WEFT_ERR_SYSTEM)
