"""The scalar part of every formula, written with the kernel builder: it accepts the types and gives those of the op."""

from typing import Any

import pytest

from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Kind
from firebox.dialects.nd.formula import Formula
from firebox.dims import Dim
from tests.op_checks import avals_of, plain_ops, samples

OPS = {n: op for n, op in plain_ops().items() if op.kind not in (Kind.OPAQUE, Kind.COMPOSITE)}


class Scalars:
    """The kernel builder with every loop variable at the begin of the kernel's range."""

    def __init__(self, kernel: KernelBuilder) -> None:
        self._kernel = kernel

    def index(self, expression: int | Dim) -> Val:
        return self._kernel.begin if isinstance(expression, Dim) else self._kernel.index(expression)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def write(formula: Formula, avals: list[Aval], lanes: int) -> list[Val]:
    """What the formula gives for one element (or for a vector of them)."""
    kernel = KernelBuilder.kernel("k", [a.dtype for a in avals])
    s = Scalars(kernel)
    values = [kernel.load(kernel.buffers[r.operand], kernel.begin, lanes=lanes) for r in formula.reads]
    found = as_tuple(formula.scalar(s, *values))
    monoid = formula.monoid
    if monoid is not None:
        state = as_tuple(monoid.lift(s, *found))
        init = tuple(kernel.const(i, d) for i, d in zip(monoid.init, monoid.dtypes, strict=True))
        merged = as_tuple(monoid.combine(s, init, state))
        assert [v.dtype for v in merged] == list(monoid.dtypes)
        found = as_tuple(monoid.finish(s, merged))
    kernel.finish().verify()
    return list(found)


@pytest.mark.parametrize("name", OPS)
def test_formulas_fit_the_kernel_builder(name: str) -> None:
    op = OPS[name]
    seen = set()
    for sample in samples(op):
        avals = avals_of(sample.arrays)
        key = (*(a.dtype for a in avals), str(sample.params))
        if key in seen or any(a.size == 0 for a in avals):
            continue
        seen.add(key)
        results = op.result_avals(avals, sample.params)
        formula = op.formula(avals, results, **sample.params)
        for lanes in (1, 8):
            found = write(formula, avals, lanes)
            assert [v.dtype for v in found] == [r.dtype.compute for r in results]
    assert seen
