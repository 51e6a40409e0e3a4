"""Ops of the kernel dialect on tile registers (AMX), and products of pairs of bf16."""

from typing import ClassVar, cast

from xdsl.dialects.builtin import BFloat16Type, Float32Type, IndexType, IntegerAttr, MemRefType, VectorType, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

TILES = 8
"""Tile registers. Each has 16 rows of 64 bytes."""


def _verify_tile(number: IntegerAttr) -> None:
    if not 0 <= number.value.data < TILES:
        raise VerifyException(f"tiles are 0 to {TILES - 1}, found {number.value.data}")


def _verify_memory(type_: Attribute) -> None:
    if not isinstance(type_, MemRefType) or len(type_.shape.data) != 1:
        raise VerifyException(f"expected a 1-D memref, found {type_}")
    element = cast("MemRefType[Attribute]", type_).element_type
    if not (isinstance(element, (BFloat16Type, Float32Type)) or element == i32):
        raise VerifyException(f"tiles are of bf16, of pairs of them as i32, or of f32 sums, found {element}")


@irdl_op_definition
class TileConfigOp(IRDLOperation):
    """Set up all tile registers as 16 rows of 64 bytes; a kernel that uses tiles starts with it."""

    name = "kernel.tile_config"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class TileReleaseOp(IRDLOperation):
    """Give up the tile registers; a kernel that uses tiles ends with it."""

    name = "kernel.tile_release"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class TileZeroOp(IRDLOperation):
    """All zeros in a tile."""

    name = "kernel.tile_zero"
    tile = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        _verify_tile(self.tile)


class _Transfer(IRDLOperation):
    """Between a tile and memory."""

    tile = prop_def(IntegerAttr)
    memref = operand_def(base(MemRefType))
    index = operand_def(IndexType)
    stride = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$memref `[` $index `]` `,` $stride attr-dict `:` type($memref)"

    def verify_(self) -> None:
        _verify_tile(self.tile)
        _verify_memory(self.memref.type)


@irdl_op_definition
class TileLoadOp(_Transfer):
    """A tile from memory: row r is the 64 bytes from `memory[index + r * stride]` on."""

    name = "kernel.tile_load"


@irdl_op_definition
class TileStoreOp(_Transfer):
    """A tile to memory: row r goes to the 64 bytes from `memory[index + r * stride]` on."""

    name = "kernel.tile_store"


@irdl_op_definition
class TileDotOp(IRDLOperation):
    """Add a product of tiles of bf16 to a tile of f32: `sums[i, j] += sum of lhs[i, 2p + h] * rhs[p, 2j + h]` over
    p < 16 and h < 2. The numbers are those of the tiles."""

    name = "kernel.tile_dot"
    sums = prop_def(IntegerAttr)
    lhs = prop_def(IntegerAttr)
    rhs = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        numbers = [self.sums, self.lhs, self.rhs]
        for number in numbers:
            _verify_tile(number)
        if len({number.value.data for number in numbers}) != 3:
            raise VerifyException("kernel.tile_dot takes three different tiles")


@irdl_op_definition
class DotPairsOp(IRDLOperation):
    """`sums + low(lhs) * low(rhs) + high(lhs) * high(rhs)`, lane by lane: each i32 holds two bf16."""

    name = "kernel.dot_pairs"
    T: ClassVar = VarConstraint("T", base(VectorType))
    P: ClassVar = VarConstraint("P", base(VectorType))
    sums = operand_def(T)
    lhs = operand_def(P)
    rhs = operand_def(P)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$sums `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($result)"

    def verify_(self) -> None:
        sums = cast("VectorType[Attribute]", self.result.type)
        pairs = cast("VectorType[Attribute]", self.lhs.type)
        if not isinstance(sums.element_type, Float32Type) or pairs.element_type != i32:
            raise VerifyException(f"kernel.dot_pairs adds pairs in i32 to f32, found {pairs} and {sums}")
        if sums.get_shape() != pairs.get_shape():
            raise VerifyException(f"pairs {pairs} and sums {sums} have different lanes")


TILE_OPS: tuple[type[Operation], ...] = (
    DotPairsOp,
    TileConfigOp,
    TileDotOp,
    TileLoadOp,
    TileReleaseOp,
    TileStoreOp,
    TileZeroOp,
)
