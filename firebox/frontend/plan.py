"""From pending values to a plan: the ops of one program in order, numbered, with the key that equal programs share.

Values are numbered from 0 on (inputs and results, in order of appearance); the operand -1 - k is slot k, a Python
number. No IR object is made here, so that looking up a program that is known already costs little.
"""

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from firebox.dialects.nd.base import NdOp, lookup
from firebox.errors import TraceError
from firebox.frontend.entries import entry_of
from firebox.frontend.graph import CallNode, CutVar, Failure, LeafVar, Node, Region, RegionNode, ScalarVar, Var
from firebox.frontend.locations import Location
from firebox.frontend.steps import Block, Move, Step, inlined
from firebox.frontend.transfers import WAITING, TransferNode

LEAKED = (
    "a value of a traced function is used outside of it, or read inside it: "
    "its numbers are known only when the compiled program runs"
)
HINT = (
    "return it from the function; to choose by a traced condition use fb.where or fb.cond, "
    "to repeat by one fb.while_loop; to print it, return it"
)

Key = tuple[Any, ...]

STEP = "step"
"""File name of locations that stand for the number of a step."""


class Plan:
    """One program to be.

    Attributes:
        inputs: values that the program takes, in order; the numbers 0..n-1 in no particular order of `Var`s.
        input_numbers: the number of each input.
        slots: the Python numbers used, in order.
        recorded: top-level ops in order, calls as one step each.
        steps: the same with the bodies of calls in their place.
        outputs: numbers of the outputs.
        size: how many numbers there are.
        count: recorded ops, those in regions included.
        key: equal for programs that differ at most in the values of the slots.
    """

    def __init__(self) -> None:
        self.inputs: list[Var] = []
        self.input_numbers: list[int] = []
        self.slots: list[ScalarVar] = []
        self.recorded: list[Step] = []
        self.outputs: tuple[int, ...] = ()
        self.size = 0
        self.nodes: list[Node] = []
        self.key: Key = ()

    @functools.cached_property
    def steps(self) -> list[Step]:
        return inlined(self.recorded)

    @property
    def count(self) -> int:
        return len(self.nodes)


class _CycleError(Exception):
    """The order of nodes has a cycle."""


class _Scope:
    """Numbers of the values defined in one block: placeholders or leaves by Var, results by Node."""

    __slots__ = ("args", "results", "stopped")

    def __init__(self) -> None:
        self.args: dict[Var, int] = {}
        self.results: dict[Node, int | tuple[int, ...]] = {}
        self.stopped: dict[int, int] = {}


class Planner:
    """Makes a plan for some outputs.

    Args:
        placeholders: Vars that are inputs, in this order, whether used or not (the arguments of a traced function).
        stops: derivatives end where the trace says so at top level too, as the plan may come to stand in a transform.
    """

    def __init__(self, placeholders: Sequence[Var] = (), stops: bool = False) -> None:
        self.plan = Plan()
        self._next = 0
        self._top = _Scope()
        self._scopes = [self._top]
        self._key: list[Any] = []
        self._by_buffer: dict[tuple[int, int], int] = {}
        self._extras: dict[RegionNode, dict[tuple[Node, int], int]] = {}
        self._shared = not WAITING  # a backward may need what a transfer gives it later
        self._stops = stops
        for var in placeholders:
            self._add_input(var)

    def make(self, outputs: Sequence[Var]) -> Plan:
        """The plan that computes the outputs.

        Raises:
            TraceError: an output depends on a placeholder that is no input here.
        """
        plan = self.plan
        for node in self._order(outputs):
            self._emit(node, plan.recorded)
        last = plan.recorded[-1].node if plan.recorded else None
        plan.outputs = tuple([self._operand(v, last, plan.recorded) for v in outputs])
        plan.size = self._next
        self._key.append(plan.outputs)
        plan.key = tuple(self._key)
        return plan

    # ---- order ---------------------------------------------------------------------------------------------------

    def _order(self, outputs: Sequence[Var]) -> list[Node]:
        """The top-level nodes behind the outputs, each after what it needs."""
        try:
            return self._sorted(outputs)
        except _CycleError:  # two backwards each want a value out of the other's region: compute such values outside
            self._shared = False
            self._extras.clear()
            return self._sorted(outputs)

    def _sorted(self, outputs: Sequence[Var]) -> list[Node]:
        order: list[Node] = []
        state: dict[Node, bool] = {}  # False while a node waits for its inputs, True when it is placed
        for output in outputs:
            root = self._provider(output, state)
            stack = [] if root is None else [root]
            while stack:
                node = stack[-1]
                if state.get(node):
                    stack.pop()
                    continue
                state[node] = False
                providers = [p for v in node.inputs() if (p := self._provider(v, state)) is not None]
                waiting = [p for p in providers if not state.get(p)]
                if not waiting:
                    state[node] = True
                    order.append(node)
                    stack.pop()
                elif any(p in state for p in waiting):
                    raise _CycleError
                stack.extend(reversed(waiting))
        return order

    def _provider(self, var: Var, state: dict[Node, bool]) -> Node | None:
        """What computes a value at top level: its node, or the backward that has it in its region."""
        node = var.node
        if node is None or var.buffer is not None or type(node) is TransferNode:
            return None
        owner = None if node.owner is None else node.owner()
        if owner is None or node in state or not self._shared or not state.get(owner, True):
            return node
        if not any(r() is not None for r in owner.live):
            return node
        extras = self._extras.setdefault(owner, {})
        extras.setdefault((node, var.index), len(extras))
        return owner

    # ---- numbers -------------------------------------------------------------------------------------------------

    def _add_input(self, var: Var) -> int:
        number = self._next
        self._next += 1
        self._top.args[var] = number
        self.plan.inputs.append(var)
        self.plan.input_numbers.append(number)
        self._key.append(id(var.aval))
        return number

    def _number(self, var: Var) -> int:
        for scope in reversed(self._scopes):
            number = scope.args.get(var)
            if number is not None:
                return number
            node = var.node
            if node is not None and (var.buffer is None or scope is not self._top):
                first = scope.results.get(node)
                if first is not None:
                    return first + var.index if type(first) is int else first[var.index]  # type: ignore[index]
        if type(var) is ScalarVar:
            self.plan.slots.append(var)
            return -len(self.plan.slots)
        return self._outside(var)

    def _outside(self, var: Var) -> int:
        node = var.node
        if var.buffer is None and type(node) is TransferNode:
            var.buffer = node.buffer
        if type(var.buffer) is Failure:
            raise var.buffer.error
        if var.buffer is not None:
            key = (id(var.buffer), id(var.aval))
            number = self._by_buffer.get(key)
            if number is None:
                number = self._by_buffer[key] = self._add_input(var)
            else:
                self._top.args[var] = number
            return number
        owner = None if node is None or node.owner is None else node.owner()
        if node is not None and owner is not None:
            extra = self._extras.get(owner, {}).get((node, var.index))
            first = self._top.results.get(owner)
            if extra is not None and type(first) is int:
                return first + len(owner.entry.results) + extra
        raise TraceError(LEAKED, found=f"a value of type {var.aval}", hint=HINT)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _emit(self, node: Node, steps: list[Step]) -> None:
        if isinstance(node, CallNode):
            self._emit_call(node, steps)
            return
        self.plan.nodes.append(node)
        if len(self._scopes) == 1 and not self._stops:
            operands = tuple(map(self._number, node.operands))
        else:
            operands = tuple([self._operand(v, node, steps) for v in node.operands])
        if isinstance(node, RegionNode):
            self._emit_region(node, operands, steps)
            return
        entry = node.entry
        first = self._next
        self._key.append(entry.uid)
        self._key.append(operands)
        if entry.body is not None:
            self._emit_body(entry.body, Step(entry, operands, first, node, (), len(self.plan.slots)), steps)
            return
        self._next += len(entry.results)
        self._scopes[-1].results[node] = first
        steps.append(Step(entry, operands, first, node, ()))

    def _emit_body(self, body: Plan, call: Step, steps: list[Step]) -> None:
        """One step for a call; numbers are left free for the values of its body."""
        steps.append(call)
        self._next += body.size - len(body.inputs)
        self._scopes[-1].results[call.node] = Move(call, len(body.inputs)).all(body.outputs)
        self.plan.slots.extend(body.slots)

    def _emit_region(self, node: RegionNode, operands: tuple[int, ...], steps: list[Step]) -> None:
        self._key.extend((node.entry.uid, operands))
        extras = list(self._extras.get(node, ())) if len(self._scopes) == 1 else []
        blocks = tuple(self._block(region, extras) for region in node.regions)
        first = self._next
        self._next += len(node.entry.results) + len(extras)
        self._scopes[-1].results[node] = first
        steps.append(Step(node.entry, operands, first, node, blocks))

    def _block(self, region: Region, extras: list[tuple[Node, int]]) -> Block:
        scope = _Scope()
        self._scopes.append(scope)
        args = tuple(range(self._next, self._next + len(region.args)))
        self._next += len(args)
        scope.args.update(zip(region.args, args, strict=True))
        self._key.append(tuple(id(v.aval) for v in region.args))
        steps: list[Step] = []
        for node in region.nodes:
            self._emit(node, steps)
        last = region.nodes[-1] if region.nodes else None
        yields = [self._operand(v, last, steps) for v in region.outputs]
        for node, index in extras:
            first = scope.results[node]
            yields.append(first + index if type(first) is int else first[index])  # type: ignore[index]
        self._scopes.pop()
        self._key.append(tuple(yields))
        return Block(args, tuple(v.aval for v in region.args), steps, tuple(yields))

    def _emit_call(self, node: CallNode, steps: list[Step]) -> None:
        """Put the called region here: its arguments are the operands, its outputs the results."""
        (region,) = node.regions
        numbers = [self._operand(v, node, steps) for v in node.operands]
        scope = _Scope()
        scope.args.update(zip(region.args, numbers, strict=True))
        self._scopes.append(scope)
        for inner in region.nodes:
            self._emit(inner, steps)
        results = tuple(self._operand(v, node, steps) for v in region.outputs)
        self._scopes.pop()
        self._scopes[-1].results[node] = results

    def _operand(self, var: Var, user: Node | None, steps: list[Step]) -> int:
        """The number of an operand; inside a transform, derivatives end where the trace says so."""
        number = self._number(var)
        if (len(self._scopes) == 1 and not self._stops) or number < 0 or user is None or not is_cut(var):
            return number
        scope = self._scopes[-1]
        stopped = scope.stopped.get(number)
        if stopped is None:
            entry = entry_of(_stop_gradient(), (var,), {})
            stopped = scope.stopped[number] = self._next
            self._next += 1
            self._key.extend((entry.uid, (number,)))
            steps.append(Step(entry, (number,), stopped, user, ()))
        return stopped


def is_cut(var: Var) -> bool:
    """Whether derivatives end at this value, although it depends on something that has some."""
    return isinstance(var, CutVar) or (var.node is not None and var.node.cut and type(var) is not LeafVar)


def _stop_gradient() -> type[NdOp]:
    return lookup("nd.stop_gradient")


def describe(plan: Plan, dynamic: Collection[int] = ()) -> str:
    """The plan as text, the same in every process: equal texts are equal programs. Not for reading back."""
    lines = [f"input {n} {v.aval}" for n, v in zip(plan.input_numbers, plan.inputs, strict=True)]
    for position, slot in enumerate(plan.slots):
        value = "input" if position in dynamic else slot.data.hex()
        lines.append(f"slot {-1 - position} {slot.aval} {value}")
    _describe(plan.steps, lines)
    lines.append(f"output {plan.outputs}")
    return "\n".join(lines)


def _describe(steps: Sequence[Step], lines: list[str]) -> None:
    for step in steps:
        params = {name: step.entry.params[name] for name in sorted(step.entry.params)}
        lines.append(f"{step.first} = {step.entry.op.name} {step.operands} {params!r}")
        for block in step.blocks:
            lines.append(f"region {block.args} {', '.join(map(str, block.avals))}")
            _describe(block.steps, lines)
            lines.append(f"yield {block.yields}")


def step_locations(plan: Plan) -> list[Location | None]:
    """The user's line of each step, by its number."""
    return [step.node.location for step in _walk(plan.steps)]


def _walk(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for block in step.blocks:
            yield from _walk(block.steps)
