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
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.xdsl_compat import is_used, operands_of, ops_of
from firebox.errors import UserError
from firebox.lowering.rewrite import RECOMPUTE, block_holding, functions_of, next_mark

CHEAP = 4.0
"""Arithmetic per element up to which an op is cheaper to repeat than its result is to load."""
FAR = 32
"""Ops between two uses from which a value counts as kept over a long time."""
SMALL = 1 << 16
"""Bytes below which keeping a value is not worth a thought."""
STEPS = 4
"""Repetitions, per op of the program, after which a budget is given up."""
NEGLIGIBLE = 16
"""How many times smaller an operand must be for its memory not to count."""


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
    strategy: str = "keep-all"
    """``keep-all``, ``recompute-cheap`` or ``budget``."""
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


def checkpoint(module: ModuleOp, strategy: str = "keep-all", budget: int = 0) -> None:
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


@strategy("keep-all")
def _keep_all(block: Block, settings: Settings) -> None:
    """Change nothing: every value stays until its last use."""


@strategy("recompute-cheap")
def _recompute_cheap(block: Block, settings: Settings) -> None:
    """Repeat cheap element-wise ops whose large results wait for a far use."""
    lives = _Lives(block)
    for op in list(ops_of(block)):
        if not isinstance(op, NdOp) or RECOMPUTE in op.attributes or not _repeatable(op, CHEAP):
            continue
        if _bytes(op.results[0]) < SMALL:
            continue
        late = lives.after_gap(op.results[0])
        if late is not None and lives.available(op, late):
            _repeat(op, late, lives, next_mark(block))


@strategy("budget")
def _within_budget(block: Block, settings: Settings) -> None:
    """Where memory peaks, repeat the op that frees most per arithmetic, until the peak fits or no op helps."""
    for _ in range(STEPS * sum(1 for _ in ops_of(block))):
        lives = _Lives(block)
        position, peak = lives.peak()
        if peak <= settings.budget:
            return
        found = lives.best_at(position)
        if found is None:
            return
        op, late = found
        _repeat(op, late, lives, next_mark(block))


def peak_bytes(block: Block) -> int:
    """The most memory that results take at a time, in the order in which the ops stand; arguments do not count."""
    return _Lives(block).peak()[1]


def _repeatable(op: NdOp, limit: float) -> bool:
    """A pure element-wise op of one result that costs at most so much per element."""
    if op.kind is not Kind.MAP or len(op.results) != 1 or not operands_of(op):
        return False
    return op.cost(op.operand_avals, op.avals, **op.values) <= limit


def _bytes(value: SSAValue) -> int:
    """Size in memory; 0 while it depends on symbolic dims."""
    size = aval_of(value.type).nbytes
    return size if isinstance(size, int) else 0


def _repeat(op: NdOp, late: Operation, lives: "_Lives", mark: int) -> None:
    """A copy of the op before ``late`` serves the uses from there on."""
    copy = op.clone()
    copy.attributes[RECOMPUTE] = IntegerAttr(mark, i64)
    block = block_holding(late)
    block.insert_op_before(copy, late)
    start = lives.position[late]
    op.results[0].replace_uses_with_if(copy.results[0], lambda use: lives.place(use.operation) >= start)
    if not is_used(op.results[0]):
        block.erase_op(op)


class _Lives:
    """When values are made and used, in the order in which the ops stand."""

    def __init__(self, block: Block) -> None:
        self.ops = list(ops_of(block))
        self.position: dict[Operation, int] = {op: k for k, op in enumerate(self.ops)}

    def uses(self, value: SSAValue) -> list[int]:
        """Positions of the uses, ascending; uses inside regions count as those of the op that holds them."""
        return sorted({self.place(use.operation) for use in value.uses})

    def place(self, op: Operation) -> int:
        """Where the op, or the one that holds it, stands; -1 for a copy made meanwhile."""
        while op not in self.position:
            parent = op.parent_op()
            if parent is None:
                return -1
            op = parent
        return self.position[op]

    def after_gap(self, value: SSAValue) -> Operation | None:
        """The first use after a long wait."""
        made = self.position[value.owner] if isinstance(value.owner, Operation) else 0
        places = [made, *self.uses(value)]
        for earlier, later in pairwise(places):
            if later - earlier >= FAR:
                return self.ops[later]
        return None

    def available(self, op: NdOp, late: Operation) -> bool:
        """Whether all operands are in memory when ``late`` runs without being kept for it, or take next to none."""
        at = self.position[late]
        return all(self._last(v) >= at or self._is_free(v, op.results[0]) for v in operands_of(op))

    def _is_free(self, value: SSAValue, result: SSAValue) -> bool:
        """Arguments, values without operands (constants), and what is much smaller than the result."""
        owner = value.owner
        if not isinstance(owner, Operation) or not operands_of(owner):
            return True
        return 0 < NEGLIGIBLE * _bytes(value) <= _bytes(result)

    def _last(self, value: SSAValue) -> int:
        return max(self.uses(value), default=-1)

    def peak(self) -> tuple[int, int]:
        """(position, bytes) of the largest sum of live results; arguments are the caller's and do not count."""
        change = [0] * (len(self.ops) + 1)
        for k, op in enumerate(self.ops):
            for result in op.results:
                change[k] += _bytes(result)
                change[max(self._last(result), k) + 1] -= _bytes(result)
        total, best = 0, (0, 0)
        for k, delta in enumerate(change):
            total += delta
            best = (k, total) if total > best[1] else best
        return best

    def best_at(self, position: int) -> tuple[NdOp, Operation] | None:
        """The op whose result waits over the position and frees most per arithmetic when repeated; and where to."""
        best: tuple[float, NdOp, Operation] | None = None
        for op in self.ops[:position]:
            if not isinstance(op, NdOp) or not _repeatable(op, float("inf")):
                continue
            uses = self.uses(op.results[0])
            later = [u for u in uses if u > position]
            if not later or position in uses or not self.available(op, self.ops[later[0]]):
                continue
            gain = _bytes(op.results[0]) / (1.0 + op.cost(op.operand_avals, op.avals, **op.values))
            if best is None or gain > best[0]:
                best = (gain, op, self.ops[later[0]])
        return None if best is None or best[0] == 0 else best[1:]
