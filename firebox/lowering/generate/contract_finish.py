"""Finishing a block of sums from scratch: the maps after a contraction, and the stores, along the result's memory."""

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.lowering.generate.body import Body, Lane, linear
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_scratch import Sums
from firebox.lowering.generate.contract_tiling import Tiling
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.transpose import transpose
from firebox.runtime.target import Target

Outputs = Sequence[tuple[SSAValue, Ref]]


_WRITTEN_OUT = 4
"""Vectors of a line up to which short maps are written out for each of them."""


class Finish:
    """Writes the end of one block."""

    def __init__(
        self, body: Body, tiling: Tiling, sums: Sums, memory: Ref, square: Ref, outputs: Outputs, target: Target
    ) -> None:
        self.body, self.k = body, body.k
        self.tiling, self.problem = tiling, tiling.problem
        self.sums, self.memory, self.square = sums, memory, square
        self.outputs = outputs
        self.target = target
        self.lanes = tiling.lanes

    def block(self, start: Mapping[str, Val], count: Mapping[str, Val], base: Val) -> None:
        """Finish the sums that begin at ``base``."""
        self.start, self.count = start, count
        lane = self.tiling.lane
        along = self._run()
        self.along = along[-1] if along else None
        rest = [loop for loop in self.problem.out if loop != lane and loop not in along]
        kept = self.body.collapse
        if len(along) > 1:
            self.body.collapse = kept | {loop.name: 0 for loop in along[:-1]}
        self.body.env.update(start)
        self._walk(
            rest, base, self._lines if self.along is None or self.along == lane else lambda b: self._squares(along, b)
        )
        self.body.collapse, self.body.lane, self.body.known = kept, None, {}

    def _run(self) -> list[Loop]:
        """The last loops of the result, as far as they are whole and everything walks through them as one."""
        lane = self.tiling.lane
        out = list(self.problem.out)
        along = [out.pop()] if out else []
        collapse = self.problem.nest.collapse
        while out and out[-1] != lane and along[0] != lane and out[-1].name in collapse:
            if not (self.tiling.whole(along[0]) and isinstance(along[0].extent, int)):
                break
            along.insert(0, out.pop())
        return along

    def _walk(self, rest: list[Loop], base: Val, leaf: Callable[[Val], None]) -> None:
        if not rest:
            leaf(base)
            return
        loop, *inner = rest
        k = self.k

        def turn(position: Val) -> None:
            self.body.env[loop.name] = k.add(self.start[loop.name], position)
            self._walk(inner, k.add(base, k.mul(position, self.sums.strides.get(loop.name, 0))), leaf)

        if self.count[loop.name].const == 1:
            turn(k.index(0))
        else:
            k.loop(0, self.count[loop.name], 1, [], lambda position, _: turn(position))

    # ---- the lanes of the sums are those of the result -----------------------------------------------------------

    def _lines(self, base: Val) -> None:
        k, lane = self.k, self.tiling.lane
        if lane is None:
            self._store(k.load(self.memory, base))
            return
        name, count = lane.name, self.count[lane.name]
        even = count.const is not None and count.const % self.lanes == 0

        def turn(position: Val) -> None:
            mask = None if even else k.mask(k.sub(count, position), self.lanes)
            self.body.env[name] = k.add(self.start[name], position)
            self.body.lane = Lane(name, self.lanes, mask)
            self._store(k.load(self.memory, k.add(base, position), self.lanes))

        if count.const is not None and 0 < count.const <= self.lanes:
            turn(k.index(0))
        else:
            few = even and self.tiling.cheap and count.const is not None and count.const <= _WRITTEN_OUT * self.lanes
            k.loop(0, count, self.lanes, [], lambda position, _: turn(position), unroll=few)

    # ---- they are not: transpose squares -------------------------------------------------------------------------

    def _squares(self, along: list[Loop], base: Val) -> None:
        k, lane, lanes = self.k, self.tiling.lane, self.lanes
        assert lane is not None
        outer, inner = along[0], along[-1]
        stride = self.sums.strides.get(inner.name, 0)
        inside = dims.product(loop.extent for loop in along[1:])
        first = k.mul(self.start[outer.name], self.body.expression(inside))
        total = k.mul(self.count[outer.name], self.body.expression(inside))

        def turn(position: Val) -> None:
            mask = (
                None if total.const is not None and total.const % lanes == 0 else k.mask(k.sub(total, position), lanes)
            )
            self.body.env[inner.name] = k.add(first, position)
            at = k.add(base, k.mul(position, stride))
            self._repeat(
                self.count[lane.name],
                lambda column: self._square(lane, Lane(inner.name, lanes, mask), at, column, stride),
            )

        self._repeat(total, turn)

    def _repeat(self, count: Val, turn: Callable[[Val], None]) -> None:
        if count.const is not None and 0 < count.const <= self.lanes:
            turn(self.k.index(0))
        else:
            self.k.loop(0, count, self.lanes, [], lambda position, _: turn(position))

    def _square(self, lane: Loop, across: Lane, base: Val, column: Val, stride: int) -> None:
        """Vectors along the result from a square of sums: one for each of its columns."""
        k, lanes = self.k, self.lanes
        at = k.add(base, column)
        rows = [k.load(self.memory, k.add(at, number * stride), lanes) for number in range(lanes)]
        vectors = transpose(k, rows, self.target)
        count = self.count[lane.name]
        self.body.lane = across

        def enter(number: Val | int) -> None:
            self.body.env[lane.name] = k.add(k.add(self.start[lane.name], column), number)

        few = count.const if count.const is not None and count.const < lanes else lanes
        if self.tiling.cheap and count.const is not None and (count.const < lanes or count.const % lanes == 0):
            for number in range(int(few)):
                enter(number)
                self._store(vectors[number])
            return
        for number in range(int(few)):
            k.store(self.square, number * lanes, vectors[number])

        def turn(number: Val) -> None:
            enter(number)
            self._store(k.load(self.square, k.mul(number, lanes), lanes))

        k.loop(0, k.min(k.sub(count, column), lanes), 1, [], lambda number, _: turn(number))

    def _store(self, total: Val) -> None:
        """Compute and store the outputs at one vector."""
        store_outputs(self.body, self.problem, self.outputs, total)


def store_outputs(body: Body, problem: Problem, outputs: Outputs, total: Val) -> None:
    """Compute all outputs from a vector of sums, then store them."""
    homes = problem.nest.homes
    body.at_point()
    body.known = {problem.result: total}
    values = [body.value(v, homes[v]) for v, _ in outputs]
    for (value, ref), computed in zip(outputs, values, strict=True):
        body.store(ref, linear(homes[value], aval_of(value.type).shape), computed)
