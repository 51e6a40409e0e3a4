"""`Body`: evaluates the values of a group at a point of its loops, emitting kernel ops; shared by all generators.

A value is asked for by index expressions over the loops. Movement is composed into the index, members are computed from
their formulas, block arguments are loaded: contiguous along the lane loop as one vector, constant along it as a scalar,
anything else lane by lane.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.formula import Guard, Read
from firebox.dims import DimLike, dim
from firebox.dtypes import bool_, i32, i64, u32, u64
from firebox.lowering.access import Index, formula_of, op_env, owner_op, substitute, substitute_guard
from firebox.lowering.generate.addressing import Addressing, Lane, linear, split, strides_of
from firebox.lowering.guards import op_id
from firebox.lowering.ranges import is_checked

INDEX_FAULT = 1


class Body(Addressing):
    """Evaluation of one group inside one kernel.

    Attributes:
        buffers: memory of the block arguments.
        op_ids: the program's table of ops.
        known: members that have a value at the present point (row values, accumulators).
        stored: members that can be reloaded: value -> (memory, offset, home).
        wide: indices from data that index values, or vectors of them, do not hold as they are.
    """

    def __init__(self, k: KernelBuilder, buffers: dict[SSAValue, Ref], op_ids: dict[str, int]) -> None:
        super().__init__(k)
        self.buffers = buffers
        self.op_ids = op_ids
        self.known: dict[SSAValue, Val] = {}
        self.stored: dict[SSAValue, tuple[Ref, DimLike, Index]] = {}
        self.wide: dict[DimLike, Val] = {}
        self._memo: dict[tuple[SSAValue, Index], Val] = {}
        self._fresh = 0

    # ---- scopes --------------------------------------------------------------------------------------------------

    def at_point(self) -> None:
        """Forget what was computed at the previous point (a new loop body starts)."""
        self._memo = {}

    # ---- values --------------------------------------------------------------------------------------------------

    def value(self, value: SSAValue, index: Index) -> Val:
        """The element of a value at an index; in f32 for f16 and bf16."""
        if value in self.known:
            return self.known[value]
        key = (value, index)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._evaluate(value, index)
        return found

    def _evaluate(self, value: SSAValue, index: Index) -> Val:
        if value in self.stored:
            ref, offset, home = self.stored[value]
            if index == home:
                return self._load(ref, offset, (), 0, invariant=False)
        op = owner_op(value)
        if op is None:
            return self._load(self.buffers[value], linear(index, aval_of(value.type).shape), (), 0)
        results = self.compute(op, op_env(op, index))
        for result, computed in zip(op.results, results, strict=True):
            self._memo[(result, index)] = computed
        return results[list(op.results).index(value)]  # type: ignore[arg-type]

    def compute(self, op: NdOp, env: dict[str, DimLike]) -> tuple[Val, ...]:
        """The scalar part of an op's formula, its loop names replaced by ``env``."""
        formula = formula_of(op)
        local = dict(env)
        values: list[Val] = []
        for position, read in enumerate(formula.reads):
            values.append(self.read(op, read, local))
            self._bind(f"v{position}", values[-1], local)
        self._locate(op)
        result = formula.scalar(Scalars(self, local), *values)
        return result if isinstance(result, tuple) else (result,)

    def _bind(self, name: str, value: Val, local: dict[str, DimLike]) -> None:
        """Let later reads of the same formula use an integer value in their index."""
        if value.dtype.is_int:
            self._fresh += 1
            fresh = f"w{self._fresh}"
            self.env[fresh] = self._narrow(value) if value.lanes > 1 else self.k.index(value)
            short = self.k.narrow if value.lanes == 1 else self._index_type() is i32
            if short and value.dtype in (u32, i64, u64):
                self.wide[dim(fresh)] = self.k.cast(value, i64)
            local[name] = dim(fresh)

    def read(self, op: NdOp, read: Read, env: dict[str, DimLike]) -> Val:
        """What a read of an op's formula gives, its loop names replaced by ``env``."""
        operand = op._operands[read.operand]
        shape = op.operand_avals[read.operand].shape
        index = substitute(read.index, env)
        for position, expression in enumerate(read.index):
            if _is_data(expression) and is_checked(op):
                index = self._checked(op, index, position, shape)
        index = tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))
        guards = tuple(substitute_guard(g, env) for g in read.guards if not _is_data(g.expression))
        if not guards:
            return self.value(operand, index)
        return self._guarded(operand, index, guards, read.fill)

    def _guarded(self, operand: SSAValue, index: Index, guards: tuple[Guard, ...], fill: float | int | bool) -> Val:
        """The element where the guards hold, else the fill value; no memory is touched outside of them."""
        dtype = aval_of(operand.type).dtype
        inside = self.condition(guards)
        op = owner_op(operand)
        if inside.const is True:
            return self.value(operand, index)
        if op is None and operand not in self.known:
            offset = linear(index, aval_of(operand.type).shape)
            return self._load(self.buffers[operand], offset, (inside,), fill)
        safe = self._clamped(index, aval_of(operand.type).shape, inside)
        return self.k.select(inside, self.value(operand, safe), self.k.const(fill, dtype))

    def _clamped(self, index: Index, shape: Shape, inside: Val) -> Index:
        """The index where it is inside, else 0: so that the operand can be computed everywhere."""
        result: list[DimLike] = []
        for expression in index:
            value = self.expression(expression)
            self._fresh += 1
            name = f"w{self._fresh}"
            zero = self.k.index(0) if value.lanes == 1 and inside.lanes == 1 else self.k.const(0, self._index_type())
            if inside.lanes > 1 and value.lanes == 1:
                value = self.k.broadcast(self._narrow(value), inside.lanes)
            self.env[name] = self.k.select(inside, value, zero)
            result.append(dim(name))
        return tuple(result)

    def condition(self, guards: Sequence[Guard]) -> Val:
        """The conjunction of guards as a bool, scalar or per lane."""
        k = self.k
        total: Val | None = None
        for guard in guards:
            for part in self._tests(guard):
                total = part if total is None else k.and_(*self._same_lanes(total, part))
        return k.const(True, bool_) if total is None else total

    def _same_lanes(self, a: Val, b: Val) -> tuple[Val, Val]:
        lanes = max(a.lanes, b.lanes)
        return self.k.broadcast(a, lanes), self.k.broadcast(b, lanes)

    def _tests(self, guard: Guard) -> list[Val]:
        k = self.k
        value = self.expression(guard.expression)
        size = self.expression(guard.size)
        if value.lanes > 1:
            size = self._narrow(size)
        tests = [k.ge(value, 0), k.lt(value, size)]
        if guard.divisor != 1:
            multiple = self.expression(guard.multiple)
            tests.append(k.eq(k.mod(multiple, guard.divisor), 0))
        return [t for t in tests if t.const is not True]

    def _checked(self, op: NdOp, index: Index, position: int, shape: Shape) -> Index:
        """A data-dependent index, replaced by 0 after noting a fault where it is out of range."""
        k = self.k
        value = self.expression(index[position])
        size = self.expression(shape[position])
        whole = self.wide.get(index[position], value)
        limit = k.cast(size, whole.dtype) if value.lanes > 1 else size
        inside = k.and_(k.ge(whole, 0), k.lt(whole, limit))
        bad = k.not_(inside)
        if self.lane is not None and self.lane.mask is not None and bad.lanes > 1:
            bad = k.and_(bad, self.lane.mask)
        any_bad = k.reduce("or", bad)
        k.if_(any_bad, lambda: k.fail(INDEX_FAULT, self.op_id(op), self._worst(whole, bad), size))
        zero = k.index(0) if value.lanes == 1 else k.const(0, value.dtype)
        self._fresh += 1
        name = f"w{self._fresh}"
        self.env[name] = k.select(inside, value, zero)
        return (*index[:position], dim(name), *index[position + 1 :])

    def _worst(self, value: Val, bad: Val) -> Val:
        """One offending index of a vector, for the message: the largest magnitude suffices."""
        if value.lanes == 1:
            return value
        k = self.k
        outside = k.select(bad, value, k.const(0, value.dtype))
        low, high = k.reduce("min", outside), k.reduce("max", outside)
        return k.index(k.select(k.lt(low, 0), low, high))

    # ---- memory --------------------------------------------------------------------------------------------------

    def _load(
        self, ref: Ref, offset: DimLike, guards: tuple[Val, ...], fill: float | int | bool, invariant: bool = True
    ) -> Val:
        k = self.k
        offset = self.resolve(offset)
        inside = guards[0] if guards else None
        base, contiguous = self._contiguous(offset)
        if contiguous:
            assert self.lane is not None
            mask = self._lane_mask(inside)
            return k.load(ref, base, self.lane.lanes, mask, fill, invariant=invariant)
        at = self.expression(offset)
        if at.lanes == 1 and (inside is None or inside.lanes == 1):
            return self._load_scalar(ref, at, inside, fill, invariant)
        lanes = max(at.lanes, inside.lanes if inside is not None else 1)
        at = k.broadcast(self._narrow(at), lanes)
        return k.gather(ref, at, self._lane_mask(inside), fill, invariant=invariant)

    def _load_scalar(self, ref: Ref, at: Val, inside: Val | None, fill: float | int | bool, invariant: bool) -> Val:
        k = self.k
        if inside is None:
            return k.load(ref, at, invariant=invariant)
        value = k.load(ref, k.select(inside, at, k.index(0)), invariant=invariant)
        return k.select(inside, value, k.const(fill, ref.dtype))

    def _contiguous(self, offset: DimLike) -> tuple[Val, bool]:
        """The address of lane 0 when lanes follow each other in memory."""
        nothing = self.k.index(0)
        if self.lane is None or isinstance(offset, int):
            return nothing, False
        rest, coefficient = split(offset, self.lane.name)
        if coefficient != 1 or self._varies(rest):
            return nothing, False
        return self._sum(offset), True

    def _lane_mask(self, inside: Val | None) -> Val | None:
        lane = self.lane
        mask = lane.mask if lane is not None else None
        if inside is None or lane is None:
            return mask if inside is None else inside
        wide = self.k.broadcast(inside, lane.lanes)
        return wide if mask is None else self.k.and_(wide, mask)

    def store(self, ref: Ref, offset: DimLike, value: Val, nontemporal: bool = False) -> None:
        """Write an element, or a vector along the lane loop."""
        k = self.k
        offset = self.resolve(offset)
        base, contiguous = self._contiguous(offset)
        if contiguous:
            assert self.lane is not None
            wide = k.broadcast(value, self.lane.lanes)
            k.store(ref, base, wide, self.lane.mask, nontemporal and self.lane.mask is None)
            return
        at = self.expression(offset)
        if at.lanes == 1:
            k.store(ref, at, value)
            return
        k.scatter(ref, at, k.broadcast(value, at.lanes), self._lane_mask(None))

    # ---- locations -----------------------------------------------------------------------------------------------

    def op_id(self, op: NdOp) -> int:
        """Number of the op in the program's table."""
        return op_id(op, self.op_ids)

    def _locate(self, op: NdOp) -> None:
        where = op.location
        if isinstance(where, FileLineColLoc):
            self.k.location = (where.filename.data, where.line.data)


class Scalars:
    """The builder that an op's formula sees: the kernel builder, and indices in terms of the formula's own loops."""

    def __init__(self, body: Body, env: dict[str, DimLike]) -> None:
        self._body = body
        self._env = env

    def index(self, expression: DimLike) -> Val:
        """An index expression of the formula's loops, as i64."""
        (outer,) = substitute((expression,), self._env)
        value = self._body.expression(outer)
        return value if value.dtype is i64 else self._body.k.cast(value, i64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body.k, name)


def _is_data(expression: DimLike) -> bool:
    """The index is the value of an earlier read: its range is checked when it is used."""
    return any(n[0] == "v" and n[1:].isdigit() for n in dims.names(expression))


def location_text(op: NdOp) -> str:
    """``file:line`` of an op, or ``unknown``."""
    where = op.location
    return f"{where.filename.data}:{where.line.data}" if isinstance(where, FileLineColLoc) else "unknown"


__all__ = ["Body", "Lane", "Scalars", "linear", "location_text", "split", "strides_of"]
