"""Keys and values that several processes see."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Sequence, Type, Union

from weft import interruptible
from weft._weft import ffi, lib
from weft.context import milliseconds
from weft.errors import StateError, check

if TYPE_CHECKING:
    from weft.context import Context

Value = Union[bytes, bytearray, memoryview, str]

_FIRST_ROOM = 4096


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _wait_ms(timeout: Optional[float]) -> int:
    return 0 if timeout == 0 else milliseconds(timeout, int(lib.WEFT_FOREVER))


class Store:
    """A key/value store: Store.open(url), or the job's own, Context.store().  Keys up to 1 KiB, values up to 64 MiB."""

    def __init__(self, handle: Any, context: Optional[Context] = None) -> None:
        self._handle = handle
        self._context = context

    @classmethod
    def open(cls, url: str, *, secret: Optional[str] = None, timeout: Optional[float] = None) -> Store:
        """Open "tcp://HOST:PORT", which serves if that address is local and free and else connects, or "file:///PATH".

        timeout: seconds of opening, and of each call without a time of its own; 30.
        """

        def make() -> Any:
            made = ffi.new("weft_store **")
            encoded = ffi.NULL if secret is None else secret.encode()
            check(lib.weft_store_open(url.encode(), encoded, milliseconds(timeout, 0), made))
            return made[0]

        return cls(interruptible.call(make, lib.weft_store_close))

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the job's own store stays open as long as its context."""
        if self._handle != ffi.NULL and self._context is None:
            lib.weft_store_close(self._handle)
        self._handle = ffi.NULL

    def set(self, key: str, value: Value) -> None:
        """The key has this value from now on; text is stored as UTF-8."""
        data = _bytes(value)
        check(lib.weft_store_set(self._open_handle(), key.encode(), data, len(data)))

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """The value of a key; waits for it.  TimeoutError when it has not come in `timeout` seconds; 0: look once."""
        handle, limit = self._open_handle(), _wait_ms(timeout)

        def read() -> bytes:
            room = _FIRST_ROOM
            while True:
                value, size = ffi.new("char[]", room), ffi.new("size_t *", room)
                status = lib.weft_store_get(handle, key.encode(), value, size, limit)
                if status != lib.WEFT_ERR_TRUNCATED:
                    check(status)
                    return bytes(ffi.buffer(value, size[0]))
                room = size[0]

        return interruptible.call(read)

    def add(self, key: str, amount: int = 1) -> int:
        """Add to a number, which an absent key has as 0, and give the sum."""
        result = ffi.new("int64_t *")
        check(lib.weft_store_add(self._open_handle(), key.encode(), amount, result))
        return int(result[0])

    def compare_set(self, key: str, expected: Optional[Value], desired: Value) -> bool:
        """Set a key whose value is as expected, or with None only if it is absent; whether that was done."""
        old = None if expected is None else _bytes(expected)
        new, swapped = _bytes(desired), ffi.new("bool *")
        before, length = (ffi.NULL, 0) if old is None else (old, len(old))
        check(lib.weft_store_compare_set(self._open_handle(), key.encode(), before, length, new, len(new), swapped))
        return bool(swapped[0])

    def wait(self, keys: Sequence[str], timeout: Optional[float] = None) -> None:
        """Wait until all keys are there; TimeoutError names those that are not."""
        if isinstance(keys, str):
            raise TypeError(f"keys is the text {keys!r}, expected a list of keys")
        handle, limit = self._open_handle(), _wait_ms(timeout)
        texts = [ffi.new("char[]", key.encode()) for key in keys]
        array = ffi.new("char *[]", texts)

        def wait() -> object:
            check(lib.weft_store_wait(handle, ffi.cast("const char *const *", array), len(texts), limit))
            return texts

        interruptible.call(wait)

    def delete(self, key: str) -> bool:
        """The key is absent from now on; whether it was there."""
        existed = ffi.new("bool *")
        check(lib.weft_store_delete(self._open_handle(), key.encode(), existed))
        return bool(existed[0])

    def _open_handle(self) -> Any:
        if self._handle == ffi.NULL or (self._context is not None and self._context.closed):
            raise StateError("this store is closed")
        return self._handle
