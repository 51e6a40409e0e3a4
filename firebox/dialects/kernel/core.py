"""The kernel builder's core: scopes, insertion at the level of the operands, sharing of equal ops, constants."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import copysign

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.values import INDEX, Operand, Ref, Val, value_type
from firebox.dialects.xdsl_compat import append, create, file_location, float_attr, integer_attr
from firebox.dtypes import DType, Kind, bool_, i32, i64
from firebox.errors import CompilerError

Properties = dict[str, Attribute]

FASTMATH_NONE = arith.FastMathFlagsAttr("none")
OVERFLOW_NONE = arith.IntegerOverflowAttr("none")


@dataclass(slots=True)
class Scope:
    """A block under construction: the function, a loop body or a branch.

    Attributes:
        block: where its ops go.
        floor: the lowest level that work which is costly or reads memory may be hoisted to from here: out of loops,
            but never out of a branch, where it would run although the branch is not taken.
        known: the pure ops in it, by kind and operands.
    """

    block: Block
    floor: int = 0
    known: dict[tuple[object, ...], Val] = field(default_factory=dict)


class Core:
    """Insertion of ops into a stack of scopes."""

    def __init__(self, block: Block) -> None:
        self._scopes = [Scope(block)]
        self._constants: dict[tuple[object, ...], Val] = {}
        self._loc: LocationAttr = UNKNOWN_LOC
        self._location: tuple[str, int] | None = None

    @property
    def location(self) -> tuple[str, int] | None:
        """(file, line) given to every op made from now on."""
        return self._location

    @location.setter
    def location(self, where: tuple[str, int] | None) -> None:
        self._location = where
        self._loc = UNKNOWN_LOC if where is None else file_location(*where)

    @property
    def level(self) -> int:
        """Depth of the scope that ops with effects go to."""
        return len(self._scopes) - 1

    # Insertion

    def _effect(
        self, cls: type[Operation], operands: Sequence[Val | Ref], types: Sequence[Attribute], properties: Properties
    ) -> Operation:
        """An op that reads or writes memory: in the current block, never shared."""
        op = create(cls, [v.ssa for v in operands], types, properties, self._loc)
        append(self._scopes[-1].block, op)
        return op

    def _pure(
        self,
        cls: type[Operation],
        operands: Sequence[Val | Ref],
        dtype: DType,
        lanes: int,
        properties: Properties,
        tag: object = None,
        costly: bool = False,
    ) -> Val:
        """An op without effects: in the block of its deepest operand, and made only once.

        `tag` tells apart ops of one class and operands that differ in their properties.
        """
        level = self._scopes[-1].floor if costly else 0
        key: tuple[object, ...] = (cls, dtype, lanes, tag)
        for operand in operands:
            key += (id(operand.ssa),)
            if operand.level > level:
                level = operand.level
        try:
            scope = self._scopes[level]
        except IndexError:
            raise CompilerError("a value is used outside of its loop or branch", op=cls.name) from None
        found = scope.known.get(key)
        if found is not None:
            return found
        op = create(cls, [v.ssa for v in operands], (value_type(dtype, lanes),), properties, self._loc)
        append(scope.block, op)
        value = scope.known[key] = Val(op.results[0], dtype, lanes, level)
        return value

    # Constants

    def const(self, value: bool | int | float, dtype: DType) -> Val:
        """A scalar constant of the type's compute type; integers wrap to its width."""
        dtype = dtype.compute
        if dtype.kind is Kind.FLOAT:
            value = float(value)
            key: tuple[object, ...] = (dtype, value if value == value else "nan", copysign(1.0, value))
        else:
            value = bool(value) if dtype is bool_ else _wrap(int(value), dtype)
            key = (dtype, value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._constant(value, dtype)
        return found

    def _constant(self, value: bool | int | float, dtype: DType) -> Val:
        type_ = value_type(dtype, 1)
        attr = float_attr(value, type_) if dtype.kind is Kind.FLOAT else integer_attr(int(value), type_)
        op = create(arith.ConstantOp, (), (type_,), {"value": attr}, self._loc)
        append(self._scopes[0].block, op)
        return Val(op.results[0], dtype, 1, 0, value, dtype.kind is not Kind.FLOAT and value >= 0)

    def index(self, value: Operand) -> Val:
        """An INDEX value: a constant, or any integer scalar converted."""
        if isinstance(value, Val):
            return value if value.dtype is INDEX else self._to_index(value)
        return self.const(value, INDEX)

    def _to_index(self, value: Val) -> Val:
        if not value.dtype.is_int or value.lanes != 1:
            raise CompilerError(
                "an index must be an integer scalar", op="kernel builder", found=f"{value.dtype.name} x{value.lanes}"
            )
        if value.const is not None:
            return self.index(value.const)
        if not value.dtype.is_signed and value.dtype.itemsize < 8:  # arith.index_cast would read it as signed
            value = self._pure(ops.CastOp, (value,), i64, 1, {}, "zext")
            value.nonneg = True
        result = self._pure(arith.IndexCastOp, (value,), INDEX, 1, {})
        result.nonneg = value.nonneg
        return result

    # Bringing operands together

    def broadcast(self, x: Operand, lanes: int, dtype: DType | None = None) -> Val:
        """`x` in every lane; a Python number needs the `dtype`. An INDEX becomes i64, since vectors have no index."""
        value = self._as_val(x, dtype)
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise CompilerError(
                "cannot broadcast", op="kernel builder", expected=f"1 or {lanes} lanes", found=value.lanes
            )
        if value.dtype is INDEX:
            value = self._from_index(value, i64)
        result = self._pure(vector.BroadcastOp, (value,), value.dtype, lanes, {})
        result.const = value.const
        result.nonneg = value.nonneg
        return result

    def _from_index(self, value: Val, dtype: DType) -> Val:
        if value.const is not None:
            return self.const(value.const, dtype)
        if dtype.itemsize in (4, 8):
            result = self._pure(arith.IndexCastOp, (value,), dtype, 1, {})
        else:
            result = self._pure(ops.CastOp, (self._from_index(value, i32),), dtype, 1, {})
        result.nonneg = value.nonneg
        return result

    def _as_val(self, x: Operand, dtype: DType | None) -> Val:
        if isinstance(x, Val):
            return x
        if dtype is None:
            if isinstance(x, float):
                raise CompilerError("a Python float needs a typed operand beside it", op="kernel builder", found=x)
            dtype = bool_ if isinstance(x, bool) else INDEX
        if isinstance(x, float) and dtype.kind is not Kind.FLOAT:
            raise CompilerError("a float constant beside an integer", op="kernel builder", expected=dtype.name, found=x)
        return self.const(x, dtype)

    def _pair(self, a: Operand, b: Operand) -> tuple[Val, Val]:
        """Both as values of one type and width: Python numbers become constants, an INDEX takes the other integer's
        type, a scalar is broadcast."""
        if not isinstance(a, Val):
            a = self._as_val(a, b.dtype if isinstance(b, Val) else None)
        if not isinstance(b, Val):
            b = self._as_val(b, a.dtype)
        if a.dtype is not b.dtype:
            a, b = self._common(a, b)
        if a.lanes != b.lanes:
            a, b = self.broadcast(a, b.lanes) if a.lanes == 1 else a, self.broadcast(b, a.lanes) if b.lanes == 1 else b
            if a.lanes != b.lanes:
                raise CompilerError("vectors of different lanes", op="kernel builder", expected=a.lanes, found=b.lanes)
        return a, b

    def _common(self, a: Val, b: Val) -> tuple[Val, Val]:
        if a.dtype is INDEX and b.dtype.is_int:
            return self._from_index(a, b.dtype), b
        if b.dtype is INDEX and a.dtype.is_int:
            return a, self._from_index(b, a.dtype)
        raise CompilerError(
            "operands of different types", op="kernel builder", expected=a.dtype.name, found=b.dtype.name
        )


def _wrap(value: int, dtype: DType) -> int:
    """The integer that `value` is after truncation to the type's width."""
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value
