"""`Formula`: what an op computes for one element, and where it reads; the only thing kernel generators know of an op.

Loop variables are names in index expressions: ``i0, i1, ...`` run over the result's shape, ``r0, r1, ...`` over the
reduced extents, and ``v0, v1, ...`` stand for the (integer) value of an earlier read of the same formula.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from firebox.dialects.nd.aval import Aval, Shape
from firebox.dims import DimLike, dim
from firebox.dtypes import DType


class ScalarBuilder(Protocol):
    """What the scalar part of a formula may use; typed by the dtype each value carries.

    Implemented by the kernel builder (any vector width) and, for tests, by NumPy. Values are opaque to formulas.
    """

    def const(self, value: float | int | bool, dtype: DType) -> Any: ...
    def index(self, expression: DimLike) -> Any: ...
    def cast(self, x: Any, dtype: DType) -> Any: ...
    def select(self, condition: Any, a: Any, b: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...


Scalar = Callable[..., Any]


@dataclass(frozen=True)
class Guard:
    """Holds when ``0 <= expression < size``; with ``divisor`` also ``multiple % divisor == 0``."""

    expression: DimLike
    size: DimLike
    multiple: DimLike = 0
    divisor: int = 1


@dataclass(frozen=True)
class Read:
    """One element of an operand: an index expression per dim; outside the guards the value is ``fill``."""

    operand: int
    index: tuple[DimLike, ...]
    guards: tuple[Guard, ...] = ()
    fill: float | int | bool = 0


@dataclass(frozen=True)
class Monoid:
    """How reduced values combine; state is a tuple, so that argmax and Welford fit.

    Attributes:
        name: for schedules and dumps.
        dtypes: element type of each part of the state.
        init: the identity, one number per part.
        combine: ``combine(s, state, state) -> state``; associative, and commutative unless it is a scan's, which gets
            the state of the lower indices first.
        lift: ``lift(s, *scalar values) -> state`` of one element.
        finish: ``finish(s, state) -> results``.
    """

    name: str
    dtypes: tuple[DType, ...]
    init: tuple[float | int | bool, ...]
    combine: Callable[..., tuple[Any, ...]]
    lift: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Formula:
    """One element of each result.

    Attributes:
        extents: loop extents of ``i*``: the shape of the results.
        reads: what `scalar` receives, in order.
        scalar: ``scalar(s, *values)`` -> value, or a tuple for several results.
        reduced: loop extents of ``r*``; empty for a map.
        monoid: how the scalar values combine over ``r*``; None for a map.
    """

    extents: Shape
    reads: tuple[Read, ...]
    scalar: Scalar
    reduced: Shape = ()
    monoid: Monoid | None = None


def loop_names(prefix: str, count: int) -> tuple[DimLike, ...]:
    """``(i0, i1, ...)`` as expressions."""
    return tuple(dim(f"{prefix}{k}") for k in range(count))


def broadcast_read(operand: int, shape: Shape, out: Shape) -> Read:
    """The read of an operand that broadcasts to ``out`` as NumPy does: missing and size-1 dims are read at 0."""
    offset = len(out) - len(shape)
    index = tuple(0 if d == 1 and out[k + offset] != 1 else dim(f"i{k + offset}") for k, d in enumerate(shape))
    return Read(operand, index)


def elementwise(operands: Sequence[Aval], out: Shape, scalar: Scalar) -> Formula:
    """A map over ``out`` with every operand broadcast."""
    reads = tuple(broadcast_read(k, a.shape, out) for k, a in enumerate(operands))
    return Formula(out, reads, scalar)
