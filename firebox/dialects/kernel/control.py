"""The kernel builder's control flow: counted loops, branches, conditional loops."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region

from firebox.dialects.kernel.core import Scope
from firebox.dialects.kernel.lanes import Lanes
from firebox.dialects.kernel.values import INDEX, Operand, Val, value_type
from firebox.dialects.xdsl_compat import INDEX_TYPE, append, create
from firebox.errors import CompilerError

T = TypeVar("T")
Body = Callable[[Val, list[Val]], Sequence[Val] | None]
Branch = Callable[[], Sequence[Val] | None]


class Control(Lanes):
    """Structured control flow; values leave a scope only as its results."""

    def loop(
        self,
        lo: Operand,
        hi: Operand,
        step: Operand,
        carried: Sequence[Val],
        body: Body,
        unroll: bool = False,
    ) -> list[Val]:
        """`for i in range(lo, hi, step)` with values carried from one turn to the next.

        Args:
            lo: first counter value.
            hi: the counter stays below it.
            step: positive.
            carried: values before the first turn.
            body: called with the counter and the carried values, gives their next values.
            unroll: write the body once per turn; the bounds must be constants.

        Returns:
            The carried values after the last turn.
        """
        first, last, stride = self.index(lo), self.index(hi), self.index(step)
        if unroll or _turns_at_most_once(first, last, stride):
            return self._unrolled(first, last, stride, carried, body)
        types = [value_type(v.dtype, v.lanes) for v in carried]
        block = Block(arg_types=[INDEX_TYPE, *types])
        level = len(self._scopes)
        counter = Val(block.args[0], INDEX, 1, level, None, first.nonneg)
        inner = [Val(a, v.dtype, v.lanes, level) for a, v in zip(block.args[1:], carried, strict=True)]
        results = self._scope(block, self._scopes[-1].floor, lambda: body(counter, inner))
        self._close(block, results, carried, "loop")
        operands = [first.ssa, last.ssa, stride.ssa, *(v.ssa for v in carried)]
        op = create(scf.ForOp, operands, types, {}, self._loc, (Region(block),))
        append(self._scopes[-1].block, op)
        return self._results(op, carried)

    def _unrolled(self, lo: Val, hi: Val, step: Val, carried: Sequence[Val], body: Body) -> list[Val]:
        if lo.const is None or hi.const is None or step.const is None:
            raise CompilerError("only a loop with constant bounds unrolls", op="kernel builder loop")
        values = list(carried)
        for i in range(int(lo.const), int(hi.const), int(step.const)):
            values = self._checked(body(self.index(i), values), carried, "loop")
        return values

    def if_(self, cond: Val, then: Branch, else_: Branch | None = None) -> list[Val]:
        """Run one of two branches; both give values of the same types.

        Work that is costly or reads memory stays inside its branch; cheap pure work may move before it.
        """
        if cond.const is not None:
            chosen = then if cond.const else else_
            return list((chosen() if chosen else None) or ())
        then_block, results = self._branch(then)
        append(then_block, self._yield(results))
        regions = [Region(then_block), Region()]
        if else_ is not None:
            else_block, other = self._branch(else_)
            self._close(else_block, other, results, "if")
            regions[1] = Region(else_block)
        elif results:
            raise CompilerError("a branch with results needs an else", op="kernel builder if_")
        op = create(scf.IfOp, (cond.ssa,), [value_type(v.dtype, v.lanes) for v in results], {}, self._loc, regions)
        append(self._scopes[-1].block, op)
        return self._results(op, results)

    def _branch(self, body: Branch) -> tuple[Block, list[Val]]:
        block = Block()
        results = self._scope(block, len(self._scopes), body)
        return block, list(results or ())

    def while_(
        self,
        carried: Sequence[Val],
        cond: Callable[[list[Val]], Val],
        body: Callable[[list[Val]], Sequence[Val]],
    ) -> list[Val]:
        """`while cond(values): values = body(values)`; gives the values for which the condition failed."""
        types = [value_type(v.dtype, v.lanes) for v in carried]
        level = len(self._scopes)
        before, after = Block(arg_types=types), Block(arg_types=types)
        floor = self._scopes[-1].floor
        asked = [Val(a, v.dtype, v.lanes, level) for a, v in zip(before.args, carried, strict=True)]
        done = [Val(a, v.dtype, v.lanes, level) for a, v in zip(after.args, carried, strict=True)]
        go_on = self._scope(before, floor, lambda: cond(asked))
        operands = (go_on.ssa, *(v.ssa for v in asked))
        append(before, create(scf.ConditionOp, operands, (), {}, self._loc))
        self._close(after, self._scope(after, floor, lambda: body(done)), carried, "while")
        regions = (Region(before), Region(after))
        op = create(scf.WhileOp, [v.ssa for v in carried], types, {}, self._loc, regions)
        append(self._scopes[-1].block, op)
        return self._results(op, carried)

    def _scope(self, block: Block, floor: int, body: Callable[[], T]) -> T:
        self._scopes.append(Scope(block, floor))
        try:
            return body()
        finally:
            self._scopes.pop()

    def _close(self, block: Block, results: Sequence[Val] | None, expected: Sequence[Val], what: str) -> None:
        append(block, self._yield(self._checked(results, expected, what)))

    def _yield(self, results: Sequence[Val]) -> Operation:
        return create(scf.YieldOp, [v.ssa for v in results], (), {}, self._loc)

    def _checked(self, results: Sequence[Val] | None, expected: Sequence[Val], what: str) -> list[Val]:
        given = list(results or ())
        have = [(v.dtype.name, v.lanes) for v in given]
        want = [(v.dtype.name, v.lanes) for v in expected]
        if have != want:
            raise CompilerError(
                "a body must give the types it takes", op=f"kernel builder {what}", expected=want, found=have
            )
        return given

    def _results(self, op: Operation, like: Sequence[Val]) -> list[Val]:
        level = len(self._scopes) - 1
        return [Val(r, v.dtype, v.lanes, level) for r, v in zip(op.results, like, strict=True)]


def _turns_at_most_once(lo: Val, hi: Val, step: Val) -> bool:
    return (
        lo.const is not None and hi.const is not None and step.const is not None and hi.const <= lo.const + step.const
    )
