"""Pass bufferize: reuse, in-place updates, packing, symbolic sizes; and the arena's placement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firebox import dims
from firebox.dialects import plan
from firebox.dialects.nd.value import Value
from firebox.errors import IndexRangeError
from firebox.lowering.bufferize import bufferize
from firebox.lowering.memory import Block, place
from firebox.lowering.pipeline import run_to
from firebox.runtime.memory import Buffer
from firebox.runtime.target import Target
from tests.programs import check_native, compiled, program, run_native


def planned(function: object, *specs: str) -> plan.ProgramOp:
    module = run_to(program(function, *specs), Target.host(), "bufferize")  # type: ignore[arg-type]
    module.verify()
    return next(op for op in module.body.block.ops if isinstance(op, plan.ProgramOp))


def count(entry: plan.ProgramOp, kind: type) -> int:
    return sum(isinstance(op, kind) for op in entry.body.block.ops)


def test_an_update_may_overwrite_its_input() -> None:
    entry = planned(lambda w, g: w - g * 0.1, "f32[40]", "f32[40]")
    pairs = [[n.value.data for n in pair.data] for pair in entry.aliases.data]
    assert pairs == [[0, 0]]


def test_an_input_that_is_read_elsewhere_is_not_overwritten() -> None:
    entry = planned(lambda w: w - w.flip(0) * 0.1, "f32[40]")
    assert len(entry.aliases.data) == 0


def test_donation_gives_the_right_values() -> None:
    executable, _ = compiled(program(lambda w, g: w - g * 0.5, "f32[1000]", "f32[1000]"))
    weights = executable.device.backend.allocate(4000)
    weights.as_numpy(np.dtype(np.float32), (1000,), writable=True, internal=True)[:] = 3.0
    gradient = Buffer.from_numpy(np.full(1000, 2.0, np.float32))
    (result,) = executable.run([weights, gradient], donate=[True, False])
    assert result.ptr == weights.ptr
    assert (result.as_numpy(np.dtype(np.float32), (1000,)) == 2.0).all()


def test_a_program_that_fails_overwrites_nothing() -> None:
    def update(w: Value, at: Value) -> tuple[Value, Value]:
        picked = w.take(at).sum()
        return w - picked * 0.5, picked

    executable, lowered = compiled(program(update, "f32[1000]", "i64[3]"))
    assert lowered.program.aliases == ((0, 0),)
    weights = executable.device.backend.allocate(4000)
    values = weights.as_numpy(np.dtype(np.float32), (1000,), writable=True, internal=True)
    values[:] = 3.0
    with pytest.raises(IndexRangeError):
        executable.run([weights, Buffer.from_numpy(np.array([1, 1000, 2]))], donate=[True, False])
    assert (values == 3.0).all()
    updated, _ = executable.run([weights, Buffer.from_numpy(np.array([1, 999, 2]))], donate=[True, False])
    assert updated.ptr == weights.ptr
    assert (values == 3.0 - 4.5).all()


def test_packed_values_are_computed_in_place() -> None:
    def function(x: Value, y: Value) -> Value:
        a, b = x * 2.0, (y + 1.0).reshape(12)
        return x.one("pack", a, b, offsets=(0, 64), size=128)

    entry = planned(function, "f32[10]", "f32[3, 4]")
    assert count(entry, plan.CopyOp) == 0
    assert count(entry, plan.FillOp) == 2  # the gaps
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(10).astype(np.float32), rng.standard_normal((3, 4)).astype(np.float32)
    (packed,) = run_native(program(function, "f32[10]", "f32[3, 4]"), [x, y])
    expected = np.zeros(128, np.float32)
    expected[:10], expected[64:76] = x * 2, (y + 1).ravel()
    np.testing.assert_array_equal(packed, expected)


def test_packing_inputs_copies_them() -> None:
    check_native(lambda x, y: x.one("pack", x, y, offsets=(0, 5), size=9), ("f32[4]", "f32[4]"), [
        np.arange(4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)])  # fmt: skip


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3)])
def test_inputs_and_repeated_results_are_copied(shape: tuple[int, ...]) -> None:
    spec = f"f32[{', '.join(map(str, shape))}]"
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check_native(lambda v: (v, v, v + 1.0, v.flatten()), (spec,), [x])


def test_a_chain_of_kernels_reuses_memory() -> None:
    def chain(x: Value) -> Value:
        for _ in range(10):
            x = (x.flip(0) * 1.5).flip(1)
        return x

    entry = planned(chain, "f32[64, 64]")
    arena = entry.dim("arena")
    assert isinstance(arena, int)
    assert arena <= 2 * 64 * 64 * 4


def test_a_symbolic_chain_reuses_memory() -> None:
    def chain(x: Value) -> Value:
        for _ in range(6):
            x = (x.flip(1) * 1.5).flip(1).flip(0)
            x = x.transpose()
            x = x.flip(0) * 0.5
            x = x.transpose()
        return x

    entry = planned(chain, "f32[b, 64]")
    size = dims.evaluate(entry.dim("arena"), {"b": 100, "threads": 2})
    assert size <= 3 * 100 * 64 * 4
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    check_native(chain, ("f32[b, 64]",), [x], b=5)


def test_bufferize_alone_leaves_main_in_place() -> None:
    module = run_to(program(lambda x: x + 1.0, "f32[4]"), Target.host(), "schedule")
    bufferize(module)
    assert len(list(module.body.block.ops)) == 2


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 20), st.integers(0, 10), st.booleans()), min_size=1, max_size=30
    )
)
def test_blocks_alive_together_do_not_overlap(items: list[tuple[int, int, int, bool]]) -> None:
    blocks = [
        Block(dims.multiply(size, dims.dim("b")) if symbolic else size, first, first + length)
        for size, first, length, symbolic in items
    ]
    total = place(blocks)
    for b in (1, 7):
        env = {"b": b}
        spans = [(dims.evaluate(k.offset, env), dims.evaluate(k.size, env), k) for k in blocks]
        for start, size, block in spans:
            assert start % 64 == 0
            assert start + size <= dims.evaluate(total, env)
            for other_start, other_size, other in spans:
                alive = other is not block and block.first <= other.last and other.first <= block.last
                if alive and size and other_size:
                    assert start + size <= other_start or other_start + other_size <= start
