"""States in safetensors files: dotted paths to arrays. Nothing in such a file is ever executed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from firebox.dtypes import as_dtype
from firebox.errors import InputError, UserError

Array = npt.NDArray[Any]

_NAMES = {
    "BOOL": "bool", "I8": "i8", "I16": "i16", "I32": "i32", "I64": "i64", "U8": "u8", "U16": "u16", "U32": "u32",
    "U64": "u64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64",
}  # fmt: skip


def save(state: Any, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write a module's or optimizer's state, or a mapping of names to tensors or arrays.

    The file appears whole or not at all: it is written beside its place and then renamed. The same state gives the same
    bytes.

    Raises:
        UserError: safetensors is not installed, or the state is empty or no mapping.
    """
    named = state.state_dict() if hasattr(state, "state_dict") else state
    if not isinstance(named, Mapping):
        raise UserError("nothing to save", op="save", expected="a module, an optimizer or a mapping", found=type(state))
    arrays = {str(name): np.asarray(value, order="C") for name, value in named.items()}
    data = _library().numpy.save({name: _little(array) for name, array in arrays.items()}, dict(metadata or {}) or None)
    target = Path(path)
    scratch = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        scratch.write_bytes(data)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a file by name, read-only.

    Raises:
        InputError: it cannot be read, is no safetensors file, or has an element type that tensors do not have.
        UserError: safetensors is not installed.
    """
    library = _library()
    try:
        entries = library.deserialize(Path(path).read_bytes())
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(why, op="load", found=str(path)) from None
    except library.SafetensorError as error:
        raise InputError("not a safetensors file", op="load", found=f"{path}: {error}") from None
    return {name: _array(name, entry) for name, entry in sorted(entries, key=lambda pair: cast(str, pair[0]))}


def _array(name: str, entry: Mapping[str, Any]) -> Array:
    kind = entry["dtype"]
    if kind not in _NAMES:
        raise InputError("no such element type", op="load", expected=", ".join(_NAMES), found=f"'{name}': {kind}")
    return np.frombuffer(entry["data"], as_dtype(_NAMES[kind]).numpy).reshape(entry["shape"])


def _little(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.byteorder == ">" else array


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy  # here, because it is optional (the extra "records")
    except ImportError as error:
        hint = "pip install 'firebox[records]'"
        raise UserError("safetensors is not installed", op="record", hint=hint) from error
    return safetensors
