"""Loading the state of a model: everything is checked first, then everything is set."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from firebox.errors import InputError, ShapeError
from firebox.frontend.cells import Cell
from firebox.frontend.nn import tree
from firebox.frontend.tensor import Tensor, as_tensor

_SHOWN = 8


def load_into(root: object, state: Mapping[str, Any], strict: bool) -> None:
    """Set the cells below ``root`` by path; see `Module.load_state_dict`."""
    names: dict[int, list[str]] = {}
    cells: dict[int, Cell] = {}
    for path, cell in tree.all_paths(root):
        names.setdefault(id(cell), []).append(path)
        cells[id(cell)] = cell
    found = {key: next((p for p in paths if p in state), None) for key, paths in names.items()}
    if strict:
        _check_names(names, found, state)
    pairs = [(path, cells[key], state[path]) for key, path in found.items() if path is not None]
    _check_shapes(pairs)
    for cell, value in [(cell, like(cell, value)) for _, cell, value in pairs]:
        cell.value = value


def like(cell: Tensor, value: Any) -> Tensor:
    """A value as a tensor of the type and on the device of a cell, free of derivatives."""
    return as_tensor(value, cell.device).detach().to(device=cell.device, dtype=cell.dtype)


def _check_names(names: dict[int, list[str]], found: dict[int, str | None], state: Mapping[str, Any]) -> None:
    missing = [names[key][0] for key, path in found.items() if path is None]
    known = {path for paths in names.values() for path in paths}
    unexpected = [path for path in state if path not in known]
    if missing or unexpected:
        kinds = (("missing", missing), ("unexpected", unexpected))
        parts = [f"{kind}: {listed(paths)}" for kind, paths in kinds if paths]
        raise InputError(
            "the state does not fit the model; nothing was loaded",
            op="load_state_dict",
            expected=f"{len(names)} entries, one for each parameter and buffer",
            found="; ".join(parts),
            hint="pass strict=False to load what fits by name",
        )


def _check_shapes(pairs: Iterable[tuple[str, Cell, Any]]) -> None:
    wrong = [
        f"{path}: expected {cell.shape}, found {shape_of(value)}"
        for path, cell, value in pairs
        if cell.shape != shape_of(value)
    ]
    if wrong:
        raise ShapeError("shapes do not fit; nothing was loaded", op="load_state_dict", found=listed(wrong, "; "))


def shape_of(value: Any) -> tuple[Any, ...]:
    """The shape of a tensor, an array, or nested lists."""
    return tuple(value.shape if hasattr(value, "shape") else np.shape(value))


def listed(items: list[str], separator: str = ", ") -> str:
    """The first few items, and how many more there are."""
    more = f"{separator}and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return separator.join(items[:_SHOWN]) + more
