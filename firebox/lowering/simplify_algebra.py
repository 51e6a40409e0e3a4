"""Algebra that holds for every value, infinities, NaN and signed zeros included; entered into the table of patterns."""

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.xdsl_compat import operands_of
from firebox.dtypes import DType, Kind
from firebox.lowering.patterns import Replacement, Rewriter, defined_by, is_number, pattern, uniform


@pattern("nd.add")
def add_zero(op: NdOp, rw: Rewriter) -> Replacement:
    """x + 0 is x for integers; for floats the neutral number is -0.0, since -0.0 + 0.0 is 0.0."""
    neutral = -0.0 if rw.aval.dtype.is_float else 0
    a, b = operands_of(op)
    if is_number(b, neutral):
        return rw.fitted(a)
    return rw.fitted(b) if is_number(a, neutral) else None


@pattern("nd.sub")
def sub_zero(op: NdOp, rw: Rewriter) -> Replacement:
    """x - 0 is x (also for -0.0), and 0 - x is -x for integers."""
    a, b = operands_of(op)
    if is_number(b, 0):
        return rw.fitted(a)
    if rw.aval.dtype.is_int and is_number(a, 0):
        return (-rw.value(b)).broadcast_to(rw.aval.shape)
    return None


@pattern("nd.mul")
def mul_constant(op: NdOp, rw: Rewriter) -> Replacement:
    """x * 1 is x, x * -1 is -x, and x * 0 is 0 for integers only (NaN * 0 is NaN)."""
    a, b = operands_of(op)
    for x, factor in ((a, b), (b, a)):
        if is_number(factor, 1):
            return rw.fitted(x)
        if is_number(factor, -1):
            return (-rw.value(x)).broadcast_to(rw.aval.shape)
        if not rw.aval.dtype.is_float and is_number(factor, 0):
            return rw.filled(0)
    return None


@pattern("nd.div", "nd.floordiv")
def div_one(op: NdOp, rw: Rewriter) -> Replacement:
    """x / 1 is x; x // 1 is x for integers."""
    a, b = operands_of(op)
    exact = op.name == "nd.div" or rw.aval.dtype.is_int
    return rw.fitted(a) if exact and is_number(b, 1) else None


@pattern("nd.neg", "nd.logical_not", "nd.bitwise_not")
def twice(op: NdOp, rw: Rewriter) -> Replacement:
    """-(-x) is x, and so for both kinds of not."""
    inner = defined_by(operands_of(op)[0], op.name)
    return rw.value(operands_of(inner)[0]) if inner is not None else None


@pattern("nd.abs")
def abs_of_sign(op: NdOp, rw: Rewriter) -> Replacement:
    """|-x| and ||x|| are |x|."""
    (x,) = operands_of(op)
    for name in ("nd.neg", "nd.abs"):
        inner = defined_by(x, name)
        if inner is not None:
            return rw.value(operands_of(inner)[0]).abs()
    return None


@pattern("nd.select")
def select_known(op: NdOp, rw: Rewriter) -> Replacement:
    """A constant condition, or the same value on both sides."""
    condition, a, b = operands_of(op)
    chosen = uniform(condition)
    if chosen is not None:
        return rw.fitted(a if chosen else b)
    if a is b:
        return rw.fitted(a)
    inner = defined_by(condition, "nd.logical_not")
    if inner is not None:
        return rw.value(operands_of(inner)[0]).one("select", rw.value(operands_of(inner)[0]), rw.value(b), rw.value(a))
    return None


@pattern("nd.pow")
def small_power(op: NdOp, rw: Rewriter) -> Replacement:
    """x**0, x**1, x**2, x**3 and 1/x as products; the others stay."""
    x, exponent = operands_of(op)
    number = uniform(exponent)
    if number is None or float(number) not in (-1, 0, 1, 2, 3):
        return None
    base = rw.value(x)
    power = int(number)
    if power == 0:
        return rw.filled(1)
    if power == -1:
        return (1.0 / base).broadcast_to(rw.aval.shape) if base.dtype.is_float else None
    if power == 3 and base.dtype.compute is not base.dtype:
        return None  # a product in the storage type would round twice
    result = base
    for _ in range(power - 1):
        result = result * base
    return result.broadcast_to(rw.aval.shape)


@pattern("nd.cast")
def cast_of_cast(op: NdOp, rw: Rewriter) -> Replacement:
    """A cast to the same type goes; one through a type that holds every value of the source is a single one."""
    (x,) = operands_of(op)
    target = rw.aval.dtype
    if aval_of(x.type).dtype is target:
        return rw.value(x)
    inner = defined_by(x, "nd.cast")
    if inner is None:
        return None
    (source,) = operands_of(inner)
    if holds_all(aval_of(source.type).dtype, aval_of(x.type).dtype):
        return rw.value(source).astype(target)
    return None


_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_EXPONENT = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}


def holds_all(source: DType, target: DType) -> bool:
    """Whether every value of ``source`` is one of ``target``, so that casting there and on loses nothing."""
    if target.is_bool or source.is_bool:
        return source.is_bool
    if source.is_float:
        wider = target.is_float and _MANTISSA[target.name] >= _MANTISSA[source.name]
        return wider and _EXPONENT[target.name] >= _EXPONENT[source.name]
    bits = 8 * source.itemsize - (source.kind is Kind.INT)
    if target.is_float:
        return bits <= _MANTISSA[target.name] and bits < 2 ** (_EXPONENT[target.name] - 1)
    if source.kind is Kind.INT and target.kind is Kind.UINT:
        return False
    return bits <= 8 * target.itemsize - (target.kind is Kind.INT)
