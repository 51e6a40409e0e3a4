"""Pass `checkpoint`: which values of the forward pass stay for the backward pass, and which are computed again.

A value is computed again by a copy of its op just before a late use, marked ``recompute = id`` so that nothing merges
the two. The operands of the copy must be in memory at that point anyway. Checkpoints that the user asks for
(`nd.checkpoint`) are not decided here: expand has copied their ops already.

Before::

    %1 = nd.exp %x      ... many ops ...      %9 = nd.mul %1, %8

After (strategy ``recompute-cheap``)::

    %1 = nd.exp %x      ... many ops ...      %2 = nd.exp %x {recompute = 1}      %9 = nd.mul %2, %8
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import UserError
from firebox.lowering.checkpoint_budget import lower, within
from firebox.lowering.checkpoint_lives import BALANCED, Lives, nbytes
from firebox.lowering.rewrite import RECOMPUTE, erase_dead, functions_of

CHEAP = 4.0
"""Arithmetic per element up to which an op is cheaper to repeat than its result is to load."""
SMALL = 1 << 16
"""Bytes below which keeping a value is not worth a thought."""


@dataclass(frozen=True)
class Settings:
    """Options of the strategies: ``budget`` is the most memory, in bytes, that values may take at a time."""

    budget: int = 0


Strategy = Callable[[Block, Settings], None]
_STRATEGIES: dict[str, Strategy] = {}


@dataclass(frozen=True)
class CheckpointPass(ModulePass):
    """Choose what is computed again."""

    name = "nd-checkpoint"
    strategy: str = "none"
    """``none``, ``balanced``, ``recompute-cheap`` or ``budget``."""
    budget: int = 0
    """Bytes, for the strategy ``budget``."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        checkpoint(op, self.strategy, self.budget)


def strategy(name: str) -> Callable[[Strategy], Strategy]:
    """Decorator: enter a strategy, a function that changes a function's block."""

    def enter(function: Strategy) -> Strategy:
        _STRATEGIES[name] = function
        return function

    return enter


def checkpoint(module: ModuleOp, strategy: str = "none", budget: int = 0) -> None:
    """Apply a strategy to all functions of a module, in place.

    Raises:
        UserError: no such strategy, or a negative budget.
    """
    if strategy not in _STRATEGIES:
        names = ", ".join(sorted(_STRATEGIES))
        raise UserError("no such strategy", op="checkpoint", expected=names, found=repr(strategy))
    if budget < 0:
        raise UserError("a budget is not negative", op="checkpoint", expected="bytes", found=budget)
    for function in functions_of(module):
        _STRATEGIES[strategy](function.body.block, Settings(budget))


@strategy("none")
def _none(block: Block, settings: Settings) -> None:
    """Change nothing: every value stays until its last use."""


@strategy("recompute-cheap")
def _recompute_cheap(block: Block, settings: Settings) -> None:
    """Repeat cheap element-wise ops whose large results wait for a far use."""
    lives = Lives(block)
    for op in lives.ops:
        if not isinstance(op, NdOp) or RECOMPUTE in op.attributes or not _is_cheap(op) or nbytes(op.results[0]) < SMALL:
            continue
        late = lives.after_gap(op.results[0])
        if late is not None and lives.available(op, late):
            lives.repeat([op], late)
    erase_dead(block)


@strategy("balanced")
def _balanced(block: Block, settings: Settings) -> None:
    """Keep what is bound by arithmetic; compute what is bound by memory again, as long as that lowers the peak."""
    lower(block, 0, BALANCED)


@strategy("budget")
def _within_budget(block: Block, settings: Settings) -> None:
    """Where memory peaks, repeat the ops that free most per arithmetic, until the peak fits or no op helps."""
    within(block, settings.budget)


def _is_cheap(op: NdOp) -> bool:
    """An element-wise op of one result that costs little per element."""
    if op.kind is not Kind.MAP or len(op.results) != 1 or not operands_of(op):
        return False
    return op.cost(op.operand_avals, op.avals, **op.values) <= CHEAP
