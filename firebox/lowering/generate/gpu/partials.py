"""Partial states in the workspace: what the work-groups that share a reduction leave for the next kernel."""

from dataclasses import dataclass

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.gpu.space import Space
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.stages import State, monoid_of

_ALIGNMENT = 64


@dataclass(frozen=True)
class Partials:
    """The workspace of a split group: for each part of each state an array [split, row] of vectors.

    Attributes:
        rows: units of the parallel loops.
        lanes: elements of a state.
        split: work-groups that share a row.
        places: byte offsets of the parts of a reduce op's state.
        nbytes: of all arrays.
    """

    rows: DimLike
    lanes: int
    split: int
    places: dict[NdOp, list[DimLike]]
    nbytes: DimLike

    @classmethod
    def of(cls, group: GroupOp, schedule: Schedule) -> "Partials":
        """The layout for a scheduled group."""
        nest = Nest.of(group)
        space = Space.of(nest, schedule, False)
        count = dims.multiply(space.units, space.lanes * schedule.split)
        at: DimLike = 0
        places: dict[NdOp, list[DimLike]] = {}
        for level in range(nest.depth):
            for op in nest.reductions(level):
                for dtype in monoid_of(op).dtypes:
                    places.setdefault(op, []).append(at)
                    size = dims.multiply(count, dtype.itemsize)
                    at = at + dims.multiply(dims.ceildiv(size, _ALIGNMENT), _ALIGNMENT)
        return cls(space.units, space.lanes, schedule.split, places, at)

    def store(self, body: Body, op: NdOp, state: State, part: Val, row: Val) -> None:
        """Leave the state of a part of a row."""
        index = self._index(body, part, row)
        for ref, value in zip(self._arrays(body, op), state, strict=True):
            body.k.store(ref, index, body.k.broadcast(value, self.lanes))

    def load(self, body: Body, op: NdOp, part: Val, row: Val) -> State:
        """The state of a part of a row."""
        index = self._index(body, part, row)
        return [body.k.load(ref, index, self.lanes) for ref in self._arrays(body, op)]

    def _arrays(self, body: Body, op: NdOp) -> list[Ref]:
        k = body.k
        dtypes = monoid_of(op).dtypes
        offsets = [body.expression(place) for place in self.places[op]]
        return [k.view(k.workspace, at, dtype) for at, dtype in zip(offsets, dtypes, strict=True)]

    def _index(self, body: Body, part: Val, row: Val) -> Val:
        k = body.k
        return k.mul(k.add(k.mul(part, body.expression(self.rows)), row), self.lanes)
