"""Keys and values that several processes see."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Type, Union

from weft import interruptible
from weft._weft import ffi, lib
from weft.errors import StateError, check, from_sentence, text
from weft.interruptible import Wanted
from weft.times import milliseconds

if TYPE_CHECKING:
    from weft._weft import CData
    from weft.context import Context

Value = Union[bytes, bytearray, memoryview, str]

_FIRST_ROOM = 4096
_LIMIT_MS = 30000  # given as such: 0 would be the calls' own default, and no time at all for opening
_SLICE_MS = 250


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


# The sentence of the last look, with the time of all of them.
def _of_all(sentence: str, slice_ms: int, limit_ms: int) -> str:
    return sentence.replace(f"{slice_ms / 1e3:.3g} s passed", f"{limit_ms / 1e3:.3g} s passed", 1)


def _wait_ms(timeout: Optional[float]) -> int:
    return 0 if timeout == 0 else milliseconds(timeout, int(lib.WEFT_FOREVER))


class Store:
    """A key/value store: Store.open(url), or the job's own, Context.store().  Keys up to 1 KiB, values up to 64 MiB."""

    def __init__(self, handle: CData, context: Optional[Context] = None) -> None:
        self._handle = handle
        self._context = context

    @classmethod
    def open(cls, url: str, *, secret: Optional[str] = None, timeout: Optional[float] = None) -> Store:
        """Open "tcp://HOST:PORT", which serves if that address is local and free and else connects, or "file:///PATH".

        timeout: seconds of opening, and of each call without a time of its own; 30.
        """

        def make(_: Wanted) -> Any:
            made = ffi.new("weft_store **")
            encoded = ffi.NULL if secret is None else secret.encode()
            check(lib.weft_store_open(url.encode(), encoded, milliseconds(timeout, _LIMIT_MS), made))
            return made[0]

        return cls(interruptible.call(make, undo=lib.weft_store_close))

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
        self._call(lambda store: lib.weft_store_set(store, key.encode(), data, len(data)))

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """The value of a key; waits for it.  TimeoutError when it has not come in `timeout` seconds; 0: look once."""
        size = ffi.new("size_t *", _FIRST_ROOM)
        values: list[Any] = []

        def read(store: Any, limit_ms: int) -> int:
            status = lib.WEFT_ERR_TRUNCATED
            while status == lib.WEFT_ERR_TRUNCATED:
                values[:] = [ffi.new("char[]", size[0])]
                status = lib.weft_store_get(store, key.encode(), values[0], size, limit_ms)
            return int(status)

        self._look(read, timeout)
        return bytes(ffi.buffer(values[0], size[0]))

    def add(self, key: str, amount: int = 1) -> int:
        """Add to a number, which an absent key has as 0, and give the sum."""
        result = ffi.new("int64_t *")
        self._call(lambda store: lib.weft_store_add(store, key.encode(), amount, result))
        return int(result[0])

    def compare_set(self, key: str, expected: Optional[Value], desired: Value) -> bool:
        """Set a key whose value is as expected, or with None only if it is absent; whether that was done."""
        old = None if expected is None else _bytes(expected)
        new, swapped = _bytes(desired), ffi.new("bool *")
        before, length = (ffi.NULL, 0) if old is None else (old, len(old))
        self._call(
            lambda store: lib.weft_store_compare_set(store, key.encode(), before, length, new, len(new), swapped)
        )
        return bool(swapped[0])

    def wait(self, keys: Sequence[str], timeout: Optional[float] = None) -> None:
        """Wait until all keys are there; TimeoutError names those that are not."""
        if isinstance(keys, str):
            raise TypeError(f"keys is the text {keys!r}, expected a list of keys")
        texts = [ffi.new("char[]", key.encode()) for key in keys]
        array = ffi.new("char *[]", texts)

        def wait(store: Any, limit_ms: int) -> int:
            return int(lib.weft_store_wait(store, ffi.cast("const char *const *", array), len(texts), limit_ms))

        self._look(wait, timeout)

    def delete(self, key: str) -> bool:
        """The key is absent from now on; whether it was there."""
        existed = ffi.new("bool *")
        self._call(lambda store: lib.weft_store_delete(store, key.encode(), existed))
        return bool(existed[0])

    def _call(self, function: Callable[[Any], int]) -> None:
        store = self._open_handle()
        interruptible.call(lambda _: check(function(store)), self._waiting)

    # One call of the library after the other, so that a look that nobody waits for any more ends soon: the store
    # cannot be closed under it.
    def _look(self, function: Callable[[Any, int], int], timeout: Optional[float]) -> None:
        store, limit_ms = self._open_handle(), _wait_ms(timeout)
        context = self._context

        def look(wanted: Wanted) -> None:
            began = time.monotonic()
            while True:
                left_ms = _SLICE_MS if limit_ms < 0 else limit_ms - int((time.monotonic() - began) * 1000)
                slice_ms = max(0, min(left_ms, _SLICE_MS))
                status = function(store, slice_ms)
                if status != lib.WEFT_ERR_TIMEOUT or not wanted():
                    return check(status)
                if limit_ms >= 0 and left_ms <= _SLICE_MS:
                    raise from_sentence(status, _of_all(text(lib.weft_last_error()), slice_ms, limit_ms))
                if context is not None and context._closing:
                    raise StateError("the context of this store is being closed")

        interruptible.call(look, self._waiting)

    @property
    def _waiting(self) -> Optional[dict[int, None]]:
        return None if self._context is None else self._context._waiting

    def _open_handle(self) -> Any:
        if self._handle == ffi.NULL or (self._context is not None and self._context.closed):
            raise StateError("this store is closed")
        return self._handle
