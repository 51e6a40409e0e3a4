"""Every op of the registry against itself: types, formula, derivatives, batching; a new op needs no line here."""
# mypy: disable-error-code="override"
# The faulty ops below take their parameters as **params.

import zlib
from typing import Any

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Kind, NdOp, Sample, register
from firebox.dialects.nd.formula import Formula, Read
from firebox.dialects.nd.ops.elementwise_unary import Tanh
from firebox.dialects.nd.ops.movement import Transpose
from firebox.dialects.nd.ops.reduce import ReduceSum
from firebox.dims import dim
from firebox.dtypes import as_dtype
from firebox.errors import CompilerError
from tests import op_checks

OPS = op_checks.plain_ops()
EXPECTED = """
add sub mul div floordiv mod pow max min neg abs sign exp expm1 log log1p sqrt rsqrt sin cos tanh erf sigmoid floor ceil
round trunc isnan isinf isfinite logical_not bitwise_not bitwise_and bitwise_or bitwise_xor shift_left shift_right eq ne
lt le gt ge select cast bitcast constant iota dim_size reduce_sum reduce_prod reduce_max reduce_min reduce_any
reduce_all argmax argmin cumsum cumprod cummax cummin reshape transpose broadcast_to slice pad flip concat gather
take_along_axis scatter_add window fold_window view pack random_bits sort softmax log_softmax contract
"""
HAS_FORMULA = [n for n, op in OPS.items() if op.kind not in (Kind.OPAQUE, Kind.COMPOSITE)]

each_op = pytest.mark.parametrize("name", OPS)


def rng_of(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()) + 1)


def loop(check: Any, name: str, *extra: Any) -> None:
    """Run a check over all samples; a failure names the sample."""
    for number, sample in enumerate(op_checks.samples(OPS[name])):
        try:
            check(OPS[name], sample, *extra)
        except Exception as error:
            shapes = ", ".join(str(a) for a in op_checks.avals_of(sample.arrays))
            error.add_note(f"{name} sample {number}: ({shapes}) {sample.params}")
            raise


def test_the_primitives_are_there() -> None:
    assert {f"nd.{n}" for n in EXPECTED.split()} <= set(OPS)


@each_op
def test_infer_agrees_with_evaluate(name: str) -> None:
    loop(op_checks.check_types, name)


@pytest.mark.parametrize("name", HAS_FORMULA)
def test_formula_agrees_with_evaluate(name: str) -> None:
    loop(op_checks.check_formula, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind is Kind.COMPOSITE])
def test_decomposition_agrees_with_evaluate(name: str) -> None:
    loop(op_checks.check_decomposition, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_vjp_agrees_with_differences(name: str) -> None:
    loop(op_checks.check_vjp, name, rng_of(name))


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_jvp_agrees_with_differences(name: str) -> None:
    loop(op_checks.check_jvp, name, rng_of(name))


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.arity != 0])
def test_batching_agrees_with_a_loop(name: str) -> None:
    wide = {np.dtype(t) for t in (np.float64, np.int32, np.bool_, np.uint64)}
    for sample in op_checks.samples(OPS[name]):
        if sample.arrays[0].dtype in wide:
            op_checks.check_batch(OPS[name], sample)


@each_op
def test_samples_cover_the_edges(name: str) -> None:
    """Every op is tried on an empty array; differentiable ones have f64 samples."""
    op, samples = OPS[name], op_checks.samples(OPS[name])
    arrays = [a for s in samples for a in (*s.arrays, *op.evaluate_all(s.arrays, s.params))]
    assert any(a.size == 0 for a in arrays) or name == "nd.dim_size"
    if op.differentiable:
        assert any(op_checks.differentiable(op, s) for s in samples)


@each_op
def test_cost_is_a_number(name: str) -> None:
    op = OPS[name]
    for sample in op_checks.samples(op)[:3]:
        avals = op_checks.avals_of(sample.arrays)
        assert op.cost(avals, op.result_avals(avals, sample.params), **sample.params) >= 0.0


# ---- the checks see faults ---------------------------------------------------------------------------------------


class WrongSign(Tanh):
    """A gradient of the wrong sign."""

    @classmethod
    def vjp(cls, cts: Any, operands: Any, results: Any, **params: Any) -> Any:
        return [-cts[0] * (1.0 - results[0] * results[0])]


class NonLinear(Tanh):
    """A gradient that is right at one scale of the cotangent only."""

    @classmethod
    def vjp(cls, cts: Any, operands: Any, results: Any, **params: Any) -> Any:
        return [cts[0] * cts[0] * (1.0 - results[0] * results[0])]


class WrongShape(ReduceSum):
    """A type rule that forgets ``keepdims``."""

    @classmethod
    def infer(cls, x: Aval, axes: tuple[int, ...], keepdims: bool) -> Aval:
        return super().infer(x, axes, not keepdims)


class WrongRead(Transpose):
    """A formula that applies the inverse permutation."""

    @classmethod
    def formula(cls, avals: Any, results: Any, **params: Any) -> Formula:
        index = tuple(dim(f"i{k}") for k in params["permutation"])
        return Formula(results[0].shape, (Read(0, index),), lambda s, x: x)


class WrongType(Tanh):
    """A formula that gives another element type."""

    @classmethod
    def formula(cls, avals: Any, results: Any, **params: Any) -> Formula:
        return Formula(results[0].shape, (Read(0, (dim("i0"),)),), lambda s, x: s.cast(s.tanh(x), dtypes.i32))


class WrongBatch(ReduceSum):
    """A batching rule that forgets to shift the axes."""

    @classmethod
    def batch(cls, operands: Any, batched: Any, **params: Any) -> Any:
        return operands[0].apply(cls, operands, params)[0]


def test_planted_faults_are_seen() -> None:
    rng = np.random.default_rng(7)
    vector = Sample((rng.normal(size=3),))
    cube = Sample((rng.normal(size=(2, 3, 4)),), {"axes": (0,), "keepdims": False})
    moved = Sample((rng.normal(size=(2, 3, 4)),), {"permutation": (1, 2, 0)})
    for op, sample in ((Tanh, vector), (ReduceSum, cube), (Transpose, moved)):
        _all_checks(op, sample)
    with pytest.raises(AssertionError, match="differences"):
        op_checks.check_vjp(WrongSign, vector, rng)
    with pytest.raises(AssertionError, match="differences"):
        op_checks.check_vjp(NonLinear, vector, rng)
    with pytest.raises(AssertionError):
        op_checks.check_jvp(WrongSign, vector, rng)
    with pytest.raises(AssertionError):
        op_checks.check_types(WrongShape, cube)
    with pytest.raises(CompilerError, match="outside"):
        op_checks.check_formula(WrongRead, moved)
    with pytest.raises(CompilerError, match="another type"):
        op_checks.check_formula(WrongType, vector)
    with pytest.raises(AssertionError):
        op_checks.check_batch(WrongBatch, cube)


def _all_checks(op: type[NdOp], sample: Sample) -> None:
    rng = np.random.default_rng(3)
    op_checks.check_types(op, sample)
    op_checks.check_formula(op, sample)
    op_checks.check_vjp(op, sample, rng)
    op_checks.check_jvp(op, sample, rng)
    op_checks.check_batch(op, sample)


def test_an_incomplete_op_is_refused() -> None:
    class NoVjp(NdOp):
        """An op without most of its parts."""

        name = "nd.incomplete"
        kind = Kind.MAP

    with pytest.raises(CompilerError, match=r"incomplete[\s\S]*infer, evaluate, samples, batch, formula, vjp"):
        register(NoVjp)


def test_a_name_is_registered_once() -> None:
    class Again(Tanh):
        """A second op of a taken name."""

    with pytest.raises(CompilerError, match="already"):
        register(Again)


@each_op
def test_sample_types_are_element_types(name: str) -> None:
    """Ops over elements are tried in every type they accept, not only in the usual ones."""
    accepts = getattr(OPS[name], "accepts", None)
    if accepts is not None:
        tried = {as_dtype(s.arrays[0].dtype) for s in op_checks.samples(OPS[name])}
        assert tried == set(accepts)
