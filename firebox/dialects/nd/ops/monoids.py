"""The ways in which reductions and scans combine elements."""

from functools import lru_cache
from typing import Any

from firebox import dtypes
from firebox.dialects.nd.formula import Monoid
from firebox.dtypes import DType

Number = float | int | bool


def dtype_limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    bits = 8 * dtype.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def lowest(dtype: DType) -> Number:
    """The identity of max."""
    if dtype.is_bool:
        return False
    return float("-inf") if dtype.is_float else dtype_limits(dtype)[0]


def highest(dtype: DType) -> Number:
    """The identity of min."""
    if dtype.is_bool:
        return True
    return float("inf") if dtype.is_float else dtype_limits(dtype)[1]


@lru_cache(maxsize=256)
def monoid(name: str, dtype: DType) -> Monoid:
    """``sum``, ``prod``, ``max``, ``min``, ``any`` or ``all`` of elements of a type, in its compute type."""
    acc = dtype.compute
    method, init = {
        "sum": ("add", 0),
        "prod": ("mul", 1),
        "max": ("max", lowest(acc)),
        "min": ("min", highest(acc)),
        "any": ("or_", False),
        "all": ("and_", True),
    }[name]
    return Monoid(
        name=name,
        dtypes=(acc,),
        init=(init,),
        combine=lambda s, a, b: (getattr(s, method)(a[0], b[0]),),
        lift=lambda s, x: (x,),
        finish=lambda s, state: state,
    )


@lru_cache(maxsize=64)
def arg_monoid(name: str, dtype: DType) -> Monoid:
    """``argmax`` or ``argmin``: the index (i64) of the first extreme element; the first NaN wins, as in NumPy."""
    acc = dtype.compute
    greater = "gt" if name == "argmax" else "lt"

    def combine(s: Any, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        wins, ties = getattr(s, greater)(a[0], b[0]), s.eq(a[0], b[0])
        if acc.is_float:
            a_nan, b_nan = s.isnan(a[0]), s.isnan(b[0])
            wins = s.or_(wins, s.and_(a_nan, s.not_(b_nan)))
            ties = s.or_(ties, s.and_(a_nan, b_nan))
        first = s.or_(wins, s.and_(ties, s.lt(a[1], b[1])))
        return s.select(first, a[0], b[0]), s.select(first, a[1], b[1])

    return Monoid(
        name=name,
        dtypes=(acc, dtypes.i64),
        init=(lowest(acc) if name == "argmax" else highest(acc), dtype_limits(dtypes.i64)[1]),
        combine=combine,
        lift=lambda s, x, index: (x, index),
        finish=lambda s, state: (state[1],),
    )
