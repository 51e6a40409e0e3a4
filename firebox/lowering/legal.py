"""What may stand in a module after each phase; checked between passes on request."""

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation

from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.transform import YieldOp
from firebox.dialects.xdsl_compat import location_text, operands_of, ops_of
from firebox.errors import CompilerError
from firebox.lowering.rewrite import functions_of

_PLAIN = frozenset((Kind.MAP, Kind.REDUCE, Kind.CONTRACT, Kind.SCAN, Kind.RESHAPE, Kind.OPAQUE))


@dataclass(frozen=True)
class Legal:
    """What the ops of a function may be.

    Attributes:
        kinds: kinds of nd ops outside of groups.
        transforms: whether transform region ops may stand there.
        groups: whether `nd.group` may stand there; it holds plain ops.
        control: whether ops with control flow may stand there; they hold what may stand around them.
        dialects: other dialects.
    """

    kinds: frozenset[Kind]
    transforms: bool = False
    groups: bool = False
    control: bool = True
    dialects: frozenset[str] = frozenset()


_EXPANDED = Legal(_PLAIN | {Kind.COMPOSITE})
_PRIMITIVE = Legal(_PLAIN)
_GROUPED = Legal(frozenset((Kind.RESHAPE,)), groups=True)
_IN_KERNELS = frozenset(("arith", "func", "kernel", "math", "memref", "scf", "vector"))
_KERNELS = Legal(frozenset(), control=False, dialects=_IN_KERNELS)

STAGES: dict[str, Legal] = {
    "trace": Legal(_PLAIN | {Kind.COMPOSITE}, transforms=True),
    "expand": _EXPANDED,
    "canonicalize": _EXPANDED,
    "checkpoint": _EXPANDED,
    "decompose": _PRIMITIVE,
    "layout": _PRIMITIVE,
    "fuse": _GROUPED,
    "order": _GROUPED,
    "schedule": _GROUPED,
    "bufferize": _GROUPED,
    "generate": _KERNELS,
    "emit": _KERNELS,
}
"""Stage -> what is legal after it; ``trace`` is what the frontend hands over."""


def check(module: ModuleOp, stage: str, keep: Collection[str] = ()) -> None:
    """Check a module after a stage.

    Args:
        keep: full names of composites that `decompose` leaves whole.

    Raises:
        CompilerError: an op that may not stand there, or before what it uses (named with its location); no such stage.
    """
    legal = STAGES.get(stage)
    if legal is None:
        raise CompilerError("no such stage", expected=", ".join(STAGES), found=stage)
    for function in functions_of(module):
        _check_block(function.body.block, stage, legal, keep)


def _check_block(block: Block, stage: str, legal: Legal, keep: Collection[str]) -> None:
    later = set(ops_of(block))
    for op in ops_of(block):
        later.discard(op)
        if any(value.owner in later for inner in op.walk() for value in operands_of(inner)):
            expected, found = "values that are made before", "one that is made after"
            error = CompilerError(f"uses a value too early after {stage}", op=op.name, expected=expected, found=found)
            raise error.at(location_text(op.location))
        inner = _inside(op, legal, keep)
        if inner is None:
            place = f"after {stage}" if stage != "trace" else "in a traced program"
            found = f"kind {op.kind.value}" if isinstance(op, NdOp) else f"dialect {op.dialect_name()}"
            error = CompilerError(f"may not stand {place}", op=op.name, expected=_text(legal), found=found)
            raise error.at(location_text(op.location))
        for region in op.regions:
            for nested in region.blocks:
                _check_block(nested, stage, inner, keep)


def _text(legal: Legal) -> str:
    kinds = sorted(k.value for k in legal.kinds)
    more = ["transforms"] * legal.transforms + ["nd.group"] * legal.groups + ["control flow"] * legal.control
    return ", ".join([*(f"kind {k}" for k in kinds), *more, *sorted(legal.dialects)])


def _inside(op: Operation, legal: Legal, keep: Collection[str]) -> Legal | None:
    """What may stand in the op's regions, or None where the op itself may not stand."""
    if isinstance(op, ReturnOp | YieldOp):
        return legal
    if isinstance(op, GroupOp):
        return _PRIMITIVE if legal.groups else None
    if not isinstance(op, NdOp):
        return legal if op.dialect_name() in legal.dialects else None
    if op.kind is Kind.REGION:
        return legal if legal.transforms or (legal.control and isinstance(op, ControlOp)) else None
    return legal if op.kind in legal.kinds or op.name in keep else None
