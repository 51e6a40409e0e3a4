"""Memory within a budget: what to compute again, by what it frees for its arithmetic, and how much of that it takes.

The strategy `within` counts the values of the block in their order. What a program takes in the end is known when it is
planned: fusion keeps values out of memory, and the planner reuses it. So `fit` tries strategies of smaller and smaller
estimates until the planned arena is small enough, and takes the one that repeats least.
"""

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from firebox.dialects.nd.base import NdOp
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import UserError
from firebox.lowering.checkpoint_lives import BALANCED, EVERYTHING, Allowed, Lives, arithmetic, nbytes
from firebox.lowering.rewrite import erase_dead, functions_of

ROUNDS = 64
"""Peaks that are lowered one after another before an estimate is given up."""
PATIENCE = 8
"""Rounds without a lower peak before that."""
LEVELS = 16
"""Estimates that are tried, as parts of the memory without a budget. They are the same for every budget, so that the
smallest arena that an error names is one that can be had."""
NO_ARITHMETIC = 1.0
"""What an op that computes nothing counts as."""

Arena = Callable[[ModuleOp], int]
"""The arena, in bytes, that a module is planned with; the module is used up."""


def within(block: Block, budget: int) -> None:
    """Where memory peaks, repeat the ops that free most per arithmetic, until the peak fits or no op helps.

    What is bound by memory goes first, then everything.
    """
    lower(block, budget, BALANCED)
    lower(block, budget, EVERYTHING)


def lower(block: Block, budget: int, allowed: Allowed) -> None:
    """Repeat some of what is allowed, as long as that lowers the peak and it is above the budget."""
    _lowered(block, budget, allowed, _rounds(block, budget, allowed))


def _rounds(block: Block, budget: int, allowed: Allowed) -> int:
    """The number of rounds after which the peak is lowest, tried on a copy."""
    function = block.parent_op()
    assert function is not None
    return _lowered(function.clone().regions[0].block, budget, allowed, ROUNDS)


def _lowered(block: Block, budget: int, allowed: Allowed, rounds: int) -> int:
    """Lower the peak, round after round, in place; tells after how many it was lowest."""
    lowest, best = peak_bytes(block), 0
    for number in range(1, rounds + 1):
        lives = Lives(block)
        position, peak = lives.peak()
        if peak <= budget or number - best > PATIENCE or not _lower(lives, position, peak - budget, allowed):
            break
        erase_dead(block)
        peak = peak_bytes(block)
        if peak < lowest:
            lowest, best = peak, number
    return best


def peak_bytes(block: Block) -> int:
    """The most memory that results take at a time, in the order in which the ops stand; arguments do not count."""
    return Lives(block).peak()[1]


def _lower(lives: Lives, position: int, excess: int, allowed: Allowed) -> bool:
    """Repeat what frees so many bytes at a position, the cheapest first; tells whether anything was repeated."""
    moved: set[SSAValue] = set()
    relied: set[SSAValue] = set()
    freed = 0
    for op, late, chain in _candidates(lives, position, allowed):
        used = {v for link in chain for v in operands_of(link) if v.owner not in chain}
        if moved & used or relied & set(op.results):
            continue
        lives.repeat(chain, late)
        moved.update(op.results)
        relied.update(used)
        freed += sum(nbytes(r) for r in op.results)
        if freed >= excess:
            break
    return freed > 0


def _candidates(lives: Lives, position: int, allowed: Allowed) -> list[tuple[NdOp, Operation, list[NdOp]]]:
    """Ops whose results wait over the position, first those that free most per arithmetic; where and what to repeat."""
    found: list[tuple[float, int, NdOp, Operation, list[NdOp]]] = []
    for number, op in enumerate(lives.ops[:position]):
        if not isinstance(op, NdOp) or not allowed.repeats(op):
            continue
        size = sum(nbytes(r) for r in op.results)
        late = lives.after(op, position) if size else None
        chain = None if late is None else lives.chain(op, late, allowed)
        if late is not None and chain is not None:
            gain = size / (NO_ARITHMETIC + sum(arithmetic(link) for link in chain))
            found.append((-gain, number, op, late, chain))
    found.sort(key=lambda entry: entry[:2])
    return [entry[2:] for entry in found]


# ---- the planned arena -------------------------------------------------------------------------------------------


def fit(module: ModuleOp, budget: int, arena: Arena) -> None:
    """Repeat, in place, as little as it takes to be planned with an arena of at most ``budget`` bytes.

    Args:
        arena: plans a copy of the module.

    Raises:
        UserError: that is out of reach; names the smallest arena that was found.
    """
    smallest = arena(module.clone())
    if smallest <= budget:
        return
    most = max(peak_bytes(f.body.block) for f in functions_of(module))
    fits, above, level = None, LEVELS, LEVELS // 2
    while True:
        size = arena(_tried(module, most * level // LEVELS))
        smallest = min(smallest, size)
        fits, above = (level, above) if size <= budget else (fits, level)
        following = level // 2 if fits is None else (fits + above) // 2
        if following in (level, fits):
            break
        level = following
    if fits is None:
        raise UserError(
            "the budget is out of reach",
            op="checkpoint",
            expected=f"an arena of at most {budget} bytes",
            found=f"{smallest} bytes, where everything that helps is computed again",
            hint=f"a budget of {smallest} bytes or more, or a smaller batch",
        )
    for function in functions_of(module):
        within(function.body.block, most * fits // LEVELS)


def _tried(module: ModuleOp, target: int) -> ModuleOp:
    copy = module.clone()
    for function in functions_of(copy):
        within(function.body.block, target)
    return copy
