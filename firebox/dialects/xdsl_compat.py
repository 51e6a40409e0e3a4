"""Everything private or fragile of xDSL 0.75: fast creation, raw accessors, cached types, dominance, locations.

Nothing else in the project touches a name of xDSL that starts with an underscore: an upgrade is one file's work.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    BFloat16Type,
    DenseArrayBase,
    FileLineColLoc,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from firebox.dtypes import DType, Kind

OpT = TypeVar("OpT", bound=Operation)

DYNAMIC = DYNAMIC_INDEX
"""How memref types and index lists spell a number that is known only at run time."""

INDEX_TYPE = IndexType()
I1 = IntegerType(1)
I64 = IntegerType(64)


def create(
    cls: type[OpT],
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    properties: dict[str, Attribute],
    location: LocationAttr = UNKNOWN_LOC,
    regions: Sequence[Region] = (),
) -> OpT:
    """An unattached op, five times faster than its constructor: no conversions, no defaults, no checks.

    The caller gives every property that the op's definition has a default for, and owns `properties` no longer.
    """
    op = cls.__new__(cls)
    uses = []
    for position, value in enumerate(operands):
        use = Use(op, position)
        first = value.first_use
        if first is not None:
            first._prev_use = use
            use._next_use = first
        value.first_use = use
        uses.append(use)
    op._operands = SSAValues(operands)
    op._operand_uses = tuple(uses)
    op.results = SSAValues([OpResult(t, op, position) for position, t in enumerate(types)])
    op.properties = properties
    op.attributes = {}
    op.location = location
    if regions:
        op.regions = tuple(regions)
        for region in regions:
            region.parent = op
    return op


def append(block: Block, op: Operation) -> None:
    """Put an unattached op at the end of a block, without the ancestor check of `Block.add_op`."""
    last = block._last_op
    op.parent = block
    block._last_op = op
    if last is None:
        block._first_op = op
    else:
        last._next_op = op
        op._prev_op = last


def operands_of(op: Operation) -> "tuple[SSAValue[Attribute], ...]":
    """The operands as a plain tuple (`op.operands` builds a view on each access)."""
    return op._operands


def ops_of(block: Block) -> Iterable[Operation]:
    """The ops of a block in order; the block must not change meanwhile."""
    op = block._first_op
    while op is not None:
        yield op
        op = op._next_op


def set_name(value: SSAValue, name: str) -> None:
    """Give a value the name that printed text uses for it; `name` must be a valid identifier."""
    value._name = name


def is_used(value: SSAValue) -> bool:
    """Whether anything reads the value."""
    return value.first_use is not None


_FLOATS: dict[str, AnyFloat] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
}


@lru_cache(maxsize=256)
def scalar_type(dtype: DType) -> Attribute:
    """The MLIR type that a value of this type has in memory: floats as they are, integers signless, bool as i8."""
    if dtype.kind is Kind.FLOAT:
        return _FLOATS[dtype.name]
    return IntegerType(dtype.itemsize * 8)


@lru_cache(maxsize=1024)
def vector_type(element: Attribute, lanes: int) -> Attribute:
    """The 1-D vector type of `lanes` elements; the element type itself for one lane."""
    return element if lanes == 1 else VectorType(element, [lanes])


@lru_cache(maxsize=1024)
def memref_type(element: Attribute, size: int = DYNAMIC) -> "MemRefType[Attribute]":
    """The flat memref type of `size` elements, or of an extent known at run time."""
    return MemRefType(element, [size])


@lru_cache(maxsize=4096)
def integer_attr(value: int, element: Attribute) -> Attribute:
    """An integer constant; the value wraps to the type's width."""
    if isinstance(element, IndexType):
        return IntegerAttr(value, element)
    return IntegerAttr(value, cast(IntegerType, element), truncate_bits=True)


def float_attr(value: float, element: Attribute) -> Attribute:
    """A float constant, rounded to the type."""
    return FloatAttr(value, cast("Any", element))


@lru_cache(maxsize=1024)
def int_array(values: tuple[int, ...]) -> Attribute:
    """An `array<i64: ...>` attribute."""
    return DenseArrayBase.from_list(I64, values)


@lru_cache(maxsize=4096)
def file_location(file: str, line: int) -> LocationAttr:
    """The location `file:line`; column 1, since a traced line has no better one."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(1))


def location_text(location: LocationAttr) -> str:
    """`file:line` of a location, or an empty string where it is not known."""
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}"
    return ""


def inherit_location(new: Iterable[Operation], source: Operation) -> None:
    """Give ops that a rewrite made, and all ops inside them, the source's location where they have none."""
    if source.location is UNKNOWN_LOC:
        return
    for op in new:
        for nested in op.walk():
            if nested.location is UNKNOWN_LOC:
                nested.location = source.location


def verify(op: Operation) -> None:
    """Verify an op with all that is inside it, and that every operand is defined before its use.

    Raises:
        VerifyException: the first fault found; xDSL's own verifier does not look at dominance.
    """
    op.verify()
    verify_dominance(op)


def place_of_fault(op: Operation) -> str:
    """``file:line`` of the innermost op that does not verify; empty where none is found or its line is not known."""
    found = ""
    for nested in op.walk():
        try:
            nested.verify(verify_nested_ops=False)
        except VerifyException:
            found = location_text(nested.location) or found
    return found


def verify_dominance(op: Operation) -> None:
    """Check that in the single-block regions of `op` every operand is defined before it is used.

    Raises:
        VerifyException: an operand that does not dominate its use.
    """
    for region in op.regions:
        if region.blocks:
            _verify_block(region.block, frozenset())


def _verify_block(block: Block, outer: "frozenset[SSAValue[Attribute]]") -> None:
    scope = set(outer)
    scope.update(block.args)
    for op in ops_of(block):
        for position, value in enumerate(op._operands):
            if value not in scope:
                where = location_text(op.location) or "unknown location"
                raise VerifyException(f"operand #{position} of '{op.name}' does not dominate this use ({where})")
        if op.regions:
            inner = frozenset() if op.has_trait(IsolatedFromAbove) else frozenset(scope)
            for region in op.regions:
                if region.blocks:
                    _verify_block(region.block, inner)
        scope.update(op.results)
