"""Products: matmul, dot, outer, tensordot and norms; all are `nd.contract` underneath."""

from collections.abc import Sequence

from firebox.dialects.nd.array import Axes, normalize_axis
from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend.functions.support import A, as_float, contract, differ, equals, one_node, promote, shape_text


def matmul(a: A, b: A) -> A:
    """Matrix product with NumPy's rules: 1-D operands are vectors, leading dims are batch dims and broadcast.

    Batch dims of size 1 are read in place, so that nothing is copied to broadcast.

    Raises:
        ShapeError: a 0-d operand, or inner or batch dims that do not fit.
        DTypeError: an operand is not an array.
    """
    a, b = promote("matmul", a, b)
    if a.rank == 0 or b.rank == 0:
        raise ShapeError("needs at least 1-D operands", op="matmul", found=_shapes(a, b), hint="use * to scale")
    inner_b = b.shape[0] if b.rank == 1 else b.shape[-2]
    if differ(a.shape[-1], inner_b):
        _inner_mismatch(a, b, inner_b)
    batch_a, batch_b = _batch_names(a, b)
    left, a_names = _drop_broadcast(a, batch_a)
    right, b_names = _drop_broadcast(b, batch_b)
    row, column = ["m"] * (a.rank > 1), ["n"] * (b.rank > 1)
    batch = max(batch_a, batch_b, key=len)
    kept = [name for name in batch if name in a_names or name in b_names]
    spec = f"{_join(a_names, row, ['k'])}, {_join(b_names, ['k'], column)} -> {_join(kept, row, column)}"
    result = contract(left, right, spec)
    return result if kept == batch else result.reshape(_batch_shape(a, b) + result.shape[len(kept) :])


def _inner_mismatch(a: A, b: A, inner_b: DimLike) -> None:
    fits = b.rank > 1 and b.shape[-1] == a.shape[-1]
    raise ShapeError(
        "the inner dims differ",
        op="matmul",
        expected=f"{a.shape[-1]} rows in the second operand, as many as columns in the first",
        found=f"{_shapes(a, b)}: {a.shape[-1]} and {inner_b}",
        hint="transpose the second operand: a @ b.T" if fits else "",
    )


def _shapes(a: A, b: A) -> str:
    return f"{shape_text(a)} @ {shape_text(b)}"


def _batch_names(a: A, b: A) -> tuple[list[str], list[str]]:
    """Names of the leading dims of each operand, counted from the right."""
    count_a, count_b = max(a.rank - 2, 0), max(b.rank - 2, 0)
    count = max(count_a, count_b)
    names = [f"b{k}" for k in range(count)]
    for k in range(1, min(count_a, count_b) + 1):
        size_a, size_b = a.shape[count_a - k], b.shape[count_b - k]
        if size_a != 1 and size_b != 1 and differ(size_a, size_b):
            raise ShapeError(
                "the batch dims do not broadcast",
                op="matmul",
                expected="equal sizes, or 1",
                found=f"{_shapes(a, b)}: {size_a} and {size_b}",
            )
    return names[count - count_a :], names[count - count_b :]


def _drop_broadcast(x: A, names: Sequence[str]) -> tuple[A, list[str]]:
    """Without the batch dims of size 1: a name that an operand lacks is broadcast."""
    keep = [k for k in range(len(names)) if x.shape[k] != 1]
    shape = tuple(x.shape[k] for k in keep) + x.shape[len(names) :]
    return x.reshape(shape), [names[k] for k in keep]


def _batch_shape(a: A, b: A) -> tuple[DimLike, ...]:
    """The broadcast batch shape."""
    batch_a, batch_b = a.shape[: max(a.rank - 2, 0)], b.shape[: max(b.rank - 2, 0)]
    long, short = (batch_a, batch_b) if len(batch_a) >= len(batch_b) else (batch_b, batch_a)
    padded = (1,) * (len(long) - len(short)) + short
    return tuple(s if d == 1 else d for d, s in zip(long, padded, strict=True))


def _join(*parts: Sequence[str]) -> str:
    return " ".join(name for part in parts for name in part)


def vecdot(a: A, b: A, axis: int = -1) -> A:
    """Sum of products along one axis, in the operands' type; the other dims broadcast (array API ``vecdot``).

    Raises:
        ShapeError: the axis has two sizes.
    """
    a, b = promote("vecdot", a, b)
    sizes = [x.shape[normalize_axis(axis, x.rank)] for x in (a, b)]
    if differ(*sizes):
        raise ShapeError("the vectors differ in size", op="vecdot", expected=sizes[0], found=sizes[1])
    return (a * b).sum(axis).astype(a.dtype)


def dot(a: A, b: A) -> A:
    """Product of two vectors, or of two matrices.

    Raises:
        ShapeError: another rank (NumPy's rules for those surprise; use matmul or einsum), or sizes that differ.
    """
    if not (a.rank == b.rank and a.rank in (1, 2)):
        hint = "use matmul or einsum"
        raise ShapeError("takes two vectors or two matrices", op="dot", found=_shapes(a, b), hint=hint)
    return matmul(a, b)


def outer(a: A, b: A) -> A:
    """``out[i, j] = a[i] * b[j]`` of the flattened operands."""
    a, b = promote("outer", a, b)
    return a.reshape((-1, 1)) * b.reshape((1, -1))


def tensordot(a: A, b: A, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> A:
    """Sum of products over the last ``axes`` dims of a and the first of b, or over two lists of axes.

    Raises:
        ShapeError: lists of different lengths, or dims that differ.
    """
    a, b = promote("tensordot", a, b)
    if isinstance(axes, int):
        axes = (range(a.rank - axes, a.rank), range(axes))
    of_a, of_b = ([normalize_axis(k, x.rank) for k in given] for x, given in zip((a, b), axes, strict=True))
    if len(of_a) != len(of_b):
        raise ShapeError("as many axes of a as of b", op="tensordot", expected=len(of_a), found=len(of_b))
    names_a, names_b = [f"a{k}" for k in range(a.rank)], [f"b{k}" for k in range(b.rank)]
    for at_a, at_b in zip(of_a, of_b, strict=True):
        if differ(a.shape[at_a], b.shape[at_b]):
            raise ShapeError("summed dims differ", op="tensordot", expected=a.shape[at_a], found=b.shape[at_b])
        names_b[at_b] = names_a[at_a]
    result = [n for k, n in enumerate(names_a) if k not in of_a] + [n for k, n in enumerate(names_b) if k not in of_b]
    return contract(a, b, f"{_join(names_a)}, {_join(names_b)} -> {_join(result)}")


def norm(x: A, order: float = 2.0, axis: Axes = None, keepdims: bool = False) -> A:
    """Vector norm ``(sum |x|^order)^(1/order)``; inf is the largest, -inf the smallest magnitude, 0 counts nonzeros.

    The gradient of the 2-norm of zeros is 0.
    """
    x = as_float(x)
    if order == 2:
        return _safe_root((x * x).sum(axis, keepdims))
    if order == 1:
        return x.abs().sum(axis, keepdims)
    if order == 0:
        return equals(x, 0).where(0.0, 1.0).astype(x.dtype).sum(axis, keepdims)
    if order in (float("inf"), float("-inf")):
        return x.abs().max(axis, keepdims) if order > 0 else x.abs().min(axis, keepdims)
    total = (x.abs() ** order).sum(axis, keepdims)
    zero = equals(total, 0)  # the root's slope there is infinite, the gradient of the norm is 0
    return zero.where(0.0 if order > 0 else float("inf"), zero.where(1.0, total) ** (1.0 / order))


def _safe_root(x: A) -> A:
    """Square root whose gradient at 0 is 0."""
    zero = equals(x, 0)
    return zero.where(0.0, zero.where(1.0, x).sqrt())


@one_node
def linear(x: A, weight: A, bias: A | None = None) -> A:
    """``x @ weight.T + bias`` over the last dim of x; ``weight`` is (out, in).

    Raises:
        ShapeError: the last dim of x is not that of the weight.
    """
    x, weight = promote("linear", x, weight)
    if x.rank == 0 or weight.rank != 2 or differ(x.shape[-1], weight.shape[1]):
        raise ShapeError(
            "the last dim of the input is not that of the weight",
            op="linear",
            expected=f"(.., {weight.shape[-1]}) for a weight (out, in) = {shape_text(weight)}",
            found=shape_text(x),
        )
    batch = [f"b{k}" for k in range(x.rank - 1)]
    result = contract(x, weight, f"{_join(batch, ['k'])}, n k -> {_join(batch, ['n'])}")
    return result if bias is None else result + bias
