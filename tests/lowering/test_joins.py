"""Joins of many arrays and parts of arrays: packed, joined in steps, read in place; and kernels shared by steps."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from firebox.dialects import plan
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.value import Value
from firebox.frontend.functions.padding import PadMode, pad
from firebox.lowering.joins import MAX_PARTS
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime.target import Target
from tests.programs import Array, check_native, opencl_device, program

Build = Callable[..., Value | Sequence[Value]]
DEVICES = ("cpu", "opencl")


def join(parts: Sequence[Value], axis: int) -> Value:
    return parts[0].one("concat", *parts, axis=axis)


def groups(build: Build, specs: Sequence[str], phase: str = "order") -> list[GroupOp]:
    module = run_to(program(build, *specs), Target.host(), phase)
    module.verify()
    return [op for op in main_function(module).body.block.ops if isinstance(op, GroupOp)]


def steps(build: Build, specs: Sequence[str], kind: type) -> int:
    module = run_to(program(build, *specs), Target.host(), "bufferize")
    return sum(isinstance(op, kind) for op in module.walk())


def data(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(build: Build, specs: Sequence[str], arrays: Sequence[Array], kind: str) -> None:
    check_native(build, specs, arrays, device="cpu" if kind == "cpu" else opencl_device())


# ---- joins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [MAX_PARTS, MAX_PARTS + 1, 70])
def test_values_of_joins(count: int, axis: int, kind: str) -> None:
    """Parts of odd sizes, empty ones among them, so that no offset is aligned."""
    shapes = [tuple((k * 7) % 4 if a == axis else 3 for a in range(3)) for k in range(count)]
    specs = [f"f32[{', '.join(map(str, shape))}]" for shape in shapes]
    check(lambda *xs: join(xs, axis), specs, data(*shapes), kind)


@pytest.mark.parametrize("kind", DEVICES)
def test_parts_that_are_computed(kind: str) -> None:
    """Some are used twice, some are views, one is an input."""

    def build(x: Value, y: Value) -> tuple[Value, Value]:
        made = [(x + float(k)).exp() for k in range(9)]
        parts = [*made, made[3], y, y.slice((1, 0), (2, 5)), y.flip(0), made[2].reshape((5, 4)).reshape((4, 5))]
        return join(parts, 0), made[0].sum(1)

    check(build, ["f32[4, 5]", "f32[4, 5]"], data((4, 5), (4, 5)), kind)


def test_computed_parts_are_written_to_their_places() -> None:
    specs = ["f32[4, 8]"] * 20
    assert steps(lambda *xs: join([x * 2.0 for x in xs], 0), specs, plan.CopyOp) == 0
    assert steps(lambda *xs: join(xs, 0), specs, plan.LaunchOp) == 0


def test_symbolic_parts_are_joined_in_steps() -> None:
    specs = ["f32[b, 3]"] * 20
    found = groups(lambda *xs: join(xs, 0), specs)
    assert max(len(group.operands) for group in found) <= MAX_PARTS
    assert len({group.label for group in found}) <= 3
    check_native(lambda *xs: join(xs, 0), specs, data(*[(5, 3)] * 20), b=5)


def test_a_thousand_parts() -> None:
    count = 1000
    check_native(lambda *xs: join([x + 1.0 for x in xs], 1), ["f32[2, 3]"] * count, data(*[(2, 3)] * count))


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_of_several_dims(mode: PadMode, kind: str) -> None:
    check(lambda x: pad(x, [2, (1, 3), 1], mode=mode), ["f32[2, 5, 6, 7]"], data((2, 5, 6, 7)), kind)


def test_a_join_of_a_join_is_not_searched_within_it() -> None:
    """Each element would be looked for in 9 places."""
    found = groups(lambda x: pad(x, [1, 1], mode="reflect"), ["f32[4, 8, 8]"])
    assert [sum(op.name == "nd.concat" for op in group.members) for group in found] == [1, 1]


# ---- parts -------------------------------------------------------------------------------------------------------


SPECS = ("f32[10, 4, 6]", "f32[6, 16]", "f32[16, 16]")


def recurrence(turned: bool) -> Build:
    """Steps over what a product, of steps or of the batch first, gives for each."""

    def build(x: Value, w: Value, u: Value) -> Value:
        y = x.one("contract", x, w, spec="t b k, k n -> t b n", sizes=(10, 4, 6, 16))
        if turned:
            y = (y.transpose((1, 0, 2)).exp() * 0.1).transpose((1, 0, 2))
        state = y.literal(0).broadcast_to((4, 16))
        for t in range(10):
            part = y.slice((t, 0, 0), (t + 1, 4, 16)).reshape((4, 16))
            product = state.one("contract", state, u, spec="b k, k n -> b n", sizes=(4, 16, 16))
            state = (product * 0.1 + part).tanh()
        return state

    return build


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("turned", [False, True])
def test_values_of_steps(turned: bool, kind: str) -> None:
    check(recurrence(turned), SPECS, data((10, 4, 6), (6, 16), (16, 16)), kind)


@pytest.mark.parametrize("turned", [False, True])
def test_steps_share_kernels(turned: bool) -> None:
    found = groups(recurrence(turned), SPECS)
    steps_ = [group for group in found if any(op.name == "nd.tanh" for op in group.members)]
    assert len(steps_) == 10 and len({group.label for group in steps_}) == 1


@pytest.mark.parametrize("kind", DEVICES)
def test_parts_at_any_offset(kind: str) -> None:
    """A part that does not start at a multiple of 16 bytes is read within its array on OpenCL."""

    def build(x: Value, w: Value) -> tuple[Value, ...]:
        y = x.one("contract", x, w, spec="m k, k n -> m n", sizes=(7, 3, 5))
        rows = [y.slice((k, 0), (k + 2, 5)) * y.slice((k + 1, 0), (k + 3, 5)) for k in range(5)]
        return (*rows, y.slice((2, 1), (3, 4)), y.slice((1, 0), (6, 5), (2, 1)) + 1.0, y.slice((3, 0), (4, 5)))

    check(build, ["f32[7, 3]", "f32[3, 5]"], data((7, 3), (3, 5)), kind)


def test_a_value_that_is_also_read_elsewhere_is_not_overwritten() -> None:
    """A kernel reads one buffer in order and through a view of it in reverse."""

    def build(x: Value, w: Value) -> Value:
        y = x.one("contract", x, w, spec="m k, k n -> m n", sizes=(32, 8, 32))
        u = y.reshape((1024,)).flip(0).reshape((32, 32)) + y
        return u.one("contract", u, u, spec="m k, k n -> m n", sizes=(32, 32, 32))

    check_native(build, ["f32[32, 8]", "f32[8, 32]"], data((32, 8), (8, 32)), rtol=1e-4, atol=1e-3)


def test_an_input_that_is_also_read_through_a_view_is_not_an_alias() -> None:
    def build(x: Value) -> Value:
        return x.reshape((64,)).flip(0).reshape((8, 8)) + x

    assert lower(program(build, "f32[8, 8]"), Target.host()).program.aliases == ()


# ---- large constants ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("shape", [(65,), (5, 61), (3, 0)], ids=str)
def test_large_constants(shape: tuple[int, ...], dtype: str, kind: str) -> None:
    table: Array = (np.random.default_rng(0).standard_normal(shape)).round().astype(dtype)

    def build(x: Value) -> tuple[Value, Value]:
        constant = x.one("constant", value=Literal.of(table))
        return constant.astype(x.dtype) * x, constant

    check(build, [f"f32[{', '.join(map(str, shape))}]"], data(shape), kind)


def test_a_large_constant_that_repeats_is_a_number() -> None:
    assert len(groups(lambda x: x.one("constant", value=Literal.of(np.ones(500, np.float32))) + x, ["f32[500]"])) == 1
