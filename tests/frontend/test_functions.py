"""Functions are written once: they record on tensors, they write into IR, and they compose under transforms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import firebox as fb
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.transform import yield_values
from firebox.dialects.nd.value import Inserter, block_of
from firebox.dtypes import as_dtype
from firebox.frontend.nn import functional as F
from firebox.frontend.tensor import tensor
from firebox.lowering.interpret import interpret

Array = npt.NDArray[Any]
RNG = np.random.default_rng(4)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape)


CASES: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "matmul": (F.matmul, (floats(2, 1, 3, 4), floats(5, 4, 2))),
    "linear": (F.linear, (floats(2, 3), floats(4, 3), floats(4))),
    "einsum": (lambda a, b: F.einsum("ij,kj->ki", a, b), (floats(2, 3), floats(4, 3))),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding="same"), (floats(1, 2, 4, 5), floats(3, 2, 3, 3))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (floats(1, 2, 4, 6),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (floats(1, 2, 5, 4),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (floats(2, 3, 4), floats(2, 3, 4), floats(2, 3, 2)),
    ),
    "gelu": (F.gelu, (floats(5),)),
    "layer_norm": (lambda x, w: F.layer_norm(x, 3, w), (floats(2, 3), floats(3))),
    "logsumexp": (lambda x: F.logsumexp(x, 1), (floats(2, 3),)),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
        (floats(3, 4), np.array([1, 0, 3])),
    ),
    "topk": (lambda x: F.topk(x, 2)[0], (floats(2, 5),)),
    "tril": (F.tril, (floats(3, 3),)),
    "one_hot": (lambda i: F.one_hot(i, 4, "f64"), (np.array([1, 3]),)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_functions_write_ir_too(name: str) -> None:
    function, arrays = CASES[name]
    block = block_of([Aval(as_dtype(a.dtype), a.shape) for a in arrays])
    at = Inserter(block)
    result = function(*[at.value(argument) for argument in block.args])
    block.add_op(yield_values([result.ssa]))
    (found,) = interpret(block, arrays)
    np.testing.assert_allclose(found, function(*map(tensor, arrays)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "max_pool2d", "attention", "layer_norm", "cross_entropy", "topk"])
def test_functions_map_over_a_batch(name: str) -> None:
    function, arrays = CASES[name]
    wide = [np.stack([a, a[::-1]]) for a in arrays]
    found = fb.vmap(function)(*map(tensor, wide))
    expected = [function(*(tensor(np.ascontiguousarray(w[k])) for w in wide)).numpy() for k in range(2)]
    np.testing.assert_allclose(found.numpy(), np.stack(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "max_pool2d", "attention", "gelu", "layer_norm", "logsumexp"])
def test_functions_have_forward_derivatives(name: str) -> None:
    function, arrays = CASES[name]
    tangents = [RNG.normal(size=a.shape) for a in arrays]
    value, moved = fb.jvp(function, [tensor(a) for a in arrays], [tensor(t) for t in tangents])
    step = 1e-6
    ahead, behind = (
        function(*(tensor(a + s * t) for a, t in zip(arrays, tangents, strict=True))).numpy() for s in (step, -step)
    )
    np.testing.assert_allclose(moved.numpy(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(value.numpy(), function(*map(tensor, arrays)).numpy(), rtol=1e-12)


def test_second_derivatives_of_a_loss() -> None:
    """The Hessian of cross-entropy by the logits is diag(p) - p p^T."""
    logits = np.array([0.3, -1.0, 2.0])
    p = np.exp(logits) / np.exp(logits).sum()
    found = fb.hessian(lambda x: F.cross_entropy(x, tensor(np.array(1))))(tensor(logits))
    np.testing.assert_allclose(found.numpy(), np.diag(p) - np.outer(p, p), rtol=1e-10, atol=1e-14)
