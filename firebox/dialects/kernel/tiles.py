"""The kernel builder's tile registers, and pairs of bf16."""

from xdsl.dialects import vector
from xdsl.ir import Attribute

from firebox.dialects.kernel import tile_ops as ops
from firebox.dialects.kernel.memory import Memory
from firebox.dialects.kernel.values import Operand, Ref, Val
from firebox.dialects.xdsl_compat import I64, integer_attr
from firebox.dtypes import bf16, f32, i32
from firebox.errors import CompilerError


class Tiles(Memory):
    """Tile registers hold 16 rows of 64 bytes: 16 x 32 bf16, or 16 x 16 pairs of them, or 16 x 16 f32."""

    def tile_config(self) -> None:
        """Set up the tiles; before any other use of them."""
        self._effect(ops.TileConfigOp, (), (), {})

    def tile_release(self) -> None:
        """Give the tiles up; after all other use of them."""
        self._effect(ops.TileReleaseOp, (), (), {})

    def tile_zero(self, tile: int) -> None:
        """Zeros in a tile."""
        self._effect(ops.TileZeroOp, (), (), _numbers(tile=tile))

    def tile_load(self, tile: int, ref: Ref, index: Operand, stride: Operand) -> None:
        """Fill a tile with rows that are `stride` elements apart."""
        self._effect(ops.TileLoadOp, (ref, self.index(index), self.index(stride)), (), _numbers(tile=tile))

    def tile_store(self, tile: int, ref: Ref, index: Operand, stride: Operand) -> None:
        """Write the rows of a tile, `stride` elements apart."""
        self._effect(ops.TileStoreOp, (ref, self.index(index), self.index(stride)), (), _numbers(tile=tile))

    def tile_dot(self, sums: int, lhs: int, rhs: int) -> None:
        """Add the product of a tile of rows and a tile of pairs to a tile of sums."""
        self._effect(ops.TileDotOp, (), (), _numbers(sums=sums, lhs=lhs, rhs=rhs))

    def pairs(self, x: Val) -> Val:
        """Two neighbouring bf16, as they are stored, in every i32: the first in the lower half."""
        if x.dtype is not bf16 or x.lanes % 2:
            raise CompilerError(
                "pairs are made of stored bf16", op="kernel builder pairs", found=f"{x.dtype.name} x{x.lanes}"
            )
        return self._pure(vector.BitcastOp, (x,), i32, x.lanes // 2, {})

    def dot_pairs(self, sums: Val, lhs: Val, rhs: Val) -> Val:
        """`sums`, f32, plus both products of the pairs in `lhs` and `rhs`."""
        lanes = sums.lanes
        operands = (sums, self.broadcast(lhs, lanes), self.broadcast(rhs, lanes))
        return self._pure(ops.DotPairsOp, operands, f32, lanes, {})


def _numbers(**tiles: int) -> dict[str, Attribute]:
    return {name: integer_attr(number, I64) for name, number in tiles.items()}
