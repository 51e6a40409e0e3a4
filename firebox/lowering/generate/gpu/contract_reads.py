"""Reading a factor of a contraction at given turns of the loops: addresses, and zeros where the formula reads none."""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.aval import aval_of
from firebox.dims import DimLike
from firebox.lowering.generate.addressing import strides_of
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Operand, Position
from firebox.lowering.generate.gpu.contract_plan import Env, weighted


class Reader:
    """Reads one factor, whose positions must be known.

    Attributes:
        operand: the factor.
        dtype: of the values, f32 for f16 and bf16.
    """

    def __init__(self, body: Body, operand: Operand) -> None:
        self.body, self.k = body, body.k
        self.operand = operand
        self.ref = body.buffers[operand.value]
        self.dtype = operand.dtype.compute
        assert operand.positions is not None
        self.positions = operand.positions
        self.steps = strides_of(tuple(p.size for p in self.positions))
        self.empty = aval_of(operand.value.type).size == 0

    def load(self, env: Env, inside: Val | None = None, lanes: int = 1) -> Val:
        """Elements from a position on; 0 where the formula reads 0, and where it is not ``inside``.

        Args:
            env: the loop variables; valid turns also where it is not inside.
            inside: whether the turn counts; None for always.
            lanes: as many as `vector_lanes` allows along the loop that fills them.
        """
        k = self.k
        zero = k.broadcast(k.const(0, self.dtype), lanes)
        if self.empty:
            return zero
        conditions: list[Val] = []
        at = self.address(env, conditions)
        met = self.all_of(conditions)
        value = k.load(self.ref, at if met is None else k.select(met, at, 0), lanes)
        met = self.all_of([c for c in (inside, met) if c is not None])
        return value if met is None else k.select(met, value, zero)

    def address(self, env: Env, conditions: list[Val]) -> Val:
        """The offset in elements; adds what must hold for it to be one."""
        terms: list[tuple[Val, DimLike]] = []
        constant: DimLike = 0
        for position, step in zip(self.positions, self.steps, strict=True):
            if position.base == 1:
                terms += [(env[name], dims.multiply(c, step)) for name, c in position.terms]
                constant = constant + dims.multiply(position.offset, step)
                if position.guarded:
                    conditions += self._within(position, self._position(position, env))
            else:
                terms.append((self._divided(position, env, conditions), step))
        return weighted(self.body, terms, constant)

    def _position(self, position: Position, env: Env) -> Val:
        return weighted(self.body, [(env[name], c) for name, c in position.terms], position.offset)

    def _within(self, position: Position, value: Val) -> list[Val]:
        k = self.k
        limit = self.body.expression(dims.multiply(position.size, position.base))
        return [k.ge(value, 0), k.lt(value, limit)]

    def _divided(self, position: Position, env: Env, conditions: list[Val]) -> Val:
        """A position that only multiples of a base have."""
        k = self.k
        value = self._position(position, env)
        within = self.all_of(self._within(position, value))
        assert within is not None
        safe = k.select(within, value, 0)
        safe.nonneg = True
        conditions += [within, k.eq(k.mod(safe, position.base), 0)]
        return k.floordiv(safe, position.base)

    def all_of(self, conditions: Sequence[Val]) -> Val | None:
        """All of them in one; None for none. What changes least comes first."""
        total: Val | None = None
        for part in sorted((c for c in conditions if c.const is not True), key=lambda c: c.level):
            total = part if total is None else self.k.and_(total, part)
        return total
