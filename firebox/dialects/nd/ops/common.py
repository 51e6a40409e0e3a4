"""What the op families share: type rules, broadcasting of shapes, batching and evaluation in the compute type."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, NdOp
from firebox.dims import DimLike
from firebox.dtypes import DType, as_dtype
from firebox.errors import CompilerError, DTypeError, IndexRangeError, ShapeError

Arrays = Sequence[ArrayLike]
Grads = Sequence[ArrayLike | None]

BOOL = frozenset((dtypes.bool_,))
FLOAT = frozenset(dtypes.FLOATS)
INT = frozenset(dtypes.INTS)
NUMBER = FLOAT | INT
BITS = INT | BOOL
ANY = NUMBER | BOOL


def short_name(cls: type[NdOp]) -> str:
    """The op's name in messages: without its dialect."""
    return cls.name.partition(".")[2]


def dtype_list(accepted: Collection[DType]) -> str:
    """Element types in their usual order, for messages."""
    return ", ".join(d.name for d in dtypes.ALL if d in accepted)


# ---- type rules --------------------------------------------------------------------------------------------------


def check_dtype(cls: type[NdOp], aval: Aval, accepted: frozenset[DType]) -> None:
    """Refuse element types outside ``accepted``.

    Raises:
        DTypeError: names the op, the types it takes and the one found.
    """
    if aval.dtype not in accepted:
        expected = f"one of {dtype_list(accepted)}"
        raise DTypeError(
            "element type not accepted",
            op=short_name(cls),
            expected=expected,
            found=aval.dtype.name,
            hint="cast with astype",
        )


def check_same_dtype(cls: type[NdOp], a: Aval, b: Aval) -> None:
    """Refuse operands of different element types: promotion is the caller's.

    Raises:
        DTypeError: names both types.
    """
    if a.dtype is not b.dtype:
        found = f"{a.dtype.name} and {b.dtype.name}"
        raise DTypeError(
            "operands differ in element type",
            op=short_name(cls),
            expected="equal types",
            found=found,
            hint="cast with astype",
        )


def check_axes(cls: type[NdOp], axes: Sequence[int], rank: int) -> None:
    """Refuse axes that are out of range or repeated; at this level they are never negative.

    Raises:
        IndexRangeError, ShapeError: names the op and the axis.
    """
    for axis in axes:
        if not 0 <= axis < rank:
            raise IndexRangeError("axis out of range", op=short_name(cls), expected=f"0 <= axis < {rank}", found=axis)
    if len(set(axes)) != len(axes):
        raise ShapeError("an axis is named twice", op=short_name(cls), found=tuple(axes))


def check_count(cls: type[NdOp], what: str, values: Sequence[object], expected: int) -> None:
    """Refuse a parameter list of the wrong length.

    Raises:
        ShapeError: names the op and the parameter.
    """
    if len(values) != expected:
        raise ShapeError(
            f"wrong number of entries in '{what}'",
            op=short_name(cls),
            expected=expected,
            found=f"{len(values)}: {values}",
        )


def shape_text(shape: Shape) -> str:
    """A shape in messages: ``(2, n)``."""
    return f"({', '.join(map(str, shape))})"


def broadcast_shapes(cls: type[NdOp], *shapes: Shape) -> Shape:
    """The shape that arrays of these shapes broadcast to, as in NumPy; equal normal forms are equal dims.

    Raises:
        ShapeError: names the op, the shapes and the dim that does not fit.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    found = _broadcast(shapes)
    if isinstance(found, int):
        text = " and ".join(map(shape_text, shapes))
        raise ShapeError(
            "shapes do not broadcast",
            op=short_name(cls),
            expected="sizes that are equal or 1, from the last dim on",
            found=f"{text}, differing at dim {found}",
            hint="insert a dim with expand_dims, or reshape",
        )
    return found


@lru_cache(maxsize=16384)
def _broadcast(shapes: tuple[Shape, ...]) -> Shape | int:
    """The broadcast shape, or the (negative) dim at which there is none."""
    rank = max(map(len, shapes))
    out: list[DimLike] = []
    for k in range(-rank, 0):
        size: DimLike = 1
        for shape in shapes:
            other = shape[k] if -k <= len(shape) else 1
            if other != 1 and size != 1 and other != size:
                return k
            size = other if size == 1 else size
        out.append(size)
    return tuple(out)


def static_shape(shape: Sequence[DimLike]) -> tuple[int, ...]:
    """The shape as numbers.

    Raises:
        UserError: a dim has no value.
    """
    return tuple(dims.evaluate(d, {}) for d in shape)


# ---- evaluation --------------------------------------------------------------------------------------------------


def computed(function: Callable[..., Any], *arrays: Array) -> Any:
    """Apply a NumPy function in the compute type (f32 for f16 and bf16) and round the result to the arrays' type."""
    dtype = arrays[0].dtype
    compute = as_dtype(dtype).compute.numpy
    if compute == dtype:
        return function(*arrays)
    return function(*(a.astype(compute) for a in arrays)).astype(dtype)


def widened(array: Array) -> Array:
    """The array in its compute type."""
    return array.astype(as_dtype(array.dtype).compute.numpy)


# ---- batching ----------------------------------------------------------------------------------------------------


def batch_size(operands: Arrays, batched: Sequence[bool]) -> DimLike:
    """The size of the new leading axis."""
    for operand, is_batched in zip(operands, batched, strict=True):
        if is_batched:
            return operand.shape[0]
    raise CompilerError("batching without a batched operand")


def aligned(operands: Arrays, batched: Sequence[bool]) -> list[ArrayLike]:
    """Operands of an element-wise op such that the batch axis leads and all other dims broadcast as before."""
    rank = max(o.rank - b for o, b in zip(operands, batched, strict=True))
    result = []
    for operand, is_batched in zip(operands, batched, strict=True):
        missing = rank - operand.rank + 1 if is_batched else 0
        shape = (operand.shape[0], *(1,) * missing, *operand.shape[1:]) if missing else operand.shape
        result.append(operand.reshape(shape))
    return result


def spread(operand: ArrayLike, is_batched: bool, size: DimLike) -> ArrayLike:
    """The operand with the batch axis in front, repeated there if it had none."""
    return operand if is_batched else operand.broadcast_to((size, *operand.shape))


def same_rank(operand: ArrayLike, is_batched: bool) -> ArrayLike:
    """The operand with a leading batch axis, of size 1 if it had none."""
    return operand if is_batched else operand.expand_dims(0)


def cannot_batch(cls: type[NdOp]) -> CompilerError:
    """The error of ops without operands."""
    return CompilerError("an op without operands has nothing to batch", op=short_name(cls))
