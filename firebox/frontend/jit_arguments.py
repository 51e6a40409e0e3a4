"""The leaves of a compiled function's arguments: which are data, what they are traced as, and what fits what."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from firebox import dims
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dims import Dim, DimLike
from firebox.frontend.devices import place
from firebox.frontend.jit_trace import Scalar
from firebox.frontend.tensor import Tensor, as_tensor
from firebox.frontend.values import static_shape
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer
from firebox.signature import TensorSpec


class Static:
    """An argument that is no data, compared by value where it can be hashed, else by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def _key(self) -> Any:
        try:
            hash(self.value)
        except TypeError:
            return id(self.value)
        return self.value

    def __hash__(self) -> int:
        return hash((type(self.value), self._key()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or bool(self._key() == other._key())


def leaf_of(value: Any) -> Any:
    """A leaf as a tensor, a Python number, a spec, or something static."""
    if isinstance(value, Tensor):
        return value if type(value) is Tensor else as_tensor(value)
    if isinstance(value, np.ndarray | np.generic):
        return as_tensor(value)
    if isinstance(value, bool | int | float | TensorSpec | Static):
        return value
    return Static(value)


def kind_of(leaf: Any) -> Any:
    """What must be equal for two leaves to share a group."""
    if isinstance(leaf, Tensor):
        return leaf.dtype, leaf.rank
    return leaf if isinstance(leaf, Static) else type(leaf)


def type_of(leaf: Any) -> Any:
    """What a leaf is traced as when nothing about it may vary."""
    if isinstance(leaf, Tensor):
        return leaf.aval
    if isinstance(leaf, TensorSpec):
        return Aval(leaf.dtype, leaf.shape)
    return leaf if isinstance(leaf, Static) else Scalar(type(leaf), leaf)


def is_input(known: Any) -> bool:
    """Whether a leaf is a Python number that is not compiled in."""
    return isinstance(known, Scalar) and known.value is None


def number_buffer(value: bool | int | float, device: Device) -> Buffer:
    """A Python number as an input of a program."""
    kind = np.bool_ if isinstance(value, bool) else np.int64 if isinstance(value, int) else np.float64
    return place(np.asarray(value, kind), device)


def unify(wanted: Sequence[Any], dim_names: Sequence[str], leaves: Sequence[Any]) -> list[int] | None:
    """The values of the dims for leaves that were wanted like this; None where they do not fit."""
    env: dict[str, int] = {}
    for known, leaf in zip(wanted, leaves, strict=True):
        if isinstance(known, Scalar):
            if known.value is not None and repr(known.value) != repr(leaf):
                return None
        elif isinstance(known, Aval):
            for expected, size in zip(known.shape, leaf.shape, strict=True):
                if isinstance(expected, int):
                    if expected != size:
                        return None
                elif size < 2 or env.setdefault(str(expected), size) != size:
                    return None
    return [env[name] for name in dim_names]


def merge(old: Any, new: Any, names: dict[tuple[DimLike, int], str]) -> Any:
    """What fits both an earlier leaf and this one."""
    if isinstance(new, Scalar):
        return new if repr(old.value) == repr(new.value) else Scalar(new.kind, None)
    if not isinstance(new, Aval):
        return new
    sizes = zip(old.shape, static_shape(new), strict=True)
    return Aval(new.dtype, tuple(_merged_size(a, b, names) for a, b in sizes))


def _merged_size(old: DimLike, new: int, names: dict[tuple[DimLike, int], str]) -> DimLike:
    """Sizes that were equal before and are equal now are one dim."""
    if old == new or new < 2 or (isinstance(old, int) and old < 2):
        return new
    name = names.get((old, new))
    if name is None:
        taken = names.values()
        fresh = (f"size{k}" for k in itertools.count() if f"size{k}" not in taken)
        name = names[(old, new)] = str(old) if isinstance(old, Dim) and str(old) not in taken else next(fresh)
    return dims.dim(name)


def with_names(shape: Shape, names: Any) -> Shape:
    """The shape with names for some of its sizes: a name or None for each, or a dict by axis."""
    chosen = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))
    return tuple(dims.dim(chosen[k]) if chosen.get(k) else d for k, d in enumerate(shape))
