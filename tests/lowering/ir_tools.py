"""Writing nd modules in Python for the tests of passes, parsing them, and running them before and after a pass."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser

from firebox.dialects import xdsl_compat
from firebox.dialects.nd import ND
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import Array, NdOp
from firebox.dialects.nd.control import CondOp, ScanOp, WhileOp
from firebox.dialects.nd.transform import (
    CheckpointOp,
    CustomVjpOp,
    GradOp,
    JvpOp,
    RegionOp,
    VmapOp,
    yield_values,
)
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dims import DimLike
from firebox.dtypes import as_dtype
from firebox.lowering.interpret import interpret
from firebox.lowering.rewrite import constant

Function = Callable[..., Any]


def aval(dtype: str, *shape: DimLike) -> Aval:
    return Aval(as_dtype(dtype), shape)


def f64(*shape: DimLike) -> Aval:
    return aval("f64", *shape)


class Scope:
    """Where the program that is being written stands; `here` brings values of an outer region into it."""

    blocks: list[Block]
    inserters: list[Inserter]

    def __init__(self) -> None:
        self.blocks, self.inserters = [], []

    @property
    def at(self) -> Inserter:
        return self.inserters[-1]

    def fill(self, function: Function, avals: Sequence[Aval]) -> tuple[Block, tuple[SSAValue, ...]]:
        block = block_of(avals)
        self.blocks.append(block)
        self.inserters.append(Inserter(block))
        found = function(*(Value(a, self.at) for a in block.args))
        results = (found,) if isinstance(found, Value) else tuple(found)
        self.blocks.pop()
        self.inserters.pop()
        return block, tuple(v.ssa for v in results)

    def region(self, function: Function, avals: Sequence[Aval]) -> Block:
        block, results = self.fill(function, avals)
        block.add_op(yield_values(results))
        return block

    def insert(self, op: RegionOp) -> tuple[Value, ...]:
        self.blocks[-1].add_op(op)
        return tuple(Value(r, self.at) for r in op.results)


_SCOPE = Scope()


def here(value: Value) -> Value:
    """A value of an outer region, for use in the region that is being written."""
    return Value(value.ssa, _SCOPE.at)


def number(value: float, dtype: str = "f64") -> Value:
    return constant(_SCOPE.at, value, as_dtype(dtype))


def module(function: Function, *avals: Aval) -> ModuleOp:
    """A module whose @main computes ``function(*values)``; verified."""
    block, results = _SCOPE.fill(function, avals)
    block.add_op(ReturnOp(*results))
    types = ([a.type for a in block.args], [v.type for v in results])
    result = ModuleOp([FuncOp("main", types, Region(block))])
    xdsl_compat.verify(result)
    return result


def grad(function: Function, wrt: Sequence[Value], cotangents: Sequence[Value]) -> tuple[Value, ...]:
    """Gradients by all of ``wrt``, then what the function gives; one cotangent for each of its first results."""
    block = _SCOPE.region(function, [v.aval for v in wrt])
    operands = [v.ssa for v in (*wrt, *cotangents)]
    return _SCOPE.insert(GradOp.build_region_op(operands, {"wrt": len(wrt), "seeds": len(cotangents)}, [block]))


def jvp(function: Function, primals: Sequence[Value], tangents: Sequence[Value], seeds: int = 1) -> tuple[Value, ...]:
    block = _SCOPE.region(function, [v.aval for v in primals])
    operands = [v.ssa for v in (*primals, *tangents)]
    return _SCOPE.insert(JvpOp.build_region_op(operands, {"wrt": len(primals), "seeds": seeds}, [block]))


def vmap(
    function: Function, operands: Sequence[Value], in_axes: Sequence[int], out_axes: Sequence[int], size: DimLike
) -> tuple[Value, ...]:
    avals = []
    for value, axis in zip(operands, in_axes, strict=True):
        shape = value.shape if axis < 0 else value.shape[:axis] + value.shape[axis + 1 :]
        avals.append(Aval(value.dtype, shape))
    params = {"in_axes": tuple(in_axes), "out_axes": tuple(out_axes), "size": (size,)}
    block = _SCOPE.region(function, avals)
    return _SCOPE.insert(VmapOp.build_region_op([v.ssa for v in operands], params, [block]))


def checkpoint(function: Function, *operands: Value) -> tuple[Value, ...]:
    block = _SCOPE.region(function, [v.aval for v in operands])
    return _SCOPE.insert(CheckpointOp.build_region_op([v.ssa for v in operands], {}, [block]))


def custom_vjp(forward: Function, backward: Function, results: int, *operands: Value) -> tuple[Value, ...]:
    first = _SCOPE.region(forward, [v.aval for v in operands])
    yields = [aval_of(v.type) for v in first.last_op.operands] if first.last_op is not None else []
    second = _SCOPE.region(backward, [*yields[results:], *yields[:results]])
    op = CustomVjpOp.build_region_op([v.ssa for v in operands], {"results": results}, [first, second])
    return _SCOPE.insert(op)


def cond(which: Value, then: Function, otherwise: Function, *operands: Value) -> tuple[Value, ...]:
    """One of two functions; what they use from outside comes in by itself, as in `scan` and `loop`."""
    blocks = [_SCOPE.region(f, [v.aval for v in operands]) for f in (then, otherwise)]
    return _SCOPE.insert(CondOp.closed([which.ssa, *(v.ssa for v in operands)], {}, blocks))


def loop(condition: Function, body: Function, *carry: Value) -> tuple[Value, ...]:
    """A while loop."""
    blocks = [_SCOPE.region(f, [v.aval for v in carry]) for f in (condition, body)]
    return _SCOPE.insert(WhileOp.closed([v.ssa for v in carry], {"carry": len(carry)}, blocks))


def scan(
    function: Function, carry: Sequence[Value], slices: Sequence[Value], length: DimLike, reverse: bool = False
) -> tuple[Value, ...]:
    """A scan of a function of the carried values, then a slice of each of ``slices``."""
    avals = [*(v.aval for v in carry), *(Aval(v.dtype, v.shape[1:]) for v in slices)]
    params = {"carry": len(carry), "slices": len(slices), "length": (length,), "reverse": reverse}
    operands = [v.ssa for v in (*carry, *slices)]
    return _SCOPE.insert(ScanOp.closed(operands, params, [_SCOPE.region(function, avals)]))


def parse(text: str) -> ModuleOp:
    """A verified module from its text; the @main function may stand alone."""
    context = Context()
    for dialect in (Builtin, Func, ND):
        context.load_dialect(dialect)
    result = Parser(context, text).parse_module()
    xdsl_compat.verify(result)
    return result


def ops(program: ModuleOp, name: str = "") -> list[NdOp]:
    """The nd ops in program order, or those of one name (without ``nd.``)."""
    return [op for op in program.walk() if isinstance(op, NdOp) and name in ("", op.name.removeprefix("nd."))]


def names(program: ModuleOp) -> list[str]:
    return [op.name.removeprefix("nd.") for op in ops(program)]


def check_pass(
    apply: Callable[[ModuleOp], object], program: ModuleOp, inputs: Sequence[Array], rtol: float = 0.0
) -> ModuleOp:
    """Apply a pass to a copy; the copy is valid, means the same, and a second application changes nothing."""
    after = program.clone()
    apply(after)
    xdsl_compat.verify(after)
    for expected, found in zip(interpret(program, inputs), interpret(after, inputs), strict=True):
        assert found.dtype == expected.dtype
        _equal(found, expected, rtol)
    again = after.clone()
    apply(again)
    assert str(again) == str(after)
    return after


def _equal(found: Array, expected: Array, rtol: float) -> None:
    if rtol:
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(found, expected)


def arrays(seed: int, *avals: Aval) -> list[Array]:
    """Random inputs in [-2, 2] (integers in [-4, 4])."""
    rng = np.random.default_rng(seed)
    found = []
    for a in avals:
        shape = tuple(d for d in a.shape if isinstance(d, int))
        if a.dtype.is_float:
            values: Array = rng.uniform(-2, 2, shape)
        else:
            values = rng.integers(0, 2, shape) if a.dtype.is_bool else rng.integers(-4, 5, shape)
        found.append(np.asarray(values).astype(a.dtype.numpy))
    return found


def numeric_gradient(function: Callable[[Array], Array], x: Array, cotangent: Array, step: float = 1e-5) -> Array:
    """Central differences of ``sum(cotangent * function(x))`` in float64; error about step**2."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = np.sum(cotangent * (function(up) - function(down))) / (2 * step)
    return gradient
