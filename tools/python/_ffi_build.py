"""What cffi makes weft._weft of: the declarations of weft.h and cuda.h as the C preprocessor leaves them.

No declaration is written by hand, so none can differ from the library's.  What the preprocessor would swallow, the
numbers that have a #define, is told to cffi by name alone; the C compiler fills in the value.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

import cffi

# A number by #define: everything but what the header needs for itself.
_DEFINE = re.compile(r"^#define (WEFT_[A-Z_]+) +\(?-?(?:INT64_C\()?\d", re.MULTILINE)

# What a consumer of the first form of DLPack reads: https://dmlc.github.io/dlpack/latest/c_api.html
_DLPACK = """
typedef struct { int32_t device_type; int32_t device_id; } weft_py_dl_device;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } weft_py_dl_dtype;
typedef struct {
    void *data;
    weft_py_dl_device device;
    int32_t ndim;
    weft_py_dl_dtype dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} weft_py_dl_tensor;
"""

# What a bootstrap in Python is called by; weft/bootstrap.py has its body.
_CALLBACKS = 'extern "Python" weft_status weft_py_all_gather(void *, const void *, void *, size_t);'

# C has defaults for a weft_config that only its own initializer knows.
_HELPERS = "void weft_py_config_init(weft_config *config);"
_HELPERS_SOURCE = """
static void weft_py_config_init(weft_config *config)
{
    const weft_config defaults = WEFT_CONFIG_INIT;
    *config = defaults;
}
"""


def declarations(include: str) -> str:
    """All that weft.h and cuda.h in the folder include/weft declare, as cffi reads it."""
    path = os.path.join(include, "weft", "weft.h")
    with open(path, encoding="utf-8") as header, tempfile.TemporaryDirectory() as empty:
        numbers = _DEFINE.findall(header.read())
        for name in ("stdbool.h", "stddef.h", "stdint.h"):  # cffi knows these types by itself
            with open(os.path.join(empty, name), "w", encoding="utf-8"):
                pass
        command = [os.environ.get("CC", "cc"), "-E", "-P", "-nostdinc", "-I", empty, "-I", include, "-DWEFT_API="]
        command.append(os.path.join(include, "weft", "cuda.h"))  # which includes weft.h
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return text + "".join(f"#define {name} ...\n" for name in numbers)


def builder(include: str, library: str) -> cffi.FFI:
    """The module weft._weft, to be linked with the libweft.so in the folder `library`, which lies in weft/native/lib."""
    ffi = cffi.FFI()
    ffi.cdef(declarations(include))
    ffi.cdef(_DLPACK + _HELPERS + _CALLBACKS)
    ffi.set_source(
        "weft._weft",
        "#include <weft/cuda.h>\n#include <weft/weft.h>\n" + _DLPACK + _HELPERS_SOURCE,
        include_dirs=[include],
        library_dirs=[library],
        libraries=["weft"],
        extra_link_args=["-Wl,-rpath,$ORIGIN/native/lib"],
    )
    return ffi
