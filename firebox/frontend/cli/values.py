"""Values on the command line: ``--input NAME=VALUE`` to arrays, arrays to files and to JSON."""

import json
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError, InputError
from firebox.frontend.cli.main import UsageError
from firebox.runtime.session import of_type
from firebox.signature import TensorSpec

Array = NDArray[Any]

FORMS = "@file.npy, f32[4,8] (random), f32[4,8]=0 (filled), or a JSON number or list"
_TYPED = re.compile(r"(\w+)\[([\d,\s]*)\](?:=(.+))?")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_MAX_ELEMENTS = 1 << 34


def assignments(texts: Sequence[str], specs: Sequence[TensorSpec], option: str) -> dict[str, str]:
    """Split ``NAME=VALUE`` texts; the name may be left out where there is only one.

    Raises:
        UsageError: no name, or one that is given twice, or of no output. InputError: a name of no input.
    """
    found: dict[str, str] = {}
    names = [spec.name for spec in specs]
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in names:
            known = ", ".join(names) or "none"
            if sign and _NAME.fullmatch(name):
                kind = InputError if option == "--input" else UsageError
                raise kind("no such name", op=f"{option} {name}", expected=f"one of: {known}", found=text)
            if len(names) != 1:
                raise UsageError(f"not NAME=VALUE with one of these names: {known}", op=option, found=text)
            name, value = names[0], text
        if name in found:
            raise UsageError("given twice", op=f"{option} {name}")
        found[name] = value
    return found


def read(spec: TensorSpec, text: str, seed: int) -> Array:
    """The array that a value stands for.

    Raises:
        UsageError: none of the forms. InputError: the file holds no array, or the numbers do not fit the element type.
        OSError: the file cannot be read.
    """
    if text.startswith("@"):
        return read_file(text[1:], spec.dtype)
    match = _TYPED.fullmatch(text.strip())
    if match is not None:
        return _made(spec, match[1], match[2], match[3], seed)
    try:
        value = np.asarray(json.loads(text))
        if value.dtype.kind in "OUS":
            raise ValueError(text)
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"not a value: write {FORMS}", op=f"input {spec.name}", found=text[:80]) from None
    return of_type(spec, value)


def read_file(path: str, dtype: DType) -> Array:
    """The array in an ``.npy`` file; never unpickles. bf16 is saved as raw bytes, which `dtype` gives their type back.

    Raises:
        InputError: the file holds no array. OSError: it cannot be read.
    """
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise InputError(f"not a NumPy array file: {error}", op=path) from None
    if not isinstance(array, np.ndarray):
        raise InputError("an archive of arrays; a single .npy file is expected", op=path)
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype.numpy)
    return array


def write_file(path: str, array: Array) -> None:
    """Save an array as ``.npy`` at exactly this path."""
    with Path(path.removeprefix("@")).open("wb") as file:
        np.save(file, array, allow_pickle=False)


def to_json(array: Array) -> Any:
    """Nested lists; what JSON has no number for becomes the text ``nan``, ``inf`` or ``-inf``."""
    return _plain(array.astype(np.float64).tolist() if array.dtype.kind == "V" else array.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _made(spec: TensorSpec, dtype_text: str, shape_text: str, fill: str | None, seed: int) -> Array:
    op = f"input {spec.name}"
    try:
        dtype = as_dtype(dtype_text)
    except DTypeError as error:
        raise UsageError(f"no such element type: {dtype_text}", op=op, expected=error.expected) from None
    sizes = [size.strip() for size in shape_text.split(",")] if shape_text.strip() else []
    if not all(sizes):
        raise UsageError("not a shape", op=op, found=f"[{shape_text}]")
    shape = tuple(map(int, sizes))
    if math.prod(shape) > _MAX_ELEMENTS:
        raise UsageError("too large", op=op, expected=f"at most {_MAX_ELEMENTS} elements", found=math.prod(shape))
    if fill is None:
        return _random(dtype, shape, np.random.default_rng([seed, zlib.crc32(spec.name.encode())]))
    try:
        return np.full(shape, json.loads(fill), dtype.numpy)
    except (ValueError, TypeError, OverflowError):
        raise UsageError("not a number to fill with", op=op, found=fill) from None


def _random(dtype: DType, shape: tuple[int, ...], rng: "np.random.Generator") -> Array:
    """Normal floats, integers from 0 to 9, bools."""
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.is_bool else 10, shape).astype(dtype.numpy)
