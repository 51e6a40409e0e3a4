"""`ScanPoint`: one element of a scan inside a kernel: its state, how states combine, where the result goes."""

from collections.abc import Sequence

from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.formula import Monoid, Read
from firebox.dims import DimLike, dim
from firebox.lowering.access import Index, formula_of, substitute
from firebox.lowering.generate.body import Lane, Scalars, linear
from firebox.lowering.generate.frame import Frame, three

State = list[Val]


class ScanPoint:
    """Evaluation of a scan at the point that the names ``outer``, ``at`` (along the axis) and ``inner`` stand for.

    Attributes:
        frame: the kernel.
        reverse: the scan runs from the end.
        outer: extent before the axis.
        size: extent of the axis.
        inner: extent after the axis.
        monoid: how elements are combined.
    """

    def __init__(self, frame: Frame, domain: Shape) -> None:
        self.frame = frame
        self.op, self.k, self.body = frame.op, frame.k, frame.body
        self.reverse: bool = self.op.values["reverse"]
        axis: int = self.op.values["axis"]
        self.outer, self.size, self.inner = three(domain, axis)
        self.home = _home(domain, axis)
        self.env = {f"i{k}": e for k, e in enumerate(self.home)} | {"r0": self.home[axis]}
        self.monoid = monoid_of(self.op)

    def enter(self, name: str, position: Val, lanes: int, mask: Val | None) -> None:
        """Go to another point: along one of the three names, which fills the lanes."""
        self.body.env[name] = position
        self.body.lane = Lane(name, lanes, mask) if lanes > 1 else None
        self.body.at_point()

    def element(self, lanes: int) -> State:
        """The state that the element at the present point stands for. The formula's guard always holds there."""
        formula = formula_of(self.op)
        values = [self._read(read) for read in formula.reads]
        result = formula.scalar(Scalars(self.body, self.env), *values)
        lifted = self.monoid.lift(self.k, *(result if isinstance(result, tuple) else (result,)))
        return [self.k.broadcast(v, lanes) for v in lifted]

    def _read(self, read: Read) -> Val:
        shape = self.op.operand_avals[read.operand].shape
        index = substitute(read.index, self.env)
        index = tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))
        return self.body.value(self.op._operands[read.operand], index)

    def identity(self, lanes: int) -> State:
        """The state of no elements."""
        pairs = zip(self.monoid.init, self.monoid.dtypes, strict=True)
        return [self.k.broadcast(self.k.const(value, dtype), lanes) for value, dtype in pairs]

    def combine(self, before: Sequence[Val], after: Sequence[Val]) -> State:
        """Two states, the one scanned first before the other; the monoid gets them by ascending index."""
        low, high = (after, before) if self.reverse else (before, after)
        return list(self.monoid.combine(self.k, tuple(low), tuple(high)))

    def store(self, state: State) -> None:
        """Write the results at the present point."""
        results = self.monoid.finish(self.k, tuple(state))
        for result, value in zip(self.op.results, results, strict=True):
            if result in self.frame.outputs:
                offset = linear(self.home, aval_of(result.type).shape)
                self.body.store(self.frame.outputs[result], offset, value)


def monoid_of(op: NdOp) -> Monoid:
    """How a scan combines elements."""
    found = formula_of(op).monoid
    assert found is not None
    return found


def _home(shape: Shape, axis: int) -> Index:
    """The loops ``outer``, ``at`` and ``inner`` as an index: one dim stands for its neighbours, as memory is dense."""
    index: list[DimLike] = [0] * len(shape)
    for name, group in (("outer", range(axis)), ("at", (axis,)), ("inner", range(axis + 1, len(shape)))):
        carrier = next((k for k in reversed(group) if shape[k] != 1), None)
        if carrier is not None:
            index[carrier] = dim(name)
    return tuple(index)
