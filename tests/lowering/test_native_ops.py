"""Every op of the registry, compiled for this machine, against its own `evaluate`; a new op needs no line here.

One module per op holds all of its samples. A second one holds them over a symbolic leading dim, far longer than a vector and
no multiple of one. Integers and bools are equal; floats are as close as `allowed` says.
"""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, Sample
from firebox.dialects.nd.value import block_of
from firebox.dims import dim
from firebox.dtypes import as_dtype
from firebox.errors import FireboxError
from tests.op_checks import Op, avals_of, plain_ops, samples
from tests.programs import run_native

OPS = plain_ops()
ULPS = {dtypes.f16: 1.0, dtypes.bf16: 1.0, dtypes.f32: 4.0, dtypes.f64: 8.0}
"""Of functions that are approximated. NumPy's own error is in it; f16 and bf16 are rounded from f32."""
SUMS = 4.0
"""Roundings of f32 and f64 by which sums in another order may differ, of the sum of the absolute terms."""
LONG = 151


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


def check(op: Op, cases: list[Sample], avals: list[list[Aval]], dim_values: dict[str, int]) -> None:
    arrays = [a for case in cases for a in case.arrays]
    found = iter(run_native(module_of(op, cases, avals), arrays, dim_values))
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
    """The largest error of each element: none for what is computed exactly or rounded once."""
    limits = [np.zeros(e.shape) for e in expected]
    if op.transcendental or op.kind is Kind.COMPOSITE:
        limits = [ULPS.get(as_dtype(e.dtype), 0.0) * ulp(np.abs(e.astype(np.float64)), e) for e in expected]
    elif op.kind in (Kind.REDUCE, Kind.SCAN, Kind.CONTRACT, Kind.OPAQUE):
        sizes = op.evaluate_all([np.abs(a) if as_dtype(a.dtype).is_float else a for a in case.arrays], case.params)
        limits = [rounding(s.astype(np.float64), e) for s, e in zip(sizes, expected, strict=True)]
    return limits


def rounding(size: Array, like: Array) -> Array:
    """What sums of this size may be off by; one unit of the narrow types, which are rounded from f32."""
    dtype = as_dtype(like.dtype)
    if not dtype.is_float:
        return np.zeros(like.shape)
    unit = ulp(size, like)
    return unit if dtype is not dtype.compute else SUMS * unit


def ulp(size: Array, like: Array) -> Array:
    """The distance between neighbouring numbers of a size, in the type of ``like``."""
    limits = {dtypes.f16: (10, -14), dtypes.bf16: (7, -126), dtypes.f32: (23, -126), dtypes.f64: (52, -1022)}
    dtype = as_dtype(like.dtype)
    if dtype not in limits:
        return np.zeros(like.shape)
    digits, lowest = limits[dtype]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where(np.isfinite(size) & (size > 0), size, 1.0)))
    return np.ldexp(1.0, (np.maximum(exponent, lowest) - digits).astype(int))


@pytest.mark.parametrize("name", OPS)
def test_samples(name: str) -> None:
    cases = samples(OPS[name])
    check(OPS[name], cases, [avals_of(c.arrays) for c in cases], {})


# ---- a symbolic leading dim --------------------------------------------------------------------------------------


def lengthened(op: Op, case: Sample, number: int) -> tuple[Sample, list[Aval]] | None:
    """The case with its leading dim repeated to `LONG` elements, and avals in which that is a dim ``n<number>``.

    None where the op's parameters tie it to the size, or nothing has a leading dim.
    """
    lead = {a.shape[0] for a in case.arrays if a.ndim and a.shape[0] != 1}
    if len(lead) != 1 or 0 in lead:
        return None
    arrays = tuple(np.resize(a, (LONG, *a.shape[1:])) if a.ndim and a.shape[0] != 1 else a for a in case.arrays)
    avals = [
        Aval(as_dtype(a.dtype), (dim(f"n{number}"), *a.shape[1:]) if a.ndim and a.shape[0] != 1 else a.shape)
        for a in arrays
    ]
    try:
        results = op.result_avals(avals, case.params)
        expected = op.evaluate_all(arrays, case.params)
    except (FireboxError, ValueError):
        return None
    shapes = [tuple(dims.evaluate(d, {f"n{number}": LONG}) for d in r.shape) for r in results]
    return (Sample(arrays, case.params), avals) if shapes == [e.shape for e in expected] else None


@pytest.mark.parametrize("name", OPS)
def test_symbolic_leading_dim(name: str) -> None:
    found = [p for k, c in enumerate(samples(OPS[name])) if (p := lengthened(OPS[name], c, k)) is not None]
    if found:
        names = dims.names(*(d for _, avals in found for a in avals for d in a.shape))
        check(OPS[name], [c for c, _ in found], [a for _, a in found], dict.fromkeys(names, LONG))


def test_most_ops_work_over_a_symbolic_dim() -> None:
    """The test above does not pass for want of cases."""
    count = sum(any(lengthened(op, c, 0) for c in samples(op)) for op in OPS.values())
    assert count >= 0.7 * len(OPS)


