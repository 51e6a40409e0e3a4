"""Pass `slim`: what the readers of a group can compute again from less memory is not stored.

After `fuse`, every result of a group is written to memory and read by each of its readers. The gradient of a GELU reads
half a dozen values that are all made of the sum before the GELU: on a device whose arithmetic is cheaper than its
memory that one is stored, and the reader repeats the rest. Before::

    %h, %a, %b, %c = nd.group %x, %w { ... %a, %b, %c from %h ... }      nd.group %a, %b, %c, %g { ... }

After::

    %h = nd.group %x, %w { ... }                                 nd.group %h, %g { ... %a, %b, %c from %h ... }

A result is dropped only if all of its readers are loops or epilogues that read it at the point at which they run, and
if it is made, element by element, of what the readers can read at that point too: other results of its group, and the
operands of its group. Which ones to drop is decided by the bytes that are written and read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, SSAValue, Use
from xdsl.passes import ModulePass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.formula import loop_names
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.xdsl_compat import is_used
from firebox.lowering.access import formula_of, owner_op
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.regroup import MAX_MEMBERS, MAX_OPERANDS

WORK = 128.0
"""Arithmetic per element that may be repeated for one value: about what a GPU does while it moves 8 bytes."""
SMALL = 1 << 16
"""Bytes below which storing a value is not worth a thought."""


def slim(module: ModuleOp) -> None:
    """Store less in all groups of a module; in place."""
    for group in list(groups_in(main_function(module).body.block)):
        chosen = _choose(group)
        if chosen is not None:
            _Rewriter(group, chosen).run()


@dataclass
class _Recipe:
    """How a reader computes a value: ``ops`` in order, and the values of the producing group that they start from."""

    ops: list[NdOp] = field(default_factory=list)
    stops: list[SSAValue] = field(default_factory=list)


@dataclass
class _Choice:
    """Results to drop, and what that takes.

    Attributes:
        recipes: by the value in the group that is a result no longer.
        extra: values of the group that become results.
        gain: bytes that are no longer moved.
    """

    recipes: dict[SSAValue, _Recipe]
    extra: list[SSAValue]
    gain: int


# ---- what may be dropped -----------------------------------------------------------------------------------------


def _choose(group: GroupOp) -> _Choice | None:
    """The best choice: all candidates, all but one, or one; None if nothing gains."""
    if group.group not in ("loops", "contract"):
        return None
    found = [v for v, r in zip(_yielded(group), group.results, strict=True) if _is_candidate(group, v, r)]
    attempts = [found, *([v for v in found if v is not other] for other in found), *([v] for v in found)]
    choices = [choice for attempt in attempts if attempt and (choice := _weigh(group, attempt)) is not None]
    best = max(choices, key=lambda choice: choice.gain, default=None)
    return best if best is not None and best.gain > 0 else None


def _is_candidate(group: GroupOp, value: SSAValue, result: SSAValue) -> bool:
    op = owner_op(value)
    if op is None or not _is_elementwise(op) or _bytes(value) < SMALL:
        return False
    uses = list(result.uses)
    return aval_of(value.type).shape == group.domain and bool(uses) and all(_absorbs(use, group) for use in uses)


def _absorbs(use: Use, producer: GroupOp) -> bool:
    """The reader may compute the value itself: it reads it where it runs, and nowhere else."""
    reader = use.operation
    if not isinstance(reader, GroupOp) or reader.group not in ("loops", "contract"):
        return False
    argument = reader.block.args[use.index]
    if reader.parent is not producer.parent or aval_of(argument.type).shape != reader.domain:
        return False
    return is_used(argument) and all(_reads_in_place(inner.operation, reader) for inner in argument.uses)


def _reads_in_place(op: object, reader: GroupOp) -> bool:
    if not isinstance(op, NdOp):
        return False
    return op.kind is Kind.REDUCE or (_is_elementwise(op) and op.avals[0].shape == reader.domain)


def _is_elementwise(op: NdOp) -> bool:
    """A map of one result whose operands are all read at the point of the result, or along the dims that they have."""
    if op.kind is not Kind.MAP or len(op.results) != 1 or not op._operands:
        return False
    formula = formula_of(op)
    place = loop_names("i", len(formula.extents))
    for read in formula.reads:
        behind = place[len(place) - len(read.index) :]
        if read.guards or any(at not in (0, loop) for at, loop in zip(read.index, behind, strict=False)):
            return False
    return bool(formula.reads)


def _is_made_of_nothing(op: NdOp) -> bool:
    """A constant, or numbers that count its elements."""
    return op.kind is Kind.MAP and not op._operands


def _weigh(group: GroupOp, dropped: Sequence[SSAValue]) -> _Choice | None:
    """What dropping these results gains; None where it asks too much of a reader."""
    results = dict(zip(_yielded(group), group.results, strict=True))
    kept = {value for value in results if value not in dropped}
    recipes = {value: _recipe(value, kept) for value in dropped}
    if any(sum(map(_work, recipe.ops)) > WORK for recipe in recipes.values()):
        return None
    stops = dict.fromkeys(s for recipe in recipes.values() for s in recipe.stops)
    extra = [s for s in stops if not isinstance(s, BlockArgument) and s not in kept]
    gain = sum(map(_bytes, dropped)) - sum(map(_bytes, extra))
    for reader, values in _readers(results, dropped).items():
        new = dict.fromkeys(s for value in values for s in recipes[value].stops)
        fresh = [s for s in new if _outside(s, group, results) not in reader.operands]
        ops = len({op for value in values for op in recipes[value].ops})
        if len(reader.operands) + len(fresh) > MAX_OPERANDS or len(list(reader.block.ops)) + ops > MAX_MEMBERS:
            return None
        gain += sum(map(_bytes, values)) - sum(map(_bytes, fresh))
    return _Choice(recipes, extra, gain)


def _recipe(value: SSAValue, kept: set[SSAValue]) -> _Recipe:
    """Back from a value to kept results, operands of the group, and what cannot be repeated."""
    recipe = _Recipe()
    done: set[SSAValue] = set()

    def visit(at: SSAValue) -> None:
        if at in done:
            return
        done.add(at)
        op = owner_op(at)
        if op is None or at in kept or not (_is_elementwise(op) or _is_made_of_nothing(op)):
            recipe.stops.append(at)
            return
        for operand in op._operands:
            visit(operand)
        recipe.ops.append(op)

    visit(value)
    return recipe


def _readers(results: Mapping[SSAValue, SSAValue], dropped: Iterable[SSAValue]) -> dict[GroupOp, list[SSAValue]]:
    found: dict[GroupOp, list[SSAValue]] = {}
    for value in dropped:
        for use in results[value].uses:
            assert isinstance(use.operation, GroupOp)
            found.setdefault(use.operation, []).append(value)
    return found


def _outside(stop: SSAValue, group: GroupOp, results: Mapping[SSAValue, SSAValue]) -> SSAValue | None:
    """The value in memory; None for one that is not stored yet."""
    return group.operands[stop.index] if isinstance(stop, BlockArgument) else results.get(stop)


def _yielded(group: GroupOp) -> list[SSAValue]:
    last = group.block.last_op
    assert last is not None
    return list(last.operands)


def _bytes(value: SSAValue) -> int:
    """Size in memory; 0 while it depends on symbolic dims."""
    size = aval_of(value.type).nbytes
    return size if isinstance(size, int) else 0


def _work(op: NdOp) -> float:
    return op.cost(op.operand_avals, op.avals, **op.values)


# ---- the rewrite -------------------------------------------------------------------------------------------------


class _Rewriter:
    """Replaces a group by one with other results, and lets its readers compute what is dropped."""

    def __init__(self, group: GroupOp, choice: _Choice) -> None:
        self.group = group
        self.choice = choice

    def run(self) -> None:
        """Rewrite the group and its readers."""
        group, recipes = self.group, self.choice.recipes
        old = dict(zip(_yielded(group), group.results, strict=True))
        kept = [value for value in old if value not in recipes]
        made = self._with_results([*kept, *self.choice.extra])
        memory: dict[SSAValue, SSAValue] = dict(zip([*kept, *self.choice.extra], made.results, strict=True))
        for value in kept:
            memory[value].name_hint = old[value].name_hint
            old[value].replace_all_uses_with(memory[value])
        for argument in made.block.args:
            memory[argument] = made.operands[argument.index]
        for reader, values in _readers(old, recipes).items():
            places = {value: next(k for k, o in enumerate(reader.operands) if o is old[value]) for value in values}
            _absorb(reader, places, recipes, memory)
            _prune(reader)
        _prune(made)
        assert group.parent is not None
        group.parent.erase_op(group, safe_erase=False)

    def _with_results(self, values: Sequence[SSAValue]) -> GroupOp:
        """The group anew, its body taken over."""
        group = self.group
        last = group.block.last_op
        assert last is not None and group.parent is not None
        last.operands = values
        made = GroupOp.create(
            operands=list(group.operands),
            result_types=[value.type for value in values],
            attributes=dict(group.attributes),
            regions=[group.detach_region(0)],
            location=group.location,
        )
        group.parent.insert_op_before(made, group)
        return made


def _absorb(
    reader: GroupOp,
    places: Mapping[SSAValue, int],
    recipes: Mapping[SSAValue, _Recipe],
    memory: Mapping[SSAValue, SSAValue],
) -> None:
    """Copy the ops of recipes into a reader, once each, before the first use of what they replace.

    Args:
        places: number of the operand by the value that is dropped.
        memory: where the stops of recipes are in memory.
    """
    block = reader.block
    arguments = {value: block.args[k] for value, k in places.items()}
    users = {use.operation for argument in arguments.values() for use in argument.uses}
    first = next(op for op in block.ops if op in users)
    inside: dict[SSAValue, SSAValue] = {}
    for value, argument in arguments.items():
        for stop in recipes[value].stops:
            inside.setdefault(stop, _argument(reader, block, memory[stop]))
        for op in recipes[value].ops:
            if op.results[0] not in inside:
                copy = op.clone(inside)
                block.insert_op_before(copy, first)
                inside[op.results[0]] = copy.results[0]
        argument.replace_all_uses_with(inside[value])


def _argument(reader: GroupOp, block: Block, value: SSAValue) -> SSAValue:
    """The reader's argument for a value in memory, a new one if it does not read it yet."""
    for operand, argument in zip(reader.operands, block.args, strict=True):
        if operand is value:
            return argument
    reader.operands = [*reader.operands, value]
    argument = block.insert_arg(value.type, len(block.args))
    argument.name_hint = value.name_hint
    return argument


def _prune(group: GroupOp) -> None:
    """Forget members, and then operands, that nothing in the group uses any more."""
    block = group.block
    for op in reversed(list(block.ops)[:-1]):
        if not any(is_used(result) for result in op.results):
            block.erase_op(op)
    used = [argument.index for argument in block.args if is_used(argument)]
    if len(used) == len(block.args):
        return
    operands = group.operands
    group.operands = [operands[k] for k in used]
    for argument in reversed(block.args):
        if not is_used(argument):
            block.erase_arg(argument)
    _renumber(group, {old: new for new, old in enumerate(used)})


def _renumber(group: GroupOp, numbers: Mapping[int, int]) -> None:
    """The reasons at borders begin with the number of an operand."""
    borders = group.attributes.get("borders")
    if not isinstance(borders, ArrayAttr):
        return
    split = [border.data.partition(":") for border in borders.data if isinstance(border, StringAttr)]
    left = [f"{numbers[int(k)]}:{reason}" for k, _, reason in split if int(k) in numbers]
    group.attributes["borders"] = ArrayAttr([StringAttr(border) for border in left])


@dataclass(frozen=True)
class SlimPass(ModulePass):
    """Store only what readers cannot compute again from less."""

    name = "nd-slim"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        slim(op)
