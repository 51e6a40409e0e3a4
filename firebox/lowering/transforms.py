"""Replaces transform region ops by plain ops, innermost first; drives the rules in `autodiff` and `batch`.

Checkpoints and functions with their own derivative stay as they are while any derivative around them is expanded, and
are inlined at the end.
"""

from xdsl.ir import Block, Operation

from firebox.dialects.nd.transform import CheckpointOp, CustomVjpOp, GradOp, JvpOp, VmapOp
from firebox.dialects.xdsl_compat import ops_of
from firebox.lowering.autodiff import expand_grad, expand_jvp
from firebox.lowering.batch import expand_vmap
from firebox.lowering.rewrite import erase_dead, inline_region, next_mark


def expand_in(block: Block, vmap: bool = True) -> None:
    """Expand the transforms in a block; with ``vmap=False`` those `nd.vmap` stay that are in no derivative."""
    ids = _Ids(block)
    if not _expand(block, ids, vmap):
        return
    _inline(block)
    erase_dead(block)


class _Ids:
    """Numbers for `recompute` marks, above those in use; the block is only looked through when one is needed."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._next: int | None = None

    def __call__(self) -> int:
        number = next_mark(self._block) if self._next is None else self._next
        self._next = number + 1
        return number


def _expand(block: Block, ids: _Ids, vmap: bool) -> bool:
    """Expand from the inside out; whether there was any transform."""
    found = False
    for op in list(ops_of(block)):
        if not op.regions:
            continue
        inside = vmap or isinstance(op, GradOp | JvpOp)
        for region in op.regions:
            for inner in region.blocks:
                found |= _expand(inner, ids, inside)
        found |= _expand_one(op, ids, vmap)
    return found


def _expand_one(op: Operation, ids: _Ids, vmap: bool) -> bool:
    if isinstance(op, GradOp):
        expand_grad(op, ids)
    elif isinstance(op, JvpOp):
        expand_jvp(op, ids)
    elif isinstance(op, VmapOp) and vmap:
        expand_vmap(op)
    else:
        return isinstance(op, CheckpointOp | CustomVjpOp)
    return True


def _inline(block: Block) -> None:
    for op in list(ops_of(block)):
        for region in op.regions:
            for inner in region.blocks:
                _inline(inner)
        if isinstance(op, CheckpointOp | CustomVjpOp):
            inline_region(op)
