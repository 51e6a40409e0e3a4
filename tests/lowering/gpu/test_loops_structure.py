"""What the kernels of loops look like: how often they read, how many they are, how they share the work."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dialects.nd.value import Value
from firebox.lowering.generate.gpu.loops import LOOPS
from firebox.lowering.generate.templates import Launch
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import groups_of
from tests.lowering.gpu.test_loops import adam, layer_norm, softmax
from tests.programs import program

H200 = OpenClTarget.h200()
LOADS = ("memref.load", "vector.load")
STORES = ("memref.store", "vector.store")


class Made:
    """The kernels of a program that is one group."""

    def __init__(self, function: Callable[..., Any], *specs: str, target: OpenClTarget = H200) -> None:
        (self.group,) = groups_of(program(function, *specs), target)
        self.schedule: Schedule = LOOPS.schedule(self.group, target)
        dims = self.group.dim_names
        self.kernels = LOOPS.generate(self.group, self.schedule, target, dims, {}).mains
        self.launches: tuple[Launch, ...] = LOOPS.launch(self.group, self.schedule)

    @property
    def kernel(self) -> FuncOp:
        (kernel,) = self.kernels
        return kernel


def ops(kernel: FuncOp, *names: str) -> list[Operation]:
    return [op for op in kernel.walk() if op.name in names]


def reads(kernel: FuncOp, buffer: int) -> int:
    """Loads from an argument."""
    memory = kernel.body.block.args[buffer]
    return sum(op.operands[0] is memory for op in ops(kernel, *LOADS))


def test_a_row_is_read_once() -> None:
    """Every item loads its units once, though maximum, sum and quotient need them."""
    made = Made(softmax, "f32[512, 1024]")
    assert made.schedule.block * made.schedule.lanes * made.schedule.group == 1024
    assert reads(made.kernel, 0) == made.schedule.block
    assert not ops(made.kernel, "scf.for")


@pytest.mark.parametrize(("length", "items"), [(4096, 256), (8192, 512), (32768, 1024)])
def test_long_rows_are_held_by_more_items(length: int, items: int) -> None:
    made = Made(softmax, f"f32[4096, {length}]")
    assert (made.schedule.group, made.schedule.rows_per_group) == (items, 1)
    assert reads(made.kernel, 0) == made.schedule.block == length // items // 4


def test_layer_norm_reads_once() -> None:
    made = Made(layer_norm, "f32[8192, 1024]", "f32[1024]", "f32[1024]")
    assert reads(made.kernel, 0) == made.schedule.block > 0
    assert made.launches[0].count == 8192 // made.schedule.rows_per_group


def test_short_rows_share_a_group() -> None:
    made = Made(softmax, "f32[65536, 64]")
    assert made.schedule.group == 256
    assert made.schedule.rows_per_group == 64
    lonely = Made(softmax, "f32[1048576, 4]")
    assert lonely.schedule.rows_per_group == lonely.schedule.group
    assert not ops(lonely.kernel, "kernel.barrier")


def test_rows_too_long_for_registers_are_read_in_each_stage() -> None:
    made = Made(softmax, "f32[4096, 262144]")
    assert made.schedule.block == 0 and len(made.kernels) == 1
    assert len(ops(made.kernel, "scf.for")) >= 3


def _moments(x: Value) -> list[Value]:
    y = x.exp()
    return [y.sum(1), y.max(1), (y * y).sum(1)]


def test_barriers_of_a_stage() -> None:
    """A tree of two steps for each of two reductions, and all reductions of a level in one tree."""
    assert len(ops(Made(softmax, "f32[512, 1024]").kernel, "kernel.barrier")) == 4
    both = Made(_moments, "f32[512, 1024]")
    assert len(ops(both.kernel, "kernel.barrier")) == 2


def test_a_full_sum_is_two_kernels() -> None:
    made = Made(lambda x: x.sum(), "f32[67108864]")
    assert len(made.kernels) == len(made.launches) == 2
    assert made.launches[0].count == made.schedule.split == 2 * H200.compute_units
    assert made.launches[1].count == 1
    assert [k.sym_name.data for k in made.kernels] == [made.group.label, f"{made.group.label}_1"]
    assert made.launches[0].scratch == -(-4 * made.schedule.split // 64) * 64


def test_a_small_sum_is_one_kernel() -> None:
    assert len(Made(lambda x: x.sum(), "f32[65536]").kernels) == 1


def test_softmax_over_few_long_rows_is_three_kernels() -> None:
    made = Made(softmax, "f32[8, 4194304]")
    assert len(made.kernels) == 3
    assert [launch.count for launch in made.launches] == [8 * made.schedule.split] * 3


def test_columns_lie_next_to_each_other() -> None:
    made = Made(lambda x: x.sum(0), "f32[65536, 1024]")
    assert (made.schedule.lane, made.schedule.lanes, made.schedule.rows_per_group) == ("d1", 4, 32)
    assert len(made.kernels) == 2 and made.schedule.split > 1


def test_narrow_columns_are_read_in_order() -> None:
    """Where columns are few next to each other, the items that share one are neighbours in memory."""
    made = Made(lambda x: x.sum(1), "f32[4096, 512, 8]")
    assert (made.schedule.lane, made.schedule.lanes, made.schedule.rows_per_group) == ("d2", 4, 2)
    assert made.schedule.group == 256


def test_vectors_of_sixteen_bytes() -> None:
    for dtype, lanes in (("f64", 2), ("f32", 4), ("bf16", 8), ("i32", 4)):
        made = Made(lambda x: x * 2 + 1, f"{dtype}[1048576]")
        assert made.schedule.lanes == lanes
    assert Made(lambda x, y: x + y.astype("f32"), "f32[4096]", "bf16[4096]").schedule.lanes == 4


def test_no_vectors_where_rows_are_not_aligned() -> None:
    assert Made(softmax, "f32[512, 1023]").schedule.lanes == 1
    assert Made(softmax, "f32[512, 1022]").schedule.lanes == 2
    assert Made(lambda x, b: x + b, "f32[512, 1023]", "f32[1023]").schedule.lanes == 1
    assert Made(lambda x, b: x + b, "f32[b, n]", "f32[n]").schedule.lanes == 1
    assert Made(lambda x, b: x + b, "f32[b, 4*n]", "f32[4*n]").schedule.lanes == 4


def test_loads_come_before_stores() -> None:
    """What an item has in flight together is read before the first of it is written."""
    made = Made(lambda x: x * 2.0, "f32[16777216]")
    assert made.schedule.unroll > 1
    kinds = [op.name in STORES for op in ops(made.kernel, *LOADS, *STORES)]
    assert kinds == [False] * made.schedule.unroll + [True] * made.schedule.unroll


def test_adam_is_one_map() -> None:
    made = Made(adam, *["f32[67108864]"] * 4)
    assert len(ops(made.kernel, *LOADS)) == 4 * made.schedule.unroll
    assert len(ops(made.kernel, *STORES)) == 3 * made.schedule.unroll


def test_small_work_is_spread() -> None:
    """Groups shrink before processors are idle."""
    made = Made(lambda x: x * 2.0, "f32[65536]")
    assert made.launches[0].count >= H200.compute_units
    rows = Made(softmax, "f32[64, 1024]")
    assert rows.launches[0].count == 64 and rows.schedule.group == 256


def test_nothing_is_launched_for_nothing() -> None:
    assert Made(lambda x: x * 2.0, "f32[0, 5]").launches[0].count == 0
    assert Made(lambda x: x.sum(1), "f32[0, 5]").launches[0].count == 0


def test_symbolic_counts() -> None:
    made = Made(lambda x: x * 2.0 + 1.0, "f32[b, 4]")
    per_group = made.schedule.group * made.schedule.unroll * made.schedule.lanes
    assert str(made.launches[0].count) == f"((4*b + {per_group - 1}) // {per_group})" or per_group % 4 == 0
    assert "kernel.narrow" not in made.kernel.attributes
    assert "kernel.narrow" in Made(lambda x: x * 2.0, "f32[64]").kernel.attributes


def test_local_memory_is_within_the_limit() -> None:
    """Groups shrink until the trees of many reductions fit."""
    tiny = replace(OpenClTarget.generic(), local_bytes=2048)

    def many(x: Value) -> list[Value]:
        y = x.exp()
        return [(y * float(k)).argmax(0) for k in range(1, 7)]

    for shape in ("512, 64", "64, 512", "3, 4096"):
        made = Made(many, f"f32[{shape}]", target=tiny)
        assert all(_local_bytes(kernel) <= 2048 for kernel in made.kernels)


def _local_bytes(kernel: FuncOp) -> int:
    types: list[Any] = [op.results[0].type for op in ops(kernel, "kernel.alloc")]
    return sum(t.get_shape()[0] * t.element_type.size for t in types)


def test_schedules_are_text() -> None:
    group: GroupOp = Made(softmax, "f32[512, 1024]").group
    schedule = LOOPS.schedule(group, H200)
    assert Schedule.parse(str(schedule)) == schedule
