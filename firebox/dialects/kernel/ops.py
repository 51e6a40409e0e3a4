"""The kernel dialect: what xDSL's arith, math, vector and memref lack inside one kernel."""

from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    SameOperandsAndResultType,
)
from xdsl.utils.exceptions import VerifyException

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = ("oeq", "une", "olt", "ole", "ogt", "oge", "ord", "uno")
ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor", "exchange")


def _lanes(type_: Attribute) -> int:
    """Number of lanes of a value type; 1 for a scalar."""
    if not isinstance(type_, VectorType):
        return 1
    shape = cast("VectorType[Attribute]", type_).get_shape()
    if len(shape) != 1:
        raise VerifyException(f"kernel values are scalars or 1-D vectors, found {type_}")
    return shape[0]


def _element(type_: Attribute) -> Attribute:
    return cast("VectorType[Attribute]", type_).element_type if isinstance(type_, VectorType) else type_


def _flat(type_: Attribute) -> "MemRefType[Attribute]":
    """The type as a 1-D memref."""
    if not isinstance(type_, MemRefType) or len(type_.shape.data) != 1:
        raise VerifyException(f"expected a 1-D memref, found {type_}")
    return cast("MemRefType[Attribute]", type_)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`cond ? a : b`, lane by lane; a scalar condition selects whole vectors."""

    name = "kernel.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def()
    on_true = operand_def(T)
    on_false = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$cond `,` $on_true `,` $on_false attr-dict `:` type($cond) `,` type($result)"

    def verify_(self) -> None:
        cond, result = self.cond.type, self.result.type
        if _element(cond) != i1:
            raise VerifyException(f"the condition of kernel.select must be i1, found {cond}")
        if _lanes(cond) not in (1, _lanes(result)):
            raise VerifyException(f"the condition {cond} has other lanes than the values {result}")


@irdl_op_definition
class CmpOp(IRDLOperation):
    """Compare lane by lane; the predicates are LLVM's: eq ne slt.. ult.. for integers, oeq une olt.. uno for floats.

    arith.cmpi and arith.cmpf of xDSL 0.75 give a single i1 also for vectors.
    """

    name = "kernel.cmp"
    T: ClassVar = VarConstraint("T", AnyAttr())
    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def()
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `to` type($result)"

    def verify_(self) -> None:
        known = FLOAT_PREDICATES if isinstance(_element(self.lhs.type), AnyFloat) else INTEGER_PREDICATES
        if self.predicate.data not in known:
            raise VerifyException(f"{self.lhs.type} compares by {', '.join(known)}, found '{self.predicate.data}'")
        if _element(self.result.type) != i1 or _lanes(self.result.type) != _lanes(self.lhs.type):
            raise VerifyException(f"kernel.cmp of {self.lhs.type} gives as many i1, found {self.result.type}")


@irdl_op_definition
class CastOp(IRDLOperation):
    """Convert between numeric types, lane by lane.

    Integers extend by `signed` and truncate; float to integer truncates toward zero and saturates, NaN gives 0;
    integer to float reads the integer by `signed`; i1 is always 0 or 1; float to i1 is `x != 0`.
    """

    name = "kernel.cast"
    input = operand_def()
    result = result_def()
    signed = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        for type_ in (self.input.type, self.result.type):
            if not isinstance(_element(type_), (IntegerType, AnyFloat)):
                raise VerifyException(f"kernel.cast converts integers and floats, found {type_}")
        if _lanes(self.input.type) != _lanes(self.result.type):
            raise VerifyException(f"kernel.cast keeps the lanes: {self.input.type} to {self.result.type}")


@irdl_op_definition
class IotaOp(IRDLOperation):
    """The vector 0, 1, 2, ..."""

    name = "kernel.iota"
    result = result_def(base(VectorType))
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        if _element(self.result.type) not in (IntegerType(32), i64):
            raise VerifyException(f"kernel.iota gives i32 or i64 lanes, found {self.result.type}")


@irdl_op_definition
class MaskOp(IRDLOperation):
    """Lane l is true where l < count (signed)."""

    name = "kernel.mask"
    count = operand_def(IndexType)
    result = result_def(base(VectorType))
    traits = traits_def(Pure())
    assembly_format = "$count attr-dict `:` type($result)"

    def verify_(self) -> None:
        if _element(self.result.type) != i1:
            raise VerifyException(f"kernel.mask gives i1 lanes, found {self.result.type}")


@irdl_op_definition
class SigmoidOp(IRDLOperation):
    """1 / (1 + exp(-x)), accurate also where exp(-x) overflows or 1 + exp(-x) cancels."""

    name = "kernel.sigmoid"
    T: ClassVar = VarConstraint("T", AnyAttr())
    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = "$operand attr-dict `:` type($result)"


@irdl_op_definition
class RemfOp(IRDLOperation):
    """The exact remainder of x / y with the sign of x (C's fmod)."""

    name = "kernel.remf"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


def _verify_indexed(indices: Attribute, mask: Attribute, value: Attribute, memref: Attribute) -> None:
    if _element(indices) not in (IntegerType(32), i64):
        raise VerifyException(f"indices must be i32 or i64 lanes, found {indices}")
    if _element(mask) != i1:
        raise VerifyException(f"the mask must have i1 lanes, found {mask}")
    if not _lanes(indices) == _lanes(mask) == _lanes(value):
        raise VerifyException(f"indices {indices}, mask {mask} and values {value} have different lanes")
    if _flat(memref).element_type != _element(value):
        raise VerifyException(f"values {value} do not fit the memory {memref}")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`mask ? memory[index] : passthru`, lane by lane; indices are signed, in elements, not checked."""

    name = "kernel.gather"
    T: ClassVar = VarConstraint("T", base(VectorType))
    memref = operand_def(base(MemRefType))
    indices = operand_def(base(VectorType))
    mask = operand_def(base(VectorType))
    passthru = operand_def(T)
    result = result_def(T)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$memref `[` $indices `]` `,` $mask `,` $passthru attr-dict `:` type($memref) `,` type($indices) `,` "
        "type($mask) `,` type($result)"
    )

    def verify_(self) -> None:
        _verify_indexed(self.indices.type, self.mask.type, self.result.type, self.memref.type)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """`if mask: memory[index] = value`, lane by lane in lane order, so the last lane wins on equal indices."""

    name = "kernel.scatter"
    memref = operand_def(base(MemRefType))
    indices = operand_def(base(VectorType))
    mask = operand_def(base(VectorType))
    value = operand_def(base(VectorType))
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $memref `[` $indices `]` `,` $mask attr-dict `:` type($value) `,` type($memref) `,` "
        "type($indices) `,` type($mask)"
    )

    def verify_(self) -> None:
        _verify_indexed(self.indices.type, self.mask.type, self.value.type, self.memref.type)


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Read-modify-write of one element as one step, relaxed ordering; gives the old value. `signed`: of max, min."""

    name = "kernel.atomic"
    T: ClassVar = VarConstraint("T", AnyAttr())
    kind = prop_def(StringAttr)
    signed = opt_prop_def(UnitAttr)
    memref = operand_def(base(MemRefType))
    index = operand_def(IndexType)
    value = operand_def(T)
    result = result_def(T)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$kind $value `,` $memref `[` $index `]` attr-dict `:` type($value) `,` type($memref)"

    def verify_(self) -> None:
        if self.kind.data not in ATOMIC_KINDS:
            raise VerifyException(f"kernel.atomic knows {', '.join(ATOMIC_KINDS)}, found '{self.kind.data}'")
        if _flat(self.memref.type).element_type != self.value.type:
            raise VerifyException(f"value {self.value.type} does not fit the memory {self.memref.type}")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Ask for the cache line of `memory[index]`; locality 0 (none) to 3 (keep in L1); may lie outside the buffer."""

    name = "kernel.prefetch"
    write = opt_prop_def(UnitAttr)
    locality = prop_def(IntegerAttr)
    memref = operand_def(base(MemRefType))
    index = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$memref `[` $index `]` attr-dict `:` type($memref)"

    def verify_(self) -> None:
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException(f"locality is 0 to 3, found {self.locality.value.data}")


@irdl_op_definition
class AllocOp(IRDLOperation):
    """Fixed-size memory, not zeroed: `stack` of one invocation, 64-byte aligned; `local` of a work-group on OpenCL,
    16-byte aligned."""

    name = "kernel.alloc"
    space = prop_def(StringAttr)
    result = result_def(base(MemRefType))
    traits = traits_def(MemoryAllocEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$space attr-dict `:` type($result)"

    def verify_(self) -> None:
        if _flat(self.result.type).get_shape()[0] <= 0:
            raise VerifyException(f"kernel.alloc needs a static positive size, found {self.result.type}")
        if self.space.data not in ("stack", "local"):
            raise VerifyException(f"kernel.alloc knows the spaces stack and local, found '{self.space.data}'")


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The memory that starts `offset` bytes into a byte buffer, as elements of another type."""

    name = "kernel.view"
    memref = operand_def(base(MemRefType))
    offset = operand_def(IndexType)
    result = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$memref `[` $offset `]` attr-dict `:` type($memref) `to` type($result)"

    def verify_(self) -> None:
        if _flat(self.memref.type).element_type != i8:
            raise VerifyException(f"kernel.view takes a memref of i8, found {self.memref.type}")
        _flat(self.result.type)


@irdl_op_definition
class OpaqueOp(IRDLOperation):
    """The same memory through a pointer that later phases cannot recognise, so that loads are not merged across it."""

    name = "kernel.opaque"
    T: ClassVar = VarConstraint("T", base(MemRefType))
    memref = operand_def(T)
    result = result_def(T)
    assembly_format = "$memref attr-dict `:` type($memref)"


@irdl_op_definition
class FailOp(IRDLOperation):
    """Record a run-time fault in the status words {code, op_id, detail0, detail1} unless one is there already."""

    name = "kernel.fail"
    code = prop_def(IntegerAttr)
    op_id = prop_def(IntegerAttr)
    status = operand_def(base(MemRefType))
    detail0 = operand_def(i64)
    detail1 = operand_def(i64)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$status `,` $detail0 `,` $detail1 attr-dict `:` type($status)"

    def verify_(self) -> None:
        if _flat(self.status.type).element_type != i64:
            raise VerifyException(f"status words are i64, found {self.status.type}")
        if self.code.value.data <= 0:
            raise VerifyException(f"a fault has a positive code, found {self.code.value.data}")


@irdl_op_definition
class AsmOp(IRDLOperation):
    """Target assembly as LLVM's inline asm: text and constraint string as in LLVM IR; memrefs pass as pointers."""

    name = "kernel.asm"
    text = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    arguments = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$text `,` $constraints `(` $arguments `)` attr-dict `:` functional-type($arguments, $outputs)"

    def verify_(self) -> None:
        if any(isinstance(o.type, MemRefType) for o in self.outputs):
            raise VerifyException("kernel.asm gives values, not memory")


OPS: tuple[type[Operation], ...] = (
    AllocOp,
    AsmOp,
    AtomicOp,
    CastOp,
    CmpOp,
    FailOp,
    GatherOp,
    IotaOp,
    MaskOp,
    OpaqueOp,
    PrefetchOp,
    RemfOp,
    ScatterOp,
    SelectOp,
    SigmoidOp,
    ViewOp,
)
