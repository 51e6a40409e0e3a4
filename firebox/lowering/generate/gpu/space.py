"""`Space`: some loops of a group run as one, in units of a vector."""

from dataclasses import dataclass

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.body import Body, Lane
from firebox.lowering.generate.nest import Loop, Nest


@dataclass(frozen=True)
class Space:
    """Loops, outermost first; the last one is the lane loop if that is among them.

    Attributes:
        loops: all loops.
        lane: the loop along which a unit is a vector.
        lanes: elements of a unit.
    """

    loops: tuple[Loop, ...]
    lane: Loop | None
    lanes: int

    @classmethod
    def of(cls, nest: Nest, schedule: Schedule, reduced: bool) -> "Space":
        """The reduced loops of a nest, or the others."""
        loops = [loop for loop in nest.loops if loop.reduced == reduced]
        lane = next((loop for loop in loops if loop.name == schedule.lane), None)
        if lane is not None:
            loops = [loop for loop in loops if loop is not lane] + [lane]
        return cls(tuple(loops), lane, schedule.lanes if lane is not None else 1)

    @property
    def size(self) -> DimLike:
        """Number of elements."""
        return dims.product(loop.extent for loop in self.loops)

    @property
    def units(self) -> DimLike:
        """Number of whole units."""
        return dims.product(self._turns(loop) for loop in self.loops)

    @property
    def ragged(self) -> bool:
        """Elements may remain after the whole units; there is one loop only then."""
        return self.lane is not None and dims.mod(self.lane.extent, self.lanes) != 0

    def _turns(self, loop: Loop) -> DimLike:
        return dims.floordiv(loop.extent, self.lanes) if loop is self.lane else loop.extent

    def enter(self, body: Body, unit: Val) -> None:
        """Set the loop variables to those of a unit."""
        k = body.k
        for loop in reversed(self.loops):
            position = unit
            if loop is not self.loops[0]:
                extent = body.expression(self._turns(loop))
                position = k.mod(unit, extent)
                unit = k.floordiv(unit, extent)
            body.env[loop.name] = k.mul(position, self.lanes) if loop is self.lane else position

    def enter_element(self, body: Body, number: Val) -> None:
        """Set the loop variable to an element after the whole units."""
        assert self.lane is not None
        first = body.expression(dims.multiply(self.units, self.lanes))
        body.env[self.lane.name] = body.k.add(first, number)

    @property
    def vector(self) -> Lane | None:
        """The lanes of a unit."""
        return Lane(self.lane.name, self.lanes) if self.lane is not None and self.lanes > 1 else None


def row_groups(nest: Nest, schedule: Schedule) -> DimLike:
    """Work-groups that the rows take, without the split."""
    return dims.ceildiv(Space.of(nest, schedule, False).units, schedule.rows_per_group)


def stores_full(nest: Nest, level: int) -> bool:
    """Whether a stage stores values for every point of the domain."""
    return any(not nest.is_row(v) and nest.levels[v] == level for v in nest.outputs)
