"""A scalar builder over NumPy, and the evaluation of any `Formula` with it: the check that formulas mean what ops mean.

Values are whole arrays, one element per turn of the loops. Types are as strict as in generated code: operands must
agree, f16 and bf16 exist in memory only, and what is stored must have the compute type of the result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firebox import dims
from firebox.dialects.kernel.values import INDEX
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array
from firebox.dialects.nd.formula import Formula, Guard, Read
from firebox.dialects.nd.ops.convert import cast_array
from firebox.dialects.nd.ops.elementwise_binary import Pow
from firebox.dialects.nd.ops.elementwise_unary import Erf, Rsqrt, Sigmoid
from firebox.dims import Dim, DimLike
from firebox.dtypes import DType, as_dtype, bf16, bool_, f16, i64
from firebox.errors import CompilerError


@dataclass(frozen=True, eq=False)
class Val:
    """Elements of one type; ``dtype`` is a compute type, or INDEX."""

    array: Array
    dtype: DType


_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "exp2": np.exp2,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": Rsqrt.function,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "erf": Erf.function,
    "sigmoid": Sigmoid.function,
    "not_": np.invert,
}
_ROUNDING: dict[str, Callable[..., Any]] = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "copysign": np.copysign,
    "pow": Pow.function,
    "max": np.maximum,
    "min": np.minimum,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
_QUESTIONS: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


class NumpyScalars:
    """The scalar builder; `loops` gives the values of loop variables (and of earlier reads, ``v0``...)."""

    def __init__(self, loops: Mapping[str, Array]) -> None:
        self.loops = loops

    def const(self, value: float | int | bool, dtype: DType) -> Val:
        """A constant of the type's compute type; integers wrap."""
        compute = dtype.compute
        if compute.is_int:
            bits = 8 * compute.itemsize
            wrapped = int(value) & ((1 << bits) - 1)
            return Val(np.asarray(wrapped, f"u{compute.itemsize}").astype(compute.numpy), compute)
        return Val(np.asarray(value, compute.numpy), compute)

    def index(self, expression: DimLike) -> Val:
        """The value of an index expression."""
        return Val(np.asarray(evaluate_index(expression, self.loops)), INDEX)

    def cast(self, x: Val, dtype: DType) -> Val:
        """As another type; to f16 and bf16 rounds to that precision."""
        array = cast_array(x.array, dtype)
        return Val(array.astype(dtype.compute.numpy), dtype.compute)

    def bitcast(self, x: Val, dtype: DType) -> Val:
        """The same bits as another type of the same size."""
        if x.dtype.itemsize != dtype.itemsize or bool_ in (x.dtype, dtype) or dtype in (f16, bf16):
            raise CompilerError("a bitcast keeps the width", op="bitcast", expected=x.dtype.name, found=dtype.name)
        return Val(x.array.view(dtype.numpy), dtype)

    def select(self, condition: Val, a: Any, b: Any) -> Val:
        """a where the condition holds, else b."""
        if condition.dtype is not bool_:
            raise CompilerError("a condition must be bool", op="select", found=condition.dtype.name)
        first, second = self._pair(a, b)
        return Val(np.where(condition.array, first.array, second.array), first.dtype)

    def fma(self, a: Any, b: Any, c: Any) -> Val:
        """a * b + c (with two roundings here)."""
        return self._binary("add", self._binary("mul", a, b), c)

    def __getattr__(self, name: str) -> Callable[..., Val]:
        if name in _BINARY:
            return lambda a, b: self._binary(name, a, b)
        if name in _QUESTIONS:
            return lambda *operands: self._question(name, *operands)
        if name in _UNARY:
            return lambda x: Val(np.asarray(_UNARY[name](x.array)).astype(x.dtype.numpy), x.dtype)
        if name in _ROUNDING:
            return lambda x: Val(_ROUNDING[name](x.array), x.dtype) if x.dtype.is_float else x
        raise AttributeError(name)

    def _binary(self, name: str, a: Any, b: Any) -> Val:
        first, second = self._pair(a, b)
        if name == "div" and not first.dtype.is_float:
            raise CompilerError("takes floats", op="div", found=first.dtype.name)
        result = np.asarray(_BINARY[name](first.array, second.array))
        if result.dtype != first.dtype.numpy:
            raise CompilerError("no such operation for this element type", op=name, found=first.dtype.name)
        return Val(result, first.dtype)

    def _question(self, name: str, *operands: Any) -> Val:
        pair = self._pair(*operands) if len(operands) == 2 else operands
        return Val(np.asarray(_QUESTIONS[name](*(v.array for v in pair))), bool_)

    def _pair(self, a: Any, b: Any) -> tuple[Val, Val]:
        """Both of one type: Python numbers and an INDEX take the other's."""
        if not isinstance(a, Val):
            a = self.const(a, b.dtype if isinstance(b, Val) else i64)
        if not isinstance(b, Val):
            b = self.const(b, a.dtype)
        if a.dtype is INDEX and b.dtype.is_int:
            a = Val(a.array.astype(b.dtype.numpy), b.dtype)
        elif b.dtype is INDEX and a.dtype.is_int:
            b = Val(b.array.astype(a.dtype.numpy), a.dtype)
        if a.dtype is not b.dtype:
            raise CompilerError("operands of different types", expected=a.dtype.name, found=b.dtype.name)
        return a, b


def evaluate_index(expression: DimLike, loops: Mapping[str, Array]) -> Any:
    """An index expression over arrays of loop variables."""
    if not isinstance(expression, Dim):
        return np.int64(expression)
    total: Any = np.int64(0)
    for monomial, coefficient in expression.terms:
        factor: Any = np.int64(coefficient)
        for atom in monomial:
            factor = factor * (loops[atom] if isinstance(atom, str) else _call(atom, loops))
        total = total + factor
    return total


def _call(atom: dims.Call, loops: Mapping[str, Array]) -> Any:
    function = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}[atom.function]
    return function(evaluate_index(atom.lhs, loops), evaluate_index(atom.rhs, loops))


def evaluate_formula(
    formula: Formula, arrays: Sequence[Array], results: Sequence[Aval], dim_values: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """The results of an op, computed from its formula.

    Args:
        results: avals of the results; what the formula gives must have their types and extents.
        dim_values: values of symbolic dims.

    Raises:
        CompilerError: the formula reads outside of an operand without a guard, or gives another type than the op says.
    """
    known = dict(dim_values or {})
    extents = tuple(dims.evaluate(d, known) for d in formula.extents)
    reduced = tuple(dims.evaluate(d, known) for d in formula.reduced)
    loops = _loop_values(extents, reduced, known)
    scalars = NumpyScalars(loops)
    with np.errstate(all="ignore"):
        values = []
        for k, read in enumerate(formula.reads):
            value = _read(read, arrays[read.operand], loops)
            values.append(value)
            if value.dtype.is_int:
                loops[f"v{k}"] = value.array.astype(np.int64)
        found = _tuple(formula.scalar(scalars, *values))
        if formula.monoid is not None:
            found = _reduce(formula, scalars, found, extents, reduced)
    return tuple(_stored(v, a, extents) for v, a in zip(found, results, strict=True))


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _loop_values(extents: tuple[int, ...], reduced: tuple[int, ...], known: Mapping[str, int]) -> dict[str, Array]:
    rank = len(extents) + len(reduced)
    names = [f"i{k}" for k in range(len(extents))] + [f"r{k}" for k in range(len(reduced))]
    loops = {name: np.asarray(value, np.int64) for name, value in known.items()}
    for k, (name, extent) in enumerate(zip(names, extents + reduced, strict=True)):
        loops[name] = np.arange(extent, dtype=np.int64).reshape([-1 if d == k else 1 for d in range(rank)])
    return loops


def _read(read: Read, array: Array, loops: Mapping[str, Array]) -> Val:
    dtype = as_dtype(array.dtype)
    at = np.broadcast_arrays(*(evaluate_index(e, loops) for e in read.index), *([0] if not read.index else []))
    shape = np.broadcast_shapes(*(a.shape for a in at), *(_holds(g, loops).shape for g in read.guards))
    inside = np.full(shape, all(turns.size for turns in loops.values()))  # without turns, nothing is read
    for guard in read.guards:
        inside = inside & _holds(guard, loops)
    for position, size in zip(at, array.shape, strict=False):
        if np.any(inside & ((position < 0) | (position >= size))):
            raise CompilerError("a formula reads outside of its operand", found=read)
    fill = np.asarray(read.fill).astype(array.dtype)
    if not inside.any():
        values = np.broadcast_to(fill, shape)
    else:
        positions = tuple(np.where(inside, position, 0) for position in at[: array.ndim])
        values = np.where(inside, array[positions], fill)
    return Val(np.asarray(values).astype(dtype.compute.numpy), dtype.compute)


def _holds(guard: Guard, loops: Mapping[str, Array]) -> Any:
    value = np.asarray(evaluate_index(guard.expression, loops))
    size = evaluate_index(guard.size, loops)
    return (value >= 0) & (value < size) & (np.asarray(evaluate_index(guard.multiple, loops)) % guard.divisor == 0)


def _reduce(
    formula: Formula, s: NumpyScalars, values: tuple[Val, ...], extents: tuple[int, ...], reduced: tuple[int, ...]
) -> tuple[Val, ...]:
    """Combine over the reduced loops, in a tree of neighbours: the order of the loops is kept."""
    monoid = formula.monoid
    assert monoid is not None
    lifted = _tuple(monoid.lift(s, *values))
    init = tuple(s.const(value, dtype) for value, dtype in zip(monoid.init, monoid.dtypes, strict=True))
    for value, identity in zip(lifted, init, strict=True):
        if value.dtype is not identity.dtype:
            raise CompilerError("lift gives another type", expected=identity.dtype.name, found=value.dtype.name)
    count = int(np.prod(reduced))
    state = tuple(Val(np.broadcast_to(v.array, extents + reduced).reshape((*extents, count)), v.dtype) for v in lifted)
    while count > 1:
        left, right = _every_second(state, 0), _every_second(state, 1)
        if count % 2:
            right = tuple(_padded(r, i) for r, i in zip(right, init, strict=True))
        state, count = _tuple(monoid.combine(s, left, right)), (count + 1) // 2
    last = init if count == 0 else tuple(Val(v.array[..., 0], v.dtype) for v in state)
    return _tuple(monoid.finish(s, last))


def _every_second(state: tuple[Val, ...], start: int) -> tuple[Val, ...]:
    return tuple(Val(v.array[..., start::2], v.dtype) for v in state)


def _padded(value: Val, identity: Val) -> Val:
    one = np.broadcast_to(identity.array, (*value.array.shape[:-1], 1))
    return Val(np.concatenate([value.array, one], axis=-1), value.dtype)


def _stored(value: Val, aval: Aval, extents: tuple[int, ...]) -> Array:
    if value.dtype is not aval.dtype.compute:
        raise CompilerError("a formula gives another type", expected=aval.dtype.compute.name, found=value.dtype.name)
    array = np.asarray(value.array)
    if array.ndim > len(extents):
        array = array.reshape(array.shape[: len(extents)])
    return np.broadcast_to(array, extents).astype(aval.dtype.numpy)
