"""The types of elements, by the names that weft.h, numpy, ml_dtypes and torch give them."""

from __future__ import annotations

from typing import Optional

from weft._weft import lib

_NAMES = (
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e4m3 float8_e5m2 float16 bfloat16 float32 float64"
    " complex64 complex128 bool"
).split()

# By Weft's own name, the number in weft.h.
CODES: dict[str, int] = {name: getattr(lib, "WEFT_" + name.upper()) for name in _NAMES}
NAMES: dict[int, str] = {code: name for name, code in CODES.items()}
SIZES: dict[int, int] = {code: lib.weft_dtype_size(code) for code in NAMES}

# What arrays call otherwise.  NCCL's and Weft's float8_e4m3 has no infinities; arrays say "fn" for that, and mean
# another format where they do not.
_OTHER_NAMES: dict[str, Optional[str]] = {"float8_e4m3fn": "float8_e4m3", "float8_e4m3": None}

REDUCTIONS: dict[str, int] = {
    name: getattr(lib, "WEFT_" + name.upper())
    for name in ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "premul_sum")
}

# By the buffer protocol's letter and the size of an item: native C types differ in size between machines.
_SIGNED, _UNSIGNED = "bhilqn", "BHILQN"
_FLOATS = {("e", 2): "float16", ("f", 4): "float32", ("d", 8): "float64"}
_COMPLEX = {("Zf", 8): "complex64", ("Zd", 16): "complex128", ("F", 8): "complex64", ("D", 16): "complex128"}

_INTEGERS_BY_SIZE = {1: "b", 2: "h", 4: "i", 8: "q"}

# DLPack's codes of types, with their bits.
_DLPACK = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    **{(5, bits): f"complex{bits}" for bits in (64, 128)},
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3",
    (12, 8): "float8_e5m2",
}


def from_name(name: str) -> Optional[int]:
    """The type called `name` by numpy, ml_dtypes or torch ("torch.bfloat16"); None if Weft has none of that name."""
    name = name.rsplit(".", 1)[-1]
    own = _OTHER_NAMES.get(name, name)
    return CODES.get(own) if own else None


def from_format(letter: str, size: int) -> Optional[int]:
    """The type of an item in the buffer protocol's words; None if Weft has none such."""
    letter = _without_order(letter)
    if letter == "?":
        return CODES["bool"]
    if letter == "c" and size == 1:
        return CODES["uint8"]
    if letter and letter in _SIGNED:
        return CODES.get(f"int{size * 8}")
    if letter and letter in _UNSIGNED:
        return CODES.get(f"uint{size * 8}")
    found = _FLOATS.get((letter, size)) or _COMPLEX.get((letter, size))
    return CODES[found] if found else None


def native_letter(letter: str, size: int) -> str:
    """As memoryview.cast takes the letter of an item: without an order, and of a C type that has this size."""
    letter = _without_order(letter)
    if letter and letter in _SIGNED:
        return _INTEGERS_BY_SIZE[size]
    if letter and letter in _UNSIGNED:
        return _INTEGERS_BY_SIZE[size].upper()
    return letter


# This machine's order is "<", or is not said.
def _without_order(letter: str) -> str:
    return letter[1:] if letter[:1] in "@=<" else letter


def from_typestr(typestr: str) -> Optional[int]:
    """The type in the words of __array_interface__ and __cuda_array_interface__: "<f4"; None if Weft has none such."""
    order, kind, size = typestr[:1], typestr[1:2], typestr[2:]
    if order not in "<|=" or not size.isdigit():
        return None
    if kind == "b":
        return CODES["bool"]
    kinds = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
    return CODES.get(f"{kinds.get(kind, '')}{int(size) * 8}")


def from_dlpack(code: int, bits: int, lanes: int) -> Optional[int]:
    """The type in DLPack's words; None if Weft has none such."""
    name = _DLPACK.get((code, bits)) if lanes == 1 else None
    return CODES[name] if name else None


def reduction(op: str) -> int:
    """The number of a reduction by its name.  ValueError for another name."""
    found = REDUCTIONS.get(op)
    if found is None:
        raise ValueError(f"{op!r} is no reduction; there are: {', '.join(REDUCTIONS)}")
    return found
