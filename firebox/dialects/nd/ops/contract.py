"""`nd.contract`, the only contraction: matrix products, convolutions and all their gradients are specs of it."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    NUMBER,
    Arrays,
    Grads,
    batch_size,
    check_dtype,
    check_same_dtype,
    computed,
    shape_text,
    static_shape,
)
from firebox.dialects.nd.ops.contract_spec import (
    ContractSpec,
    Index,
    conv_spec,
    conv_transpose_spec,
    infer_sizes,
    matmul_spec,
    operand_read,
    parse_spec,
    transpose_spec,
)
from firebox.dialects.nd.ops.monoids import monoid
from firebox.dialects.nd.params import DIMS, TEXT
from firebox.dims import DimLike
from firebox.errors import ShapeError


@register
class Contract(NdOp):
    """Sums of products over loop names; see `contract_spec` for the language of ``spec``.

    ``sizes`` are the extents of all loop names in order of first appearance. f16 and bf16 add up in f32, integers wrap.
    """

    name = "nd.contract"
    kind = Kind.CONTRACT
    arity = 2
    params = {"spec": TEXT, "sizes": DIMS}

    @classmethod
    def infer(cls, lhs: Aval, rhs: Aval, spec: str, sizes: Shape) -> Aval:
        check_same_dtype(cls, lhs, rhs)
        check_dtype(cls, lhs, NUMBER)
        return Aval(lhs.dtype, _result_shape(spec, sizes, lhs.shape, rhs.shape))

    @classmethod
    def evaluate(cls, lhs: Array, rhs: Array, spec: str, sizes: Shape) -> Array:
        parsed = parse_spec(spec)
        extents = dict(zip(parsed.names, static_shape(sizes), strict=True))
        result: Array = computed(lambda a, b: _sum_of_products(parsed, extents, a, b), lhs, rhs)
        return result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], spec: str, sizes: Shape) -> Formula:
        parsed = parse_spec(spec)
        extents = named_sizes(parsed, sizes)
        loops = dict(zip(parsed.out, loop_names("i", len(parsed.out)), strict=True))
        loops.update(zip(parsed.reduced, loop_names("r", len(parsed.reduced)), strict=True))
        reads = tuple(
            operand_read(k, term, aval.shape, loops, extents)
            for k, (term, aval) in enumerate(zip(parsed.operands, avals, strict=True))
        )
        reduced = tuple(extents[name] for name in parsed.reduced)
        return Formula(results[0].shape, reads, lambda s, a, b: s.mul(a, b), reduced, monoid("sum", avals[0].dtype))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, spec: str, sizes: Shape) -> Grads:
        parsed = parse_spec(spec)
        grads: list[ArrayLike | None] = []
        for side, operand in enumerate(operands):
            transposed = transpose_spec(parsed, side, operand.shape, sizes)
            pair = (cts[0], operands[1]) if side == 0 else (operands[0], cts[0])
            grads.append(operand.one("contract", *pair, spec=str(transposed.spec), sizes=transposed.sizes))
        return grads

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], spec: str, sizes: Shape) -> ArrayLike:
        parsed = parse_spec(spec)
        extents: dict[str, DimLike] = dict(named_sizes(parsed, sizes))
        name = "z"
        while name in extents:
            name += "z"
        extents[name] = batch_size(operands, batched)
        front = Index(((name, 1),))
        lhs, rhs = ((front, *term) if b else term for term, b in zip(parsed.operands, batched, strict=True))
        wider = ContractSpec(lhs, rhs, (name, *parsed.out))
        return operands[0].one("contract", *operands, spec=str(wider), sizes=tuple(extents[n] for n in wider.names))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(NUMBER):
            yield _sample(rng, dtype, (3, 4), (4, 2), matmul_spec(2, 2))
        for lhs, rhs, spec, known in _CASES:
            yield _sample(rng, dtypes.f64, lhs, rhs, spec, known)
        for dtype in (dtypes.i32, dtypes.bf16):
            yield _sample(rng, dtype, (1, 2, 5), (3, 2, 3), conv_spec((2,), (1,), (1,)), {"y0": 3})

    @classmethod
    def cost(cls, avals: Sequence[Aval], results: Sequence[Aval], spec: str = "", sizes: Shape = (), **_: Any) -> float:
        parsed = parse_spec(spec)
        extents = named_sizes(parsed, sizes)
        work = dims.product(extents[name] for name in parsed.reduced)
        return 2.0 * work if isinstance(work, int) else 2.0 * 64


@lru_cache(maxsize=16384)
def _result_shape(spec: str, sizes: Shape, lhs: Shape, rhs: Shape) -> Shape:
    parsed = parse_spec(spec)
    extents = named_sizes(parsed, sizes)
    for which, term, shape in (("left", parsed.lhs, lhs), ("right", parsed.rhs, rhs)):
        _check_operand(which, term, shape, extents, spec)
    return tuple(extents[name] for name in parsed.out)


def named_sizes(spec: ContractSpec, sizes: Shape) -> Mapping[str, DimLike]:
    """The extent of each loop name.

    Raises:
        ShapeError: not one size per name.
    """
    if len(sizes) != len(spec.names):
        expected = f"{len(spec.names)} sizes, of {' '.join(spec.names)}"
        raise ShapeError("wrong number of sizes", op="contract", expected=expected, found=shape_text(sizes))
    return dict(zip(spec.names, sizes, strict=True))


def _check_operand(which: str, term: Sequence[Index], shape: Shape, sizes: Mapping[str, DimLike], spec: str) -> None:
    if len(term) != len(shape):
        raise ShapeError(
            f"wrong rank of the {which} operand",
            op="contract",
            expected=f"{len(term)} dims of '{spec}'",
            found=shape_text(shape),
        )
    for k, (index, size) in enumerate(zip(term, shape, strict=True)):
        if index.name and sizes[index.name] != size:
            raise ShapeError(
                f"the {which} operand does not fit at dim {k}",
                op="contract",
                expected=f"size {sizes[index.name]} of '{index.name}' in '{spec}'",
                found=shape_text(shape),
            )


def contract(lhs: ArrayLike, rhs: ArrayLike, spec: str, known: Mapping[str, DimLike] | None = None) -> ArrayLike:
    """Apply the op with sizes taken from the operands.

    Args:
        known: sizes of names that stand alone in neither operand, such as the positions of a convolution.

    Raises:
        ShapeError: the operands do not fit the spec.
    """
    sizes = infer_sizes(parse_spec(spec), lhs.shape, rhs.shape, known or {})
    return lhs.one("contract", lhs, rhs, spec=spec, sizes=sizes)


# ---- evaluation --------------------------------------------------------------------------------------------------


def _sum_of_products(spec: ContractSpec, extents: dict[str, int], lhs: Array, rhs: Array) -> Array:
    letters = {name: k for k, name in enumerate(spec.names)}
    (a, a_names), (b, b_names) = (_unfolded(t, x, extents) for t, x in zip(spec.operands, (lhs, rhs), strict=True))
    present = [name for name in spec.out if name in a_names or name in b_names]
    labels = [[letters[n] for n in names] for names in (a_names, b_names, present)]
    result = np.asarray(np.einsum(a, labels[0], b, labels[1], labels[2], optimize=True))
    unused = [n for n in spec.reduced if n not in a_names and n not in b_names]
    times = int(np.prod([extents[n] for n in unused]))
    shape = [extents[n] if n in present else 1 for n in spec.out]
    full = np.broadcast_to(result.reshape(shape), [extents[n] for n in spec.out])
    return (full * full.dtype.type(times)).astype(lhs.dtype) if unused else full


def _unfolded(term: Sequence[Index], x: Array, extents: Mapping[str, int]) -> tuple[Array, list[str]]:
    """The operand with one dim per loop name, zero where its index leaves the array."""
    names = list(dict.fromkeys(name for index in term for name in index.names))
    if [index.name for index in term] == names:
        return x, names
    counters = {n: np.arange(extents[n]).reshape([-1 if m == n else 1 for m in names]) for n in names}
    shape = [extents[n] for n in names]
    inside = np.ones(shape, bool)
    at = []
    for index, size in zip(term, x.shape, strict=True):
        numerator = sum((c * counters[n] for n, c in index.terms), np.full((1,) * len(names), index.offset))
        position = numerator // index.base
        inside = inside & (numerator % index.base == 0) & (position >= 0) & (position < size)
        at.append(position)
    if 0 in x.shape:
        return np.zeros(shape, x.dtype), names
    values = x[tuple(np.where(inside, position, 0) for position in at)]
    return np.where(inside, values, x.dtype.type(0)), names


# ---- samples -----------------------------------------------------------------------------------------------------

_CASES: tuple[tuple[Shape, Shape, str, dict[str, DimLike]], ...] = (
    ((3,), (3,), matmul_spec(1, 1), {}),
    ((2, 3), (3,), matmul_spec(2, 1), {}),
    ((2, 2, 3), (3, 4), matmul_spec(3, 2), {}),
    ((2, 3, 2), (2, 2, 4), matmul_spec(3, 3), {}),
    ((2, 0), (0, 3), matmul_spec(2, 2), {}),
    ((0, 2), (2, 3), matmul_spec(2, 2), {}),
    ((2, 3), (4, 3), "m k, n k -> n m", {}),
    ((2, 3), (2, 3), "i j, i j -> i j", {}),
    ((2, 3), (4,), "i j, k -> k", {}),  # i and j occur in one operand only
    ((2,), (3,), "i, j -> i j t", {"t": 2}),  # t occurs in none
    ((2, 2, 7), (3, 2, 3), conv_spec((1,), (0,), (1,)), {"y0": 5}),
    ((1, 2, 6), (3, 2, 3), conv_spec((2,), (1,), (2,)), {"y0": 2}),
    ((1, 2, 5, 6), (2, 2, 3, 2), conv_spec((2, 1), (1, 0), (1, 3)), {"y0": 3, "y1": 3}),
    ((1, 2, 1, 5), (2, 3, 1, 2), conv_spec((1,), (1,), (1,), groups=True), {"y0": 6}),
    ((1, 2, 4), (2, 3, 3), conv_transpose_spec((2,), (1,), (1,)), {"y0": 8}),
    ((1, 2, 3), (2, 1, 2), conv_transpose_spec((3,), (0,), (2,)), {"y0": 9}),
    ((5,), (3, 2), "y+k, y k -> y", {}),  # locally connected
    ((8,), (3, 2), "y*3+k*2-1, y k -> y", {}),
    ((6,), (3,), "y*2-k+1, k -> y", {"y": 3}),
)


def _sample(
    rng: Rng, dtype: dtypes.DType, lhs: Shape, rhs: Shape, spec: str, known: Mapping[str, DimLike] | None = None
) -> Sample:
    sizes = infer_sizes(parse_spec(spec), lhs, rhs, known or {})
    arrays = tuple(cases.values(rng, dtype, static_shape(shape)) for shape in (lhs, rhs))
    return Sample(arrays, {"spec": spec, "sizes": sizes})
