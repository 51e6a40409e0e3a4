"""Intervals of integer values, and which ops index by values that are never out of range.

An index that is clamped, counted, found by `argmax` or `sort`, or taken modulo an extent needs no check while the
program runs; a program without checks need not report faults at all. Every integer or bool value of a block gets an
interval, from its type and from how it is made; bounds may be dim expressions. What holds for every element counts:
values are looked at one by one, except that the branches of ``select(x < c, f(x), x)`` know what was asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.ops.monoids import dtype_limits
from firebox.dims import DimLike
from firebox.dtypes import DType, i64
from firebox.lowering.access import formula_of, owner_op

IN_RANGE = "in_range"
"""Attribute of an op whose indices are proven to be in range."""

_LOOK_BACK = 4
"""Ops between a value that was compared and one that is chosen."""


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``, both included."""

    low: DimLike
    high: DimLike


def prove_indices(block: Block) -> None:
    """Mark the ops of a block, and of the blocks in it, whose indices are in range for any data."""
    ops = [op for op in block.walk() if isinstance(op, NdOp)]
    if not any(op.checks_indices for op in ops):
        return
    ranges = Ranges()
    for op in ops:
        if op.checks_indices and ranges.in_range(op):
            op.attributes[IN_RANGE] = UnitAttr()
        for result in op.results:
            ranges.of(result)  # in order, so that no chain of ops is followed all at once


def is_checked(op: NdOp) -> bool:
    """The op may meet an index that is out of range; ops of other packages may do what they like."""
    return not op.name.startswith("nd.") or (op.checks_indices and IN_RANGE not in op.attributes)


class Ranges:
    """The intervals of values, each found once."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, Interval | None] = {}

    def in_range(self, op: NdOp) -> bool:
        """Every index of a gather or scatter is in range."""
        found = self.of(op._operands[1])
        size = op.operand_avals[0].shape[op.values["axis"]]
        return found is not None and _at_most(0, found.low) and _at_most(found.high, size - 1)

    def of(self, value: SSAValue) -> Interval | None:
        """The interval of all elements of a value; None for floats."""
        if value not in self.known:
            self.known[value] = self._find(value)
        return self.known[value]

    def _find(self, value: SSAValue) -> Interval | None:
        dtype = aval_of(value.type).dtype
        if dtype.is_float:
            return None
        op = owner_op(value)
        found = None if op is None else self._made(op, value)
        return found if found is not None and _fits(found, dtype) else _whole(dtype)

    def _made(self, op: NdOp, value: SSAValue) -> Interval | None:
        """What the op says of its result; None where that is nothing."""
        if op.movement:
            return self._moved(op)
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op, value)
        pair = _PAIRS.get(op.name)
        if pair is None:
            return None
        found = [self.of(operand) for operand in op._operands]
        return pair(*found) if all(interval is not None for interval in found) else None

    def _moved(self, op: NdOp) -> Interval | None:
        """All that is moved, and the fill value where nothing is; joined arrays leave no gap."""
        found: Interval | None = None
        for read in formula_of(op).reads:
            found = _union(found, self.of(op._operands[read.operand]))
            if read.guards and len(op._operands) == 1:
                found = _union(found, Interval(int(read.fill), int(read.fill)))
        return found

    def select(self, op: NdOp) -> Interval | None:
        """The branch that is taken, as far as the condition is known; else either, knowing what was asked."""
        condition, a, b = op._operands
        known = self.of(condition)
        if known is not None and known.low == known.high:
            return self.of(a if known.low == 1 else b)
        return _union(self._where(a, condition, True), self._where(b, condition, False))

    def _where(self, value: SSAValue, condition: SSAValue, holds: bool) -> Interval | None:
        """The interval of a value for the elements at which a condition holds, or does not."""
        known: dict[SSAValue, Interval] = {}
        for name, subject, limit in self._facts(condition, holds):
            before, bound = known.get(subject) or self.of(subject), self.of(limit)
            if before is not None and bound is not None:
                known[subject] = _ASKED[name](before, bound)
        return self._given(value, known, _LOOK_BACK) if known else self.of(value)

    def _facts(self, condition: SSAValue, holds: bool) -> list[tuple[str, SSAValue, SSAValue]]:
        """Comparisons (op, subject, limit) that are true where a condition holds, or where it does not."""
        op = owner_op(condition)
        if op is None:
            return []
        if op.name in _ASKED:
            subject, limit = op._operands
            return [(op.name if holds else _OPPOSITE[op.name], subject, limit)]
        if op.name != "nd.bitwise_and":
            return []
        parts = list(op._operands)
        if not holds:  # one of them does not; it is known which if the other always does
            parts = [part for part in parts if self.of(part) != Interval(1, 1)]
        return [fact for part in parts for fact in self._facts(part, holds)] if holds or len(parts) == 1 else []

    def _given(self, value: SSAValue, known: Mapping[SSAValue, Interval], depth: int) -> Interval | None:
        """The interval of a value that is, element by element, a function of values of which more is known."""
        if value in known:
            return known[value]
        op = owner_op(value)
        pair = _PAIRS.get(op.name) if op is not None else None
        if op is None or pair is None or depth == 0:
            return self.of(value)
        found = [self._given(operand, known, depth - 1) for operand in op._operands]
        made = pair(*found) if all(interval is not None for interval in found) else None
        return made if made is not None and _fits(made, aval_of(value.type).dtype) else self.of(value)


def _whole(dtype: DType) -> Interval:
    return Interval(0, 1) if dtype.is_bool else Interval(*dtype_limits(dtype))


def _fits(found: Interval, dtype: DType) -> bool:
    """No element leaves the type. Sizes of arrays fit in i64, and so do their sums."""
    symbolic = not (isinstance(found.low, int) and isinstance(found.high, int))
    if symbolic and dtype is not i64:
        return False
    low, high = (0, 1) if dtype.is_bool else dtype_limits(dtype)
    return (not isinstance(found.low, int) or low <= found.low) and (
        not isinstance(found.high, int) or found.high <= high
    )


def _at_most(a: DimLike, b: DimLike) -> bool:
    return dims.never_negative(b - a)


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return a or b
    return Interval(_least(a.low, b.low), _most(a.high, b.high))


def _least(a: DimLike, b: DimLike) -> DimLike:
    return a if _at_most(a, b) else b if _at_most(b, a) else dims.minimum(a, b)


def _most(a: DimLike, b: DimLike) -> DimLike:
    return b if _at_most(a, b) else a if _at_most(b, a) else dims.maximum(a, b)


def _counted(size: DimLike) -> Interval | None:
    """Positions in an extent; none where it may be empty."""
    return Interval(0, size - 1) if _at_most(1, size) else None


# ---- ops of several operands -------------------------------------------------------------------------------------


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _sub(a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


def _corners(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval | None]:
    """The rule of a function that is largest and smallest at the ends of its operands."""

    def rule(a: Interval, b: Interval) -> Interval | None:
        ends = (a.low, a.high, b.low, b.high)
        numbers = [end for end in ends if isinstance(end, int)]
        if len(numbers) < len(ends):
            return None
        found = [function(x, y) for x in numbers[:2] for y in numbers[2:]]
        return Interval(min(found), max(found))

    return rule


def _floordiv(a: Interval, b: Interval) -> Interval | None:
    return _corners(lambda x, y: x // y)(a, b) if _at_most(1, b.low) else None


def _mod(a: Interval, b: Interval) -> Interval | None:
    """From 0 to b - 1 for a positive b; a itself where it is smaller."""
    if not _at_most(1, b.low):
        return None
    inside = _at_most(0, a.low) and _at_most(a.high, b.low - 1)
    return a if inside else Interval(0, b.high - 1)


def _max(a: Interval, b: Interval) -> Interval:
    return Interval(_most(a.low, b.low), _most(a.high, b.high))


def _min(a: Interval, b: Interval) -> Interval:
    return Interval(_least(a.low, b.low), _least(a.high, b.high))


def _bits(a: Interval, b: Interval) -> Interval | None:
    """Bits of both: no more than an operand that is not negative."""
    if isinstance(a.low, int) and isinstance(b.low, int) and (a.low, b.low) == (a.high, b.high):
        return Interval(a.low & b.low, a.low & b.low)
    highs = [x.high for x in (a, b) if _at_most(0, x.low)]
    if not highs:
        return None
    return Interval(0, highs[0] if len(highs) == 1 else _least(*highs))


def _either(a: Interval, b: Interval) -> Interval | None:
    """The larger of two bits."""
    if not all(_at_most(0, x.low) and _at_most(x.high, 1) for x in (a, b)):
        return None
    return Interval(_most(a.low, b.low), _most(a.high, b.high))


def _abs(a: Interval) -> Interval | None:
    if not (isinstance(a.low, int) and isinstance(a.high, int)):
        return a if _at_most(0, a.low) else None
    nearest = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(nearest, max(abs(a.low), abs(a.high)))


_PAIRS: Mapping[str, Callable[..., Interval | None]] = {
    "nd.add": _add,
    "nd.sub": _sub,
    "nd.mul": _corners(lambda x, y: x * y),
    "nd.floordiv": _floordiv,
    "nd.mod": _mod,
    "nd.max": _max,
    "nd.min": _min,
    "nd.bitwise_and": _bits,
    "nd.bitwise_or": _either,
    "nd.abs": _abs,
    "nd.neg": lambda a: Interval(0 - a.high, 0 - a.low),
    "nd.lt": lambda a, b: _answer(_at_most(a.high + 1, b.low), _at_most(b.high, a.low)),
    "nd.le": lambda a, b: _answer(_at_most(a.high, b.low), _at_most(b.high + 1, a.low)),
    "nd.gt": lambda a, b: _answer(_at_most(b.high + 1, a.low), _at_most(a.high, b.low)),
    "nd.ge": lambda a, b: _answer(_at_most(b.high, a.low), _at_most(a.high + 1, b.low)),
    "nd.logical_not": lambda a: Interval(1 - a.high, 1 - a.low),
}
"""Rules from the intervals of all operands to that of the result."""


def _answer(always: bool, never: bool) -> Interval:
    return Interval(1 if always else 0, 0 if never else 1)


# ---- what a comparison tells of its first operand ----------------------------------------------------------------

_ASKED: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "nd.lt": lambda a, b: Interval(a.low, _least(a.high, b.high - 1)),
    "nd.le": lambda a, b: Interval(a.low, _least(a.high, b.high)),
    "nd.gt": lambda a, b: Interval(_most(a.low, b.low + 1), a.high),
    "nd.ge": lambda a, b: Interval(_most(a.low, b.low), a.high),
}
_OPPOSITE = {"nd.lt": "nd.ge", "nd.le": "nd.gt", "nd.gt": "nd.le", "nd.ge": "nd.lt"}


# ---- ops with rules of their own ---------------------------------------------------------------------------------


def _constant(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    array = op.values["value"].array()
    return Interval(int(array.min()), int(array.max())) if array.size else None


def _iota(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    return Interval(0, op.values["shape"][op.values["axis"]] - 1)


def _dim_size(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    (size,) = op.values["size"]
    return Interval(size, size)


def _extreme(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    return _counted(op.operand_avals[0].shape[op.values["axes"][0]])


def _sort(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    if value is op.results[0]:
        return ranges.of(op._operands[0])
    return Interval(0, op.operand_avals[0].shape[op.values["axis"]] - 1)


def _cast(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    """The same numbers, if all of them fit; what does not fit is found out behind the rule."""
    dtype = op.avals[0].dtype
    found = ranges.of(op._operands[0])
    if found is None or not dtype.is_bool:
        return found
    return Interval(1 if _at_most(1, found.low) else 0, 0 if found.low == found.high == 0 else 1)


def _elements(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    """Some elements of the first operand."""
    return ranges.of(op._operands[0])


def _picked(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    """The smallest or largest elements along axes that are not empty."""
    shape = op.operand_avals[0].shape
    return ranges.of(op._operands[0]) if all(_at_most(1, shape[a]) for a in op.values["axes"]) else None


def _select(ranges: Ranges, op: NdOp, value: SSAValue) -> Interval | None:
    return ranges.select(op)


_RULES: Mapping[str, Callable[[Ranges, NdOp, SSAValue], Interval | None]] = {
    "nd.constant": _constant,
    "nd.iota": _iota,
    "nd.dim_size": _dim_size,
    "nd.argmax": _extreme,
    "nd.argmin": _extreme,
    "nd.sort": _sort,
    "nd.cast": _cast,
    "nd.stop_gradient": _elements,
    "nd.gather": _elements,
    "nd.take_along_axis": _elements,
    "nd.reduce_max": _picked,
    "nd.reduce_min": _picked,
    "nd.select": _select,
}
