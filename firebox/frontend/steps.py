"""What a plan is made of: `Step` and `Block`; and the bodies of calls put in place of the calls."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.control import ControlOp
from firebox.frontend.entries import Entry
from firebox.frontend.graph import Node


class Block(NamedTuple):
    """A region's body. Attributes: numbers of its arguments, their types, its steps, numbers of what it yields."""

    args: tuple[int, ...]
    avals: tuple[Aval, ...]
    steps: "list[Step]"
    yields: tuple[int, ...]


class Step(NamedTuple):
    """One op: what, its operands, the number of its first result, the node it comes from, its regions' blocks.

    A call of a function that was traced once stands as one step as long as nobody looks: ``first`` is then the number
    of the first value in its body, and ``slots`` the number of slots before those of the body.
    """

    entry: Entry
    operands: tuple[int, ...]
    first: int
    node: Node
    blocks: tuple[Block, ...]
    slots: int = 0


def inlined(steps: Sequence[Step]) -> list[Step]:
    """Steps with the bodies of calls in their place."""
    found: list[Step] = []
    for step in steps:
        body = step.entry.body
        if body is not None:
            found.extend(_moved(body.steps, Move(step, len(body.inputs))))
        elif step.blocks:
            blocks = []
            control = issubclass(step.entry.op, ControlOp)
            for block in step.blocks:
                flat = inlined(block.steps)
                outside, inside = ([], flat) if control else _split(block.args, flat)
                found.extend(outside)
                blocks.append(block._replace(steps=inside))
            found.append(step._replace(blocks=tuple(blocks)))
        else:
            found.append(step)
    return found


def _split(args: Sequence[int], steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """What depends on no argument of a region stands before it (as in `Region`), also when it comes from a body."""
    outside: list[Step] = []
    inside: list[Step] = []
    depends = set(args)
    for step in steps:
        if depends.isdisjoint(_uses(step)):
            outside.append(step)
        else:
            inside.append(step)
            depends.update(range(step.first, step.first + len(step.entry.results)))
    return outside, inside


def _uses(step: Step) -> Iterator[int]:
    """Every value that a step and its regions need."""
    yield from step.operands
    for block in step.blocks:
        yield from block.yields
        for inner in block.steps:
            yield from _uses(inner)


class Move:
    """From the numbers in the body of a call to those of the plan around it: operands, own values, slots."""

    def __init__(self, call: Step, inputs: int) -> None:
        self.node = call.node
        self.operands = call.operands
        self.inputs = inputs
        self.offset = call.first - inputs
        self.slots = call.slots

    def one(self, number: int) -> int:
        if number < 0:
            return number - self.slots
        return number + self.offset if number >= self.inputs else self.operands[number]

    def all(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple([self.one(n) for n in numbers])


def _moved(steps: Sequence[Step], move: Move) -> list[Step]:
    """The steps of a body in the plan of its caller, whose line is theirs."""
    found = []
    for step in steps:
        blocks = tuple([_moved_block(b, move) for b in step.blocks])
        found.append(Step(step.entry, move.all(step.operands), move.one(step.first), move.node, blocks))
    return found


def _moved_block(block: Block, move: Move) -> Block:
    return Block(move.all(block.args), block.avals, _moved(block.steps, move), move.all(block.yields))
