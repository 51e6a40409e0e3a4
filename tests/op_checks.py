"""What must hold for every op of the registry: each check takes an op class and a sample and asserts one thing."""

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from firebox import dtypes
from firebox.dialects.nd.aval import Aval, tensor_type
from firebox.dialects.nd.base import Array, Kind, NdOp, Sample, registered
from firebox.dialects.nd.numpy_scalar import evaluate_formula
from firebox.dialects.nd.transform import JvpOp, yield_values
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dtypes import DType, as_dtype
from firebox.lowering.interpret import interpret

TOLERANCE = {dtypes.f16: 2e-3, dtypes.bf16: 1.6e-2, dtypes.f32: 4e-6, dtypes.f64: 1e-13}
STEP = 1e-6
Op = type[NdOp]


def plain_ops() -> dict[str, Op]:
    """The registered ops without regions."""
    return {name: op for name, op in registered().items() if op.kind is not Kind.REGION and name.startswith("nd.")}


def samples(op: Op) -> list[Sample]:
    """The samples of an op, the same ones every time."""
    return list(op.samples(np.random.default_rng(zlib.crc32(op.name.encode()))))


def avals_of(arrays: Sequence[Array]) -> list[Aval]:
    return [Aval(as_dtype(a.dtype), a.shape) for a in arrays]


def assert_close(found: Array, expected: Array, dtype: DType, slack: float = 1.0) -> None:
    """Equal, or close for floats: relative to each element and to the largest one."""
    assert found.shape == expected.shape
    if not dtype.is_float:
        np.testing.assert_array_equal(found, expected)
        return
    a, b = found.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    rtol = TOLERANCE[dtype] * slack
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(finite.max(initial=1e-3)))


# ---- meaning -----------------------------------------------------------------------------------------------------


def check_types(op: Op, sample: Sample) -> None:
    """`infer` says the types and shapes that `evaluate` gives."""
    inferred = op.result_avals(avals_of(sample.arrays), sample.params)
    evaluated = op.evaluate_all(sample.arrays, sample.params)
    assert [(a.dtype.numpy, a.shape) for a in inferred] == [(r.dtype, r.shape) for r in evaluated]


def check_formula(op: Op, sample: Sample) -> None:
    """The formula computes what `evaluate` does."""
    avals = avals_of(sample.arrays)
    results = op.result_avals(avals, sample.params)
    expected = op.evaluate_all(sample.arrays, sample.params)
    found = evaluate_formula(op.formula(avals, results, **sample.params), sample.arrays, results)
    for f, e, aval in zip(found, expected, results, strict=True):
        assert_close(f, e, aval.dtype)


def check_decomposition(op: Op, sample: Sample) -> None:
    """The decomposition computes what `evaluate` does."""
    block = block_of(avals_of(sample.arrays))
    at = Inserter(block)
    result: Any = op.decompose([at.value(a) for a in block.args], **sample.params)
    found = finish(block, result if isinstance(result, list | tuple) else [result], sample.arrays)
    for f, e in zip(found, op.evaluate_all(sample.arrays, sample.params), strict=True):
        assert_close(f, e, as_dtype(e.dtype))


def finish(block: Any, values: Sequence[Value], inputs: Sequence[Array]) -> list[Array]:
    """End the block with these values and run it."""
    block.add_op(yield_values([v.ssa for v in values]))
    return interpret(block, inputs)


# ---- derivatives -------------------------------------------------------------------------------------------------


def differentiable(op: Op, sample: Sample) -> list[int]:
    """The operands whose derivative can be checked by differences: those of f64."""
    if not op.differentiable:
        return []
    wanted = range(len(sample.arrays)) if sample.differentiable is None else sample.differentiable
    return [k for k in wanted if sample.arrays[k].dtype == np.float64 and sample.arrays[k].size]


def check_vjp(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    """``<vjp(c), v> == <c, f'(v)>`` for random c and v, with f' by central differences."""
    moving = differentiable(op, sample)
    results = op.evaluate_all(sample.arrays, sample.params)
    cotangents = [rng.normal(size=r.shape) if r.dtype == np.float64 else None for r in results]
    if not moving or all(c is None for c in cotangents):
        return
    gradients = run_vjp(op, sample, cotangents)
    for k in moving:
        direction = rng.normal(size=sample.arrays[k].shape)
        changes = difference(op, sample, {k: direction})
        expected = sum(float(np.sum(c * d)) for c, d in zip(cotangents, changes, strict=True) if c is not None)
        scale = sum(float(np.sum(np.abs(c * d))) for c, d in zip(cotangents, changes, strict=True) if c is not None)
        gradient = gradients[k]
        found = 0.0 if gradient is None else float(np.sum(gradient * direction))
        assert abs(found - expected) <= 1e-6 * (scale + 1e-2), f"operand {k}: {found} but differences say {expected}"


def difference(op: Op, sample: Sample, directions: dict[int, Array]) -> list[Array]:
    """The derivative of every result along a direction of the operands, by central differences."""
    ends = []
    for sign in (1.0, -1.0):
        moved = [a + sign * STEP * directions[k] if k in directions else a for k, a in enumerate(sample.arrays)]
        ends.append(op.evaluate_all(moved, sample.params))
    with np.errstate(all="ignore"):
        return [
            (a - b) / (2 * STEP) if a.dtype == np.float64 else np.zeros(a.shape) for a, b in zip(*ends, strict=True)
        ]


def run_vjp(op: Op, sample: Sample, cotangents: Sequence[Array | None]) -> list[Array | None]:
    """The gradients that the rule gives, summed down to the shapes of the operands."""
    given = [c for c in cotangents if c is not None]
    block = block_of(avals_of([*sample.arrays, *given]))
    at = Inserter(block)
    args = [at.value(a) for a in block.args]
    operands, rest = args[: len(sample.arrays)], iter(args[len(sample.arrays) :])
    results = [at.value(r) for r in at.insert(op, [o.ssa for o in operands], sample.params).results]
    cts: Any = [None if c is None else next(rest) for c in cotangents]
    gradients = op.vjp(cts, operands, results, **sample.params)
    assert len(gradients) == len(operands)
    kept = [g for g in gradients if isinstance(g, Value)]
    found = iter(finish(block, kept, [*sample.arrays, *given]))
    return [
        None if g is None else summed_to(next(found), a.shape) for g, a in zip(gradients, sample.arrays, strict=True)
    ]


def summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Summed over what was broadcast."""
    extra = gradient.ndim - len(shape)
    axes = [k for k in range(gradient.ndim) if k < extra or (shape[k - extra] == 1 and gradient.shape[k] != 1)]
    total: Array = gradient.sum(axis=tuple(axes), keepdims=True).reshape(gradient.shape[extra:] if not axes else shape)
    return total


def check_jvp(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    """The forward derivative (by default the transpose of the vjp) equals central differences."""
    moving = differentiable(op, sample)
    results = op.evaluate_all(sample.arrays, sample.params)
    floats = [k for k, r in enumerate(results) if r.dtype == np.float64]
    if not moving or not floats:
        return
    tangents = {k: rng.normal(size=sample.arrays[k].shape) for k in moving}
    found = run_jvp(op, sample, tangents, floats)
    expected = difference(op, sample, tangents)
    for tangent, k in zip(found, floats, strict=True):
        scale = float(np.abs(expected[k]).max(initial=1e-2))
        np.testing.assert_allclose(tangent, expected[k], rtol=1e-6, atol=1e-6 * scale)


def run_jvp(op: Op, sample: Sample, tangents: dict[int, Array], floats: Sequence[int]) -> list[Array]:
    """The tangents of the float results."""
    inputs = [*sample.arrays, *tangents.values()]
    block = block_of(avals_of(inputs))
    inner = block_of([avals_of(sample.arrays)[k] for k in tangents])
    at = Inserter(inner)
    bound = dict(zip(tangents, inner.args, strict=True))
    operands = [bound.get(k, block.args[k]) for k in range(len(sample.arrays))]
    results = at.insert(op, operands, sample.params).results
    inner.add_op(yield_values([results[k] for k in floats]))
    primals, seeds = [block.args[k] for k in tangents], block.args[len(sample.arrays) :]
    jvp = JvpOp.build_region_op([*primals, *seeds], {"wrt": len(tangents), "seeds": len(floats)}, [inner])
    block.add_op(jvp)
    block.add_op(ReturnOp(*jvp.results[len(floats) :]))
    types = [tensor_type(a) for a in avals_of(inputs)]
    function = FuncOp("main", (types, [r.type for r in jvp.results[len(floats) :]]), Region(block))
    return interpret(function, inputs)


# ---- batching ----------------------------------------------------------------------------------------------------


def check_batch(op: Op, sample: Sample) -> None:
    """The batching rule gives what a loop over the batch does, whichever operands are batched."""
    if not sample.arrays:
        return
    other = [np.roll(a.reshape(-1), 1).reshape(a.shape) for a in sample.arrays]
    for flags in batch_flags(len(sample.arrays)):
        inputs = [np.stack([a, b]) if f else a for a, b, f in zip(sample.arrays, other, flags, strict=True)]
        block = block_of(avals_of(inputs))
        at = Inserter(block)
        batched: Any = op.batch([at.value(a) for a in block.args], flags, **sample.params)
        values = [batched] if isinstance(batched, Value) else list(batched)
        found = finish(block, values, inputs)
        loop = [
            op.evaluate_all([x[k] if f else x for x, f in zip(inputs, flags, strict=True)], sample.params)
            for k in range(2)
        ]
        for f, pair in zip(found, zip(*loop, strict=True), strict=True):
            assert f.dtype == pair[0].dtype
            assert_close(f, np.stack(pair), as_dtype(f.dtype), slack=4.0)


def batch_flags(count: int) -> Iterator[tuple[bool, ...]]:
    """Every choice of batched operands but none."""
    return (flags for flags in itertools.product((True, False), repeat=count) if any(flags))
