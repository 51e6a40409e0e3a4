"""Pass fuse: what becomes one kernel, what does not, and why."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.value import Value
from firebox.lowering.fuse import REASONS
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target
from tests.conftest import Golden
from tests.programs import check_native, program

Result = Value | Sequence[Value]


def groups(function: Callable[..., Result], *specs: str) -> list[GroupOp]:
    module = run_to(program(function, *specs), Target.host(), "fuse")
    module.verify()
    return [op for op in main_function(module).body.block.ops if isinstance(op, GroupOp)]


def softmax(x: Value) -> Value:
    e = (x - x.max(-1, True)).exp()
    return e / e.sum(-1, True)


def layer_norm(x: Value, gamma: Value, beta: Value) -> Value:
    centred = x - x.mean(-1, True)
    scale = ((centred * centred).mean(-1, True) + 1e-5).rsqrt()
    return centred * scale * gamma + beta


def loss(x: Value, labels: Value) -> Value:
    shifted = x - x.max(-1, True)
    log_sum = shifted.exp().sum(-1, True).log()
    picked = (shifted - log_sum).take_along_axis(labels.reshape((*labels.shape, 1)), -1)
    return -picked.reshape(labels.shape)


def linear(x: Value, w: Value, b: Value) -> Value:
    y = x.one("contract", x, w, spec="b k, k n -> b n", sizes=(x.shape[0], x.shape[1], w.shape[1])) + b
    return y * 0.5 * ((y * 0.7978845608).tanh() + 1.0)


ONE_KERNEL: dict[str, tuple[Callable[..., Result], tuple[str, ...]]] = {
    "chain": (lambda x, y: ((x * y + 1.0).exp() - x).tanh() * y, ("f32[64, 33]", "f32[64, 33]")),
    "broadcast": (lambda x, y, z: x * y + z, ("f32[64, 33]", "f32[33]", "f32[64, 1]")),
    "transposed": (lambda x, y: x.transpose() * 2.0 + y, ("f32[33, 64]", "f32[64, 33]")),
    "sliced": (lambda x, y: x.slice((1, 0), (65, 33)) * y, ("f32[66, 33]", "f32[64, 33]")),
    "padded": (lambda x, y: x.pad((1, 0), (1, 0), 3.0) * y, ("f32[62, 33]", "f32[64, 33]")),
    "softmax": (softmax, ("f32[64, 33]",)),
    "layer_norm": (layer_norm, ("f32[64, 33]", "f32[33]", "f32[33]")),
    "reduction": (lambda x, y: (x * y).sum(1).sqrt() * 2.0, ("f32[64, 33]", "f32[64, 33]")),
    "column_sums": (lambda x: (x * x).sum(0) + 1.0, ("f32[64, 33]",)),
    "linear": (linear, ("f32[16, 8]", "f32[8, 32]", "f32[32]")),
    "two_results": (lambda x: (x.exp(), x.exp().sum(1)), ("f32[64, 33]",)),
    "loss": (loss, ("f32[64, 10]", "i64[64]")),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_is_one_kernel(name: str) -> None:
    function, specs = ONE_KERNEL[name]
    found = groups(function, *specs)
    assert len(found) == 1, [g.reasons for g in found]


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_computes_the_same(name: str) -> None:
    function, specs = ONE_KERNEL[name]
    rng = np.random.default_rng(1)
    arrays = [_array(rng, spec) for spec in specs]
    check_native(function, specs, arrays, rtol=2e-5, atol=2e-5)


def _array(rng: np.random.Generator, spec: str) -> np.ndarray[Any, Any]:
    name, _, shape = spec.partition("[")
    sizes = tuple(int(d) for d in shape.rstrip("]").split(","))
    return rng.integers(0, 10, sizes) if name == "i64" else rng.standard_normal(sizes).astype(np.float32)


def test_rows_are_not_joined_when_they_would_serialise_a_large_map() -> None:
    found = groups(lambda x: (x.exp(), x.exp().sum()), "f32[200, 200]")
    assert len(found) > 1
    assert any(r.split(": ")[1] == "parallelism" for g in found for r in g.reasons)


def test_a_cycle_is_refused() -> None:
    def function(x: Value, w: Value) -> Value:
        a = x.exp()
        b = a.one("contract", a, w, spec="b k, k n -> b n", sizes=(8, 8, 8))
        return a + b  # a and the sum cannot be one kernel: the product needs a first

    found = groups(function, "f32[8, 8]", "f32[8, 8]")
    assert [g.group for g in found] == ["loops", "contract"]
    assert "nd.add" in [op.name for op in found[1].members]


def test_a_reduction_does_not_get_into_a_contraction() -> None:
    """As in the gradient of attention: the product of a softmax and a contraction."""

    def function(x: Value, w: Value) -> Value:
        y = x.one("contract", x, w, spec="b k, n k -> b n", sizes=(8, 4, 8))
        return softmax(x.pad((0, 0), (0, 4))) * y

    found = groups(function, "f32[8, 4]", "f32[8, 4]")
    assert sorted(g.group for g in found) == ["contract", "loops"]
    assert all(g.axes == () for g in found if g.group == "contract")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((8, 4)).astype(np.float32) for _ in range(2)]
    check_native(function, ("f32[8, 4]", "f32[8, 4]"), arrays, rtol=1e-5, atol=1e-5)


def test_borders_have_a_reason_of_the_closed_list() -> None:
    found = groups(lambda x: x.exp().transpose() + x.exp(), "f32[8, 8]")
    reasons = [r.split(": ")[1] for g in found for r in g.reasons]
    assert reasons == ["alignment"]
    assert set(reasons) <= set(REASONS)


def test_a_reshape_of_memory_is_a_view() -> None:
    def function(x: Value, w: Value) -> Value:
        y = x.one("contract", x, w, spec="b k, k n -> b n", sizes=(6, 4, 8))
        return y.reshape(6, 2, 4).exp()

    found = groups(function, "f32[6, 4]", "f32[4, 8]")
    assert [g.group for g in found] == ["contract", "loops"]


def test_golden(golden: Golden) -> None:
    module = run_to(program(softmax, "f32[b, 16]"), Target.parse("x86-64-v4"), "fuse")
    golden("fuse/softmax.mlir", str(module) + "\n")
