"""CUDA streams as cupy, torch and cuda.core have them, by their attributes."""

from __future__ import annotations

from typing import Any

from weft._weft import ffi


def handle_of(stream: object) -> Any:
    """The cudaStream_t of a stream: a number, or an object of cupy (.ptr), torch (.cuda_stream) or cuda.core.

    None is the legacy default stream.
    """
    if stream is None:
        return ffi.NULL
    if not isinstance(stream, int):
        for name in ("ptr", "cuda_stream", "handle"):
            found = getattr(stream, name, None)
            if found is not None:
                stream = int(found)
                break
        else:
            raise TypeError(f"stream is a {type(stream).__name__}, expected a number or a stream of cupy, torch or cuda.core")
    return ffi.cast("void *", stream)
