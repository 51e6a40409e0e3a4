"""Instructions of NVIDIA's tensor cores as inline PTX: asynchronous copies, loads of fragments, products of fragments.

Shapes and layouts are those of the PTX ISA, section "Warp Level Matrix Multiply-Accumulate Instructions":
`mma.m16n8k16` takes 16 x 16 of the rows' factor in 4 registers of each of the 32 work-items of a warp, 16 x 8 of the
columns' factor in 2, and adds into 16 x 8 sums in 4.
"""

from collections.abc import Sequence

from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dtypes import DType, f32, i32, i64

CHUNK = 16
"""Bytes that one asynchronous copy moves, and one work-item's part of an 8 x 8 matrix has addresses for."""


Place = tuple[Val, int]
"""An address, and bytes to add to it, which cost nothing as part of an instruction."""


def global_address(k: KernelBuilder, ref: Ref) -> Val:
    """Address of a buffer, as i64."""
    return k.asm_many("mov.u64 $0, $1;", "=l,l", [ref], [i64])[0]


def local_address(k: KernelBuilder, ref: Ref) -> Val:
    """Address of an array within local memory, as i32."""
    return k.asm_many("cvt.u32.u64 $0, $1;", "=r,l", [ref], [i32])[0]


def copy_chunk(
    k: KernelBuilder, target: Place, source: Place, inside: Val | None = None, wanted: Val | None = None
) -> None:
    """Start to copy a chunk from global to local memory.

    Args:
        target, source: an address, and bytes to add to it.
        inside: zeros are written where it does not hold; None for always.
        wanted: nothing is written where it does not hold; None for always. No branch: that would part the copies from
            the products around them, among which the device's compiler puts them.
    """
    operands = [target[0], source[0]]
    text, constraints = f"cp.async.cg.shared.global [$0+{target[1]}], [$1+{source[1]}], 16", "r,l"
    if inside is not None:
        text, constraints = f"{text}, $2", constraints + ",r"
        operands.append(k.select(inside, k.const(CHUNK, i32), k.const(0, i32)))
    if wanted is not None and wanted.const is not True:
        text = f"{{ .reg .pred p; setp.ne.b32 p, ${len(operands)}, 0; @p {text}; }}"
        operands.append(k.select(wanted, k.const(1, i32), k.const(0, i32)))
        k.asm_many(text, constraints + ",r", operands, [])
        return
    k.asm_many(f"{text};", constraints, operands, [])


def commit_copies(k: KernelBuilder) -> None:
    """End a batch of copies."""
    k.asm_many("cp.async.commit_group;", "", [], [])


def wait_for_copies(k: KernelBuilder, left: int) -> None:
    """Wait until at most that many batches of this work-item are on their way."""
    k.asm_many(f"cp.async.wait_group {left};", "", [], [])


def load_fragments(k: KernelBuilder, address: Val, offset: int, transposed: bool) -> list[Val]:
    """Four 8 x 8 matrices, whose rows the addresses of 8 work-items each say."""
    turn = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{turn}.shared.b16 {{$0, $1, $2, $3}}, [$4+{offset}];"
    return k.asm_many(text, "=r,=r,=r,=r,r", [address], [i32] * 4)


def multiply_fragments(
    k: KernelBuilder, dtype: DType, rows: Sequence[Val], columns: Sequence[Val], sums: Sequence[Val]
) -> list[Val]:
    """Sums plus the product of a fragment of each factor."""
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype.name}.{dtype.name}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    return k.asm_many(text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", [*rows, *columns, *sums], [f32] * 4)
