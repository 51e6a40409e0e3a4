"""`DeviceBody`: evaluation of a group's values on a GPU, where vectors have no masks and must be aligned in memory.

Work-items never stand outside of the loops (their positions are clamped), so a vector is loaded whole or, where its
address is not known to be aligned or its lanes are not next to each other, element by element.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.formula import Guard
from firebox.dims import DimLike
from firebox.dtypes import i64, u32, u64
from firebox.lowering.access import Index
from firebox.lowering.generate.addressing import split
from firebox.lowering.generate.body import Body

ALIGNMENT = 16
"""Bytes to which buffers and long vectors are aligned."""

Memo = dict[tuple[object, Index], Val]


class DeviceBody(Body):
    """Evaluation at points between which a work-item may go back and forth."""

    def resume(self, memo: "Memo") -> None:
        """Go on at a point with the values that are known there; `memo` is empty for a new point."""
        self._memo = memo  # type: ignore[assignment]

    def _bind(self, name: str, value: Val, local: dict[str, DimLike]) -> None:
        """In kernels with 32-bit indices the range of wider ones is checked before they are cut."""
        super()._bind(name, value, local)
        if value.lanes == 1 and value.dtype in (u32, i64, u64) and self.k.narrow:
            self.wide[local[name]] = self.k.cast(value, i64)

    def _guarded(self, operand: SSAValue, index: Index, guards: tuple[Guard, ...], fill: float | int | bool) -> Val:
        """As for other targets; but there is no memory at all behind an empty operand."""
        aval = aval_of(operand.type)
        if aval.size == 0:
            return self.k.const(fill, aval.dtype)
        return super()._guarded(operand, index, guards, fill)

    # ---- memory --------------------------------------------------------------------------------------------------

    def _load(
        self, ref: Ref, offset: DimLike, guards: tuple[Val, ...], fill: float | int | bool, invariant: bool = True
    ) -> Val:
        offset = self.resolve(offset)
        inside = guards[0] if guards else None
        whole = inside is None or inside.lanes == 1
        if self.lane is not None and whole and self._aligned(ref, offset):
            return self._load_vector(ref, self._sum(offset), inside, fill, invariant)
        places = self._places(offset)
        if len(places) == 1 and whole:
            return self._load_scalar(ref, places[0], inside, fill, invariant)
        assert self.lane is not None
        lanes = self.lane.lanes
        at = places if len(places) == lanes else places * lanes
        conditions = [None if inside is None else self.k.extract(inside, lane) for lane in range(lanes)]
        return self._joined(
            [self._load_scalar(ref, a, c, fill, invariant) for a, c in zip(at, conditions, strict=True)]
        )

    def _load_vector(self, ref: Ref, at: Val, inside: Val | None, fill: float | int | bool, invariant: bool) -> Val:
        k = self.k
        assert self.lane is not None
        if inside is None:
            return k.load(ref, at, self.lane.lanes, invariant=invariant)
        value = k.load(ref, k.select(inside, at, k.index(0)), self.lane.lanes, invariant=invariant)
        return k.select(inside, value, k.broadcast(fill, self.lane.lanes, ref.dtype.compute))

    def store(self, ref: Ref, offset: DimLike, value: Val, nontemporal: bool = False) -> None:
        """Write an element, or a vector along the lane loop."""
        k = self.k
        offset = self.resolve(offset)
        if self.lane is not None and self._aligned(ref, offset):
            k.store(ref, self._sum(offset), k.broadcast(value, self.lane.lanes))
            return
        places = self._places(offset)
        if len(places) == 1:
            k.store(ref, places[0], value)
            return
        vector = k.broadcast(value, len(places))
        for lane, at in enumerate(places):
            k.store(ref, at, k.extract(vector, lane))

    # ---- addresses -----------------------------------------------------------------------------------------------

    def _aligned(self, ref: Ref, offset: DimLike) -> bool:
        """The lanes follow each other in memory from an aligned address on."""
        assert self.lane is not None
        return _along(offset, self.lane.name) and aligned(offset, self.lane.name, self.lane.lanes, ref.dtype.itemsize)

    def _places(self, offset: DimLike) -> list[Val]:
        """The address of every lane; one address if it is the same for all."""
        k, lane = self.k, self.lane
        if isinstance(offset, int) or not self._varies(offset):
            return [self.expression(offset)]
        assert lane is not None
        rest, step = split(offset, lane.name)
        if step is not None and not self._vary(rest, step):
            first, apart = self._sum(offset), self._sum(step)
            return [k.add(first, k.mul(apart, number)) for number in range(lane.lanes)]
        vector = self.expression(offset)
        return [k.index(k.extract(vector, number)) for number in range(lane.lanes)]

    def _vary(self, *expressions: DimLike) -> bool:
        return any(not isinstance(e, int) and self._varies(e) for e in expressions)

    def _joined(self, values: Sequence[Val]) -> Val:
        """Scalars as one vector."""
        vector = self.k.broadcast(values[0], len(values))
        for lane, value in enumerate(values[1:], 1):
            vector = self.k.insert(vector, value, lane)
        return vector


def _along(offset: DimLike, lane: str) -> bool:
    return split(offset, lane)[1] == 1


def aligned(offset: DimLike, lane: str, lanes: int, itemsize: int) -> bool:
    """Whether an access along a lane loop, whose variable is a multiple of the lanes, is aligned in every case."""
    unit = max(1, min(ALIGNMENT, lanes * itemsize) // itemsize)
    rest, _ = split(offset, lane)
    return is_multiple(rest, unit)


def is_multiple(value: DimLike, unit: int) -> bool:
    """Whether an expression is a multiple of a number whatever its names stand for."""
    if isinstance(value, int):
        return value % unit == 0
    return all(coefficient % unit == 0 for _, coefficient in value.terms)
