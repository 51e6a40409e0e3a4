"""Every op of the registry, compiled for each device, against its own `evaluate`; a new op needs no line here.

One module per op and device holds its samples, and some of them lengthened: over a symbolic leading dim that is no
multiple of a vector, and over a static one that is. Integers and bools are equal, floats as close as `allowed` says.
"""

import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, Sample
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops.elementwise_unary import Tanh
from firebox.dialects.nd.value import block_of
from firebox.dims import DimLike, dim
from firebox.dtypes import DType, as_dtype
from firebox.errors import FireboxError
from firebox.runtime.device import Device
from tests.op_checks import Op, avals_of, plain_ops, samples
from tests.programs import CASES, program, run_native

OPS = plain_ops()
ULPS = {dtypes.f16: 1.0, dtypes.bf16: 1.0, dtypes.f32: 3.0, dtypes.f64: 3.0}
"""Of functions that are approximated: 2 of ours, 1 of NumPy's; f16 and bf16 are rounded from f32."""
SYMBOLIC_TYPES = (dtypes.f64, dtypes.f32, dtypes.bf16, dtypes.i32, dtypes.u8, dtypes.bool_)
"""Element types of the longer cases, by the first operand: one of each size and kind."""
STATIC_TYPES = (dtypes.f32, dtypes.i16)
LENGTH, WHOLE_VECTORS = 151, 192

Long = tuple[Sample, list[Aval]]
"""A case, and the types of its operands in the program."""


def module_of(op: Op, cases: list[Sample], avals: list[list[Aval]]) -> ModuleOp:
    """One application of the op per case, each to inputs of its own; all results are outputs."""
    block = block_of([a for group in avals for a in group])
    arguments = iter(block.args)
    results: list[SSAValue] = []
    for case, group in zip(cases, avals, strict=True):
        made = op.build_op([next(arguments) for _ in group], case.params)
        block.add_op(made)
        results += made.results
    block.add_op(ReturnOp(*results))
    types = [a.type for a in block.args], [r.type for r in results]
    return ModuleOp([FuncOp("main", types, Region(block))])


def check(op: Op, chosen: Sequence[Long], device: Device, size: int = 0) -> None:
    """Run the cases in one program, in which every symbolic dim has the same size."""
    cases, avals = [case for case, _ in chosen], [group for _, group in chosen]
    arrays = [a for case in cases for a in case.arrays]
    names = dims.names(*(d for group in avals for a in group for d in a.shape))
    found = iter(run_native(module_of(op, cases, avals), arrays, dict.fromkeys(names, size), device=device))
    for number, case in enumerate(cases):
        expected = op.evaluate_all(case.arrays, case.params)
        for e, limit in zip(expected, allowed(op, case, expected), strict=True):
            try:
                compare(next(found), e, limit)
            except AssertionError as error:
                error.add_note(f"{op.name} case {number}: ({', '.join(map(str, avals[number]))}) {case.params}")
                raise


def compare(found: Array, expected: Array, limit: Array) -> None:
    """Same type and shape, NaN and infinities at the same places, all else within the limit."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if not as_dtype(expected.dtype).is_float:
        np.testing.assert_array_equal(found, expected)
        return
    f, e = found.astype(np.float64), expected.astype(np.float64)
    exact = ~np.isfinite(f) | ~np.isfinite(e)
    np.testing.assert_array_equal(f[exact], e[exact])
    error = np.abs(f[~exact] - e[~exact])
    assert (error <= limit[~exact]).all(), f"off by {np.max(error - limit[~exact])} more than allowed"


def allowed(op: Op, case: Sample, expected: tuple[Array, ...]) -> list[Array]:
    """The largest error of each element: none for what is computed exactly or rounded once.

    Sums and products in another order differ by at most one unit for each term, of the result for absolute operands.
    """
    if op.transcendental or op.kind is Kind.COMPOSITE:
        return [ULPS.get(as_dtype(e.dtype), 0.0) * ulp(np.abs(e.astype(np.float64)), e) for e in expected]
    if op.kind not in (Kind.REDUCE, Kind.SCAN, Kind.CONTRACT):
        return [np.zeros(e.shape) for e in expected]
    sizes = op.evaluate_all([np.abs(a) if as_dtype(a.dtype).is_float else a for a in case.arrays], case.params)
    return [terms(op, case) * ulp(s.astype(np.float64), e) for s, e in zip(sizes, expected, strict=True)]


def terms(op: Op, case: Sample) -> float:
    """How many elements are combined into one; f16 and bf16 combine in f32 and are rounded once."""
    avals = avals_of(case.arrays)
    if not avals or avals[0].dtype is not avals[0].dtype.compute:
        return 1.0
    formula = op.formula(avals, op.result_avals(avals, case.params), **case.params)
    return float(dims.evaluate(dims.product(formula.reduced), {}))


def ulp(size: Array, like: Array) -> Array:
    """The distance between neighbouring numbers of a size, in the type of ``like``."""
    limits = {dtypes.f16: (10, -14), dtypes.bf16: (7, -126), dtypes.f32: (23, -126), dtypes.f64: (52, -1022)}
    dtype = as_dtype(like.dtype)
    if dtype not in limits:
        return np.zeros(like.shape)
    digits, lowest = limits[dtype]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where(np.isfinite(size) & (size > 0), size, 1.0)))
    return np.asarray(np.ldexp(1.0, (np.maximum(exponent, lowest) - digits).astype(int)))


def some(op: Op, cases: list[Long], most: int) -> list[Long]:
    """Up to that many cases, spread over element types and parameters; always the same ones, others for each op."""
    order = np.random.default_rng(zlib.crc32(op.name.encode())).permutation(len(cases))
    seen: Counter[tuple[DType, ...]] = Counter()
    turns: list[tuple[int, int, int]] = []
    for number in order:
        types = tuple(aval.dtype for aval in cases[number][1])
        turns.append((seen[types], len(turns), int(number)))
        seen[types] += 1
    return [cases[number] for number in sorted(number for _, _, number in sorted(turns)[:most])]


@pytest.mark.parametrize("name", OPS)
def test_samples(name: str, each_device: Device) -> None:
    op = OPS[name]
    kinds = [
        [(c, avals_of(c.arrays)) for c in samples(op)],
        long_cases(op, SYMBOLIC_TYPES, LENGTH, True),
        long_cases(op, STATIC_TYPES, WHOLE_VECTORS, False),
    ]
    if each_device.target.kind == "opencl":
        kinds = [some(op, cases, most) for cases, most in zip(kinds, CASES, strict=True)]
    check(op, [case for cases in kinds for case in cases], each_device, LENGTH)


# ---- longer than a vector ----------------------------------------------------------------------------------------


def lengthened(op: Op, case: Sample, length: int, lead: DimLike) -> Long | None:
    """The case with its leading dim repeated to that many elements, and avals in which it is ``lead``.

    None where the op's parameters tie it to the size, or nothing has a leading dim.
    """
    sizes = {a.shape[0] for a in case.arrays if a.ndim and a.shape[0] != 1}
    if len(sizes) != 1 or 0 in sizes:
        return None
    grows = [a.ndim > 0 and a.shape[0] != 1 for a in case.arrays]
    arrays = tuple(repeated(op, a, length) if g else a for a, g in zip(case.arrays, grows, strict=True))
    shapes = [(lead, *a.shape[1:]) if g else a.shape for a, g in zip(arrays, grows, strict=True)]
    avals = [Aval(as_dtype(a.dtype), shape) for a, shape in zip(arrays, shapes, strict=True)]
    try:
        results = op.result_avals(avals, case.params)
        expected = op.evaluate_all(arrays, case.params)
    except (FireboxError, ValueError):
        return None
    found = [tuple(dims.evaluate(d, dict.fromkeys(dims.names(d), length)) for d in r.shape) for r in results]
    return (Sample(arrays, case.params), avals) if found == [e.shape for e in expected] else None


def repeated(op: Op, array: Array, length: int) -> Array:
    """The array over and over. Products go on with 1 and -1: else where they overflow depends on their order."""
    long = np.resize(array, (length, *array.shape[1:]))
    if "prod" in op.name and as_dtype(array.dtype).is_float:
        long[len(array) :] = np.where(np.arange(length - len(array)) % 3, 1.0, -1.0).reshape(
            -1, *(1,) * (array.ndim - 1)
        )
    return long


def long_cases(op: Op, accepted: Collection[DType], length: int, symbolic: bool) -> list[Long]:
    found = []
    for number, case in enumerate(samples(op)):
        if case.arrays and as_dtype(case.arrays[0].dtype) in accepted:
            longer = lengthened(op, case, length, dim(f"n{number}") if symbolic else length)
            found += [longer] if longer is not None else []
    return found


def test_dims_that_no_shape_names(each_device: Device) -> None:
    """A kernel is given the dims that its ops' parameters need, though none of its buffers has them."""
    module = program(lambda x, y: x * x.size_of(y.shape[0]), "f32[3]", "f32[2 * c]")
    arrays = [np.ones(3, np.float32), np.ones(10, np.float32)]
    found = run_native(module, arrays, {"c": 5}, device=each_device)[0]
    np.testing.assert_array_equal(found, np.full(3, 10, np.float32))
    sizes: dict[str, Any] = {"spec": "m k, k n -> m n", "sizes": (2, 3, 4)}
    module = program(
        lambda x, w, y: x.one("contract", x, w, **sizes) * x.size_of(y.shape[0]), "f32[2, 3]", "f32[3, 4]", "f32[c]"
    )
    arrays = [np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.ones(5, np.float32)]
    found = run_native(module, arrays, {"c": 5}, device=each_device)[0]
    np.testing.assert_array_equal(found, np.full((2, 4), 15, np.float32))


class Wrong(Tanh):
    """Has the formula of another op."""

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], **params: Any) -> Formula:
        return elementwise(avals, results[0].shape, lambda s, x: s.sigmoid(x))


def test_a_planted_fault_is_seen(each_device: Device) -> None:
    case = Sample((np.linspace(-1.0, 1.0, 5),))
    check(Tanh, [(case, avals_of(case.arrays))], each_device)
    with pytest.raises(AssertionError, match="more than allowed"):
        check(Wrong, [(case, avals_of(case.arrays))], each_device)


def test_most_ops_have_longer_cases() -> None:
    """The tests above do not pass for want of cases."""
    count = sum(bool(long_cases(op, SYMBOLIC_TYPES, LENGTH, True)) for op in OPS.values())
    assert count >= 0.8 * len(OPS)
