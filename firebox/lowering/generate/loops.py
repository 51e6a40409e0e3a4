"""Kernels of groups of kind ``loops``: maps, reductions, and rows that mix both (softmax, layer norm) as one kernel.

The parallel loops, without the lane loop, and blocks of the lane loop if that one is parallel, are the units of work
that threads share. Within a unit the stages run one after the other: each is a nest over the reduced loops that feeds
the reductions of its level and stores the full values known there. Accumulators are full vectors, several at a time
when the lane loop is reduced; they are combined in an order that depends on the shape and the target only.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike, dim
from firebox.lowering.generate.addressing import FLAT
from firebox.lowering.generate.body import Body, Lane, linear
from firebox.lowering.generate.nest import Loop, Nest
from firebox.lowering.generate.scratch import cached_values, scratch_layout
from firebox.lowering.generate.stages import (
    State,
    combine,
    combine_all,
    finish,
    flatten,
    flatten_all,
    fold_lanes,
    group_all,
    group_like,
    identity,
    lifted,
    needs_wide_indices,
    same_storage,
)
from firebox.lowering.generate.units import lane_loop, unit_count, unit_loops


class LoopKernel:
    """Builds the kernel of one group."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.group = group
        self.schedule = schedule
        self.nest = Nest.of(group)
        used = group.dim_names
        self.dim_names = [n for n in dim_order if n in used]
        dtypes = [aval_of(v.type).dtype for v in (*group.operands, *group.results)]
        indices = [dim_order.index(n) for n in self.dim_names]
        self.k = k = KernelBuilder.kernel(group.label, dtypes, len(indices), indices)
        count = len(group.operands)
        self.body = Body(k, dict(zip(group.block.args, k.buffers[:count], strict=True)), op_ids)
        self.outputs: list[tuple[SSAValue, Ref]] = list(zip(group.yielded, k.buffers[count:], strict=True))
        self.body.env.update(zip(self.dim_names, k.dims, strict=True))
        self.body.collapse = dict(self.nest.collapse)
        if schedule.lane == FLAT:
            self._run_flat()
        self.body.wide_indices = needs_wide_indices(group)
        self.cached = cached_values(group, self.nest, schedule)
        self.scratch_bytes, self.places = scratch_layout(self.nest, self.cached, schedule)

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        if unit_count(self.nest, self.schedule) == 0:
            return k.finish()
        k.loop(k.begin, k.end, 1, [], lambda unit, _: self._unit(unit))
        return k.finish()

    # ---- units ---------------------------------------------------------------------------------------------------

    def _unit(self, unit: Val) -> None:
        outer = unit_loops(self.nest, self.schedule)
        rest = unit
        for loop in reversed(outer):
            if loop is outer[0]:
                self.body.env[loop.name] = rest
            else:
                extent = self.body.expression(loop.extent)
                self.body.env[loop.name] = self.k.mod(rest, extent)
                rest = self.k.floordiv(rest, extent)
        lane = lane_loop(self.nest, self.schedule)
        if lane is None or lane.reduced:
            self._stages()
        else:
            self._lane_block(lane)

    def _lane_block(self, lane: Loop) -> None:
        """One block of a parallel lane loop: full vectors, then the rest under a mask."""
        k, body, lanes = self.k, self.body, self.schedule.lanes
        extent = body.expression(lane.extent)
        block = k.index(self.schedule.block)
        first = k.mul(body.env["block"], block) if "block" in body.env else k.index(0)
        last = k.min(k.add(first, block), extent) if "block" in body.env else extent
        whole = _divides(lane.extent, lanes) and self.schedule.block % lanes == 0
        full = last if whole else k.add(first, k.mul(k.floordiv(k.sub(last, first), lanes), lanes))

        def at(position: Val, mask: Val | None) -> None:
            self._enter(lane.name, position, Lane(lane.name, lanes, mask))
            self._stages()

        if self.schedule.masked:
            k.loop(first, last, lanes, [], lambda p, _: at(p, None if whole else k.mask(k.sub(last, p), lanes)))
            return
        self._repeat(first, full, lanes, lambda p: at(p, None))
        if not whole:
            k.if_(k.lt(full, last), lambda: at(full, k.mask(k.sub(last, full), lanes)))

    def _repeat(self, first: Val, last: Val, step: int, turn: Callable[[Val], None]) -> None:
        """Several vectors a turn while they last, so that their latencies overlap."""
        k, unroll = self.k, self.schedule.unroll
        if unroll > 1:
            wide = step * unroll
            middle = k.add(first, k.mul(k.floordiv(k.sub(last, first), wide), wide))
            k.loop(first, middle, wide, [], lambda p, _: self._several(p, step, turn))
            first = middle
        k.loop(first, last, step, [], lambda p, _: turn(p))

    def _several(self, position: Val, step: int, turn: Callable[[Val], None]) -> None:
        for part in range(self.schedule.unroll):
            turn(self.k.add(position, part * step))

    def _enter(self, name: str, position: Val, lane: Lane | None) -> None:
        body = self.body
        body.env[name] = position
        body.lane = lane
        body.at_point()

    def _run_flat(self) -> None:
        """Flat mode: the parallel loops as quotients and remainders of the flat loop."""
        inner: DimLike = 1
        for loop in reversed(self.nest.parallel):
            index = dims.floordiv(dim(FLAT), inner)
            outermost = loop is self.nest.parallel[0]
            self.body.flat[loop.name] = index if outermost else dims.mod(index, loop.extent)
            self.body.identity = self.body.identity + dims.multiply(dim(loop.name), inner)
            inner = dims.multiply(inner, loop.extent)

    # ---- stages --------------------------------------------------------------------------------------------------

    def _stages(self) -> None:
        nest, body = self.nest, self.body
        outer_lane = body.lane
        body.at_point()
        body.known = {}
        body.stored = {}
        for level in range(nest.depth + 1):
            reductions = nest.reductions(level)
            full = [(v, r) for v, r in self.outputs if not self._is_row(v) and nest.levels[v] == level]
            kept = [v for v in self.cached if nest.levels[v] == level]
            if reductions or ((full or kept) and nest.reduced):
                self._stage(reductions, full, kept)
            elif full:
                self._store_all(full)
            body.lane = outer_lane
            body.at_point()
            self._keep(level, full, kept)
        self._store_all([(v, r) for v, r in self.outputs if self._is_row(v)])

    def _is_row(self, value: SSAValue) -> bool:
        return bool(self.group.axes) and self.nest.is_row(value)

    def _keep(self, level: int, full: list[tuple[SSAValue, Ref]], kept: list[SSAValue]) -> None:
        """Values stored in this stage are reloaded in later ones instead of computed again."""
        if level == self.nest.depth:
            return
        for value in kept:
            ref, offset = self._place(value)
            self.body.stored[value] = (ref, offset, self.nest.homes[value])
        for value, ref in full:
            if value not in self.body.stored and same_storage(value):
                home = self.nest.homes[value]
                self.body.stored[value] = (ref, linear(home, aval_of(value.type).shape), home)

    def _place(self, value: SSAValue) -> tuple[Ref, DimLike]:
        """Memory and offset of a cached value at the present point."""
        place = self.places[value]
        lane = lane_loop(self.nest, self.schedule)
        if lane is not None and not lane.reduced:
            self.body.env["lane0"] = self.body.env[lane.name]
        return self.k.view(self.k.scratch, place.at, place.dtype), place.offset

    def _store_all(self, outputs: list[tuple[SSAValue, Ref]]) -> None:
        values = [self.body.value(v, self.nest.homes[v]) for v, _ in outputs]
        for (value, ref), computed in zip(outputs, values, strict=True):
            offset = linear(self.nest.homes[value], aval_of(value.type).shape)
            self.body.store(ref, offset, computed, self.schedule.nontemporal)

    def _stage(self, reductions: list[NdOp], full: list[tuple[SSAValue, Ref]], kept: list[SSAValue]) -> None:
        """One nest over the reduced loops."""
        lanes = self.body.lane.lanes if self.body.lane is not None else 1
        lane = lane_loop(self.nest, self.schedule)
        inner = lane is not None and lane.reduced
        width = self.schedule.lanes if inner else lanes
        start = [identity(self.k, op, width) for op in reductions]
        loops = self.nest.reduced
        if inner and lane is not None:  # the lane loop goes innermost
            loops = [loop for loop in loops if loop is not lane] + [lane]
        work = _Work(reductions, full, kept)
        end = self._reduce_loops(loops, lane if inner else None, start, work)
        for op, state in zip(reductions, end, strict=True):
            self._finish(op, state)

    def _reduce_loops(self, loops: list[Loop], lane: Loop | None, states: list[State], work: "_Work") -> list[State]:
        if not loops:
            return self._accumulate(states, work, None)
        loop, rest = loops[0], loops[1:]
        if loop is lane:
            return self._lane_reduction(loop, states, work)
        k = self.k

        def turn(position: Val, carried: list[Val]) -> Sequence[Val]:
            self.body.env[loop.name] = position
            self.body.at_point()
            return flatten(self._reduce_loops(rest, lane, group_like(carried, states), work))

        extent = self.body.expression(loop.extent)
        unroll = not rest and isinstance(loop.extent, int) and loop.extent <= 4
        return group_like(k.loop(0, extent, 1, flatten(states), turn, unroll=unroll), states)

    def _lane_reduction(self, loop: Loop, states: list[State], work: "_Work") -> list[State]:
        """Along the lanes: several vectors at a time, single vectors, and the rest under a mask."""
        k, lanes = self.k, self.schedule.lanes
        extent = self.body.expression(loop.extent)
        unroll = self.schedule.unroll
        at = k.index(0)
        if unroll > 1:
            wide = lanes * unroll
            end = k.mul(k.floordiv(extent, wide), wide)
            copies = [states] + [[identity(k, op, lanes) for op in work.reductions] for _ in range(unroll - 1)]
            flat = k.loop(at, end, wide, flatten_all(copies), lambda p, c: self._wide_turn(loop, p, c, copies, work))
            states = combine_all(k, work.reductions, group_all(flat, copies))
            at = end
        full = k.mul(k.floordiv(extent, lanes), lanes)
        if unroll == 1 or not _divides(loop.extent, lanes * unroll):
            flat = k.loop(at, full, lanes, flatten(states), lambda p, c: self._turn(loop, p, c, states, work))
            states = group_like(flat, states)
        if not _divides(loop.extent, lanes):
            states = self._rest(loop, full, extent, states, work)
        return states

    def _turn(self, loop: Loop, position: Val, carried: list[Val], like: list[State], work: "_Work") -> Sequence[Val]:
        self._enter(loop.name, position, Lane(loop.name, self.schedule.lanes))
        return flatten(self._accumulate(group_like(carried, like), work, None))

    def _wide_turn(
        self, loop: Loop, position: Val, carried: list[Val], copies: list[list[State]], work: "_Work"
    ) -> Sequence[Val]:
        lanes = self.schedule.lanes
        result = []
        for part, states in enumerate(group_all(carried, copies)):
            self._enter(loop.name, self.k.add(position, part * lanes), Lane(loop.name, lanes))
            result.append(self._accumulate(states, work, None))
        return flatten_all(result)

    def _rest(self, loop: Loop, full: Val, extent: Val, states: list[State], work: "_Work") -> list[State]:
        k, lanes = self.k, self.schedule.lanes

        def masked() -> Sequence[Val]:
            mask = k.mask(k.sub(extent, full), lanes)
            self._enter(loop.name, full, Lane(loop.name, lanes, mask))
            return flatten(self._accumulate(states, work, mask))

        if isinstance(loop.extent, int):
            return group_like(list(masked()), states)
        return group_like(k.if_(k.lt(full, extent), masked, lambda: flatten(states)), states)

    def _accumulate(self, states: list[State], work: "_Work", mask: Val | None) -> list[State]:
        """One point: add to the reductions, store what this stage stores."""
        k = self.k
        result = []
        for op, state in zip(work.reductions, states, strict=True):
            width = state[0].lanes
            element = lifted(self.body, op, width)
            if mask is not None:
                element = [k.select(mask, v, s) for v, s in zip(element, identity(k, op, width), strict=True)]
            result.append(combine(k, op, state, element))
        self._store_all(work.full)
        for value in work.kept:
            ref, offset = self._place(value)
            self.body.store(ref, offset, self.body.value(value, self.nest.homes[value]))
        return result

    def _finish(self, op: NdOp, state: State) -> None:
        lane = lane_loop(self.nest, self.schedule)
        if lane is not None and lane.reduced:
            state = fold_lanes(self.k, op, state)
        finish(self.body, op, state)


class _Work:
    """What one stage does at each point."""

    def __init__(self, reductions: list[NdOp], full: list[tuple[SSAValue, Ref]], kept: list[SSAValue]) -> None:
        self.reductions = reductions
        self.full = full
        self.kept = kept


def _divides(extent: DimLike, count: int) -> bool:
    return isinstance(extent, int) and extent % count == 0
