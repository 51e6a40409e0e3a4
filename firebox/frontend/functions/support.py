"""What the public functions share: operand checks, promotion, pairs of sizes, reductions of losses."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from firebox import dims
from firebox.dialects.nd.array import ArrayLike, normalize_axis
from firebox.dialects.nd.ops.contract_spec import infer_sizes, parse_spec
from firebox.dims import DimLike
from firebox.dtypes import DType, i64, result_type
from firebox.errors import DTypeError, ShapeError, UserError

A = TypeVar("A", bound=ArrayLike)
Reduction = Literal["mean", "sum", "none"]
F = TypeVar("F", bound=Callable[..., Any])
REDUCTIONS = ("mean", "sum", "none")


def one_node(function: F) -> F:
    """Decorator: a call of the function is recorded as one node, which the function's ops replace in a compile.

    The function is pure, its first argument is an array, and so is its result.
    """

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], ArrayLike):
            return args[0].as_one(function, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, recorded)


def as_float(x: A) -> A:
    """Integers and bools as floats (f32, unless `Device.configure` says otherwise), floats as they are."""
    return x._float()


def promote(op: str, a: A, b: Any) -> tuple[A, A]:
    """Both operands as arrays of their common type.

    Raises:
        DTypeError: an operand is not an array.
    """
    for operand in (a, b):
        if not isinstance(operand, ArrayLike):
            raise DTypeError("not an array", op=op, expected="two arrays", found=type(operand).__name__)
    dtype = result_type(a.dtype, b.dtype)
    return a.astype(dtype), b.astype(dtype)


def contract(a: A, b: A, spec: str, known: Mapping[str, DimLike] | None = None) -> A:
    """``nd.contract`` with the sizes of the operands; ``known`` has those of names that stand alone in neither."""
    return a.one("contract", a, b, spec=spec, sizes=infer_sizes(parse_spec(spec), a.shape, b.shape, known or {}))


def equals(x: A, value: Any) -> A:
    """``x == value`` element by element (mypy takes ``==`` on a type variable for a comparison of objects)."""
    return x.__eq__(value)


def stop_gradient(x: A) -> A:
    """The same values, as a constant of derivatives."""
    return x.one("stop_gradient", x)


def require_float(op: str, x: ArrayLike, what: str = "input") -> None:
    """Raises DTypeError unless ``x`` has a float type."""
    if not x.dtype.is_float:
        raise DTypeError(f"the {what} must be floating", op=op, expected="f16, bf16, f32 or f64", found=x.dtype.name)


def require_int(op: str, x: ArrayLike, what: str, hint: str = "") -> None:
    """Raises DTypeError unless ``x`` has an integer type."""
    if not x.dtype.is_int:
        raise DTypeError(f"the {what} must be integers", op=op, expected="an int type", found=x.dtype.name, hint=hint)


def require_rank(op: str, x: ArrayLike, rank: int, layout: str) -> None:
    """Raises ShapeError unless ``x`` has that rank; ``layout`` names its dims."""
    if x.rank != rank:
        raise ShapeError("wrong number of dims", op=op, expected=f"rank {rank}: {layout}", found=shape_text(x))


def require_same_shape(op: str, a: ArrayLike, b: ArrayLike) -> None:
    """Raises ShapeError unless the two shapes are provably equal; losses never broadcast."""
    if a.shape != b.shape:
        raise ShapeError(
            "input and target differ in shape",
            op=op,
            expected=shape_text(a),
            found=shape_text(b),
            hint="reshape or broadcast_to one of them",
        )


def differ(a: DimLike, b: DimLike) -> bool:
    """True when two dims are certainly different; an unprovable equality becomes a guard of the program."""
    difference = dims.multiply(-1, b) + a
    return isinstance(difference, int) and difference != 0


def shape_text(x: ArrayLike) -> str:
    """``(2, b, 8)``, as errors show it."""
    return f"({', '.join(map(str, x.shape))})"


def tuple_of(op: str, value: int | Sequence[int], count: int, what: str, minimum: int) -> tuple[int, ...]:
    """One integer for all spatial dims, or one for each.

    Raises:
        ShapeError: another count, or an integer below ``minimum``.
    """
    found = (value,) * count if isinstance(value, int) else tuple(value)
    if len(found) != count or any(v < minimum for v in found):
        raise ShapeError(f"bad {what}", op=op, expected=f"{count} integers >= {minimum}, or one", found=value)
    return found


def reduce_loss(op: str, losses: A, reduction: Reduction) -> A:
    """``mean`` or ``sum`` of all elements, or the losses themselves (``none``).

    Raises:
        UserError: another reduction.
    """
    check_reduction(op, reduction)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def check_reduction(op: str, reduction: str) -> None:
    """Raises UserError unless the reduction is one of mean, sum, none."""
    if reduction not in REDUCTIONS:
        raise UserError("no such reduction", op=op, expected=" or ".join(REDUCTIONS), found=repr(reduction))


def arange_like(x: A, size: DimLike, dtype: DType = i64) -> A:
    """``[0, 1, .., size)`` as an array of the same implementation as ``x``."""
    return x.one("iota", shape=(size,), axis=0, dtype=dtype)


def positions(x: A, axis: int, dtype: DType = i64) -> A:
    """``[0, 1, ..)`` along one axis of ``x``, of size 1 in every other."""
    at = normalize_axis(axis, x.rank)
    shape = tuple(d if k == at else 1 for k, d in enumerate(x.shape))
    return x.one("iota", shape=shape, axis=at, dtype=dtype)


def static_size(op: str, x: ArrayLike, axis: int) -> int:
    """The size of an axis.

    Raises:
        ShapeError: it is symbolic.
    """
    size = x.shape[normalize_axis(axis, x.rank)]
    if not isinstance(size, int):
        raise ShapeError("needs a size known when traced", op=op, expected="an integer", found=f"{size} at axis {axis}")
    return size
