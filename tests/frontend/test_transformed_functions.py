"""Functions of neural networks under transforms: as IR, over a batch, with forward derivatives, with symbolic sizes."""

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
from firebox.frontend.tensor import Tensor, tensor
from firebox.lowering.interpret import interpret

Array = npt.NDArray[Any]
RNG = np.random.default_rng(41)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape)


SEEN = RNG.uniform(size=(2, 3)) < 0.6

CASES: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1, stride=2), (floats(1, 2, 3, 4, 3), floats(3, 2, 2, 3, 2))),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1), (floats(1, 2, 4), floats(2, 3, 3))),
    "deform_conv2d": (
        lambda x, o, w: F.deform_conv2d(x, o, w, padding=1),
        (floats(1, 2, 3, 3), floats(1, 8, 4, 4), floats(2, 2, 2, 2)),
    ),
    "pad_reflect": (lambda x: F.pad(x, [(1, 2), 1], mode="reflect"), (floats(2, 3, 4),)),
    "unfold": (lambda x: F.unfold(x, 2, padding=1), (floats(1, 2, 3, 4),)),
    "fold": (lambda x: F.fold(x, (3, 4), 2), (floats(1, 8, 6),)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 1, 1, False), (floats(1, 2, 2, 3, 3),)),
    "max_pool_with_indices": (lambda x: F.max_pool2d_with_indices(x, 2, 1)[0], (floats(1, 2, 3, 4),)),
    "max_places": (lambda x: F.max_pool2d_with_indices(x, 2, 1)[1], (floats(1, 2, 3, 4),)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (floats(1, 2, 3, 4),)),
    "interpolate": (lambda x: F.interpolate(x, (5, 3), mode="bicubic"), (floats(1, 2, 3, 4),)),
    "antialias": (lambda x: F.interpolate(x, (2, 3), mode="bilinear", antialias=True), (floats(1, 2, 5, 4),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, "bilinear", "reflection"),
        (floats(1, 2, 3, 4), RNG.uniform(-1.4, 1.4, size=(1, 2, 3, 2))),
    ),
    "attention": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True, softcap=3.0),
        (floats(4, 2, 3), floats(2, 3, 3), floats(2, 3, 2), SEEN),
    ),
    "quiet_softmax": (F.quiet_softmax, (floats(2, 4),)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3, 0.5), (floats(2, 4, 3),)),
    "weight_norm": (F.weight_norm, (floats(3, 4), floats(3, 1))),
    "rotary_encoding": (F.rotary_encoding, (floats(3, 4),)),
    "bilinear": (F.bilinear, (floats(3, 2), floats(3, 4), floats(2, 2, 4))),
    "cdist": (F.cdist, (floats(3, 2), floats(4, 2))),
    "triplet": (F.triplet_margin_loss, (floats(3, 2), floats(3, 2), floats(3, 2))),
    "multilabel": (F.multilabel_margin_loss, (floats(2, 3), np.array([[1, -1, 0], [2, 0, -1]]))),
    "ctc": (
        lambda x, t, n, s: F.ctc_loss(F.log_softmax(x, 2), t, n, s),
        (floats(4, 2, 3), np.array([[1, 2], [2, 2]]), np.array([4, 3]), np.array([2, 1])),
    ),
    "rnnt": (
        lambda x, t, n, s: F.rnnt_loss(x, t, n, s),
        (floats(2, 3, 3, 4), np.array([[1, 2], [3, 3]]), np.array([3, 2]), np.array([2, 1])),
    ),
}
INTEGERS = ("max_places",)
DIFFERENTIABLE = [name for name in CASES if name not in INTEGERS]


@pytest.mark.parametrize("name", list(CASES))
def test_functions_write_ir_too(name: str, frontend: None) -> None:
    function, arrays = CASES[name]
    block = block_of([Aval(as_dtype(a.dtype), a.shape) for a in arrays])
    at = Inserter(block)
    result = function(*[at.value(argument) for argument in block.args])
    block.add_op(yield_values([result.ssa]))
    (found,) = interpret(block, arrays)
    np.testing.assert_allclose(found, function(*map(tensor, arrays)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", list(CASES))
def test_functions_map_over_a_batch(name: str, frontend: None) -> None:
    function, arrays = CASES[name]
    wide = [np.stack([a, a[::-1]]) for a in arrays]
    found = fb.vmap(function)(*map(tensor, wide))
    expected = [function(*(tensor(np.ascontiguousarray(w[k])) for w in wide)).numpy() for k in range(2)]
    np.testing.assert_allclose(found.numpy(), np.stack(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_have_forward_and_second_derivatives(name: str, frontend: None) -> None:
    """The derivative along a direction, and that of a gradient along it, against differences."""
    function, arrays = CASES[name]
    floating = [k for k, a in enumerate(arrays) if a.dtype == np.float64]
    tangents = [RNG.normal(size=a.shape) for a in arrays]

    def partial(*values: Tensor) -> Any:
        full = list(map(tensor, arrays))
        for k, value in zip(floating, values, strict=True):
            full[k] = value
        return function(*full)

    weight = tensor(RNG.normal(size=partial(*(tensor(arrays[k]) for k in floating)).shape))
    gradient = fb.grad(lambda *values: (partial(*values) * weight).sum())
    for along in (partial, gradient):
        here, direction = [tensor(arrays[k]) for k in floating], [tensor(tangents[k]) for k in floating]
        _, found = fb.jvp(along, here, direction)
        ahead, behind = (along(*(tensor(arrays[k] + s * tangents[k]) for k in floating)).numpy() for s in (1e-6, -1e-6))
        np.testing.assert_allclose(found.numpy(), (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)


# ---- symbolic sizes ----------------------------------------------------------------------------------------------


def spatial(x: Any, grid: Any) -> dict[str, Any]:
    kernel = fb.ones(3, 2, 3, 2)
    values, places = F.max_pool2d_with_indices(x, 2)
    return {
        "conv": F.conv2d(x, kernel, padding=((1, 2), (0, 1)), stride=(2, 1)),
        "transposed": F.conv_transpose2d(x, fb.ones(2, 1, 2, 3), None, 2, (1, 0)),
        "reflect": F.pad(x, [(1, 0), (2, 1)], mode="reflect"),
        "circular": F.pad(x, [(1, 2)], mode="circular"),
        "values": values,
        "places": places,
        "means": F.avg_pool2d(x, 3, 2, 1, False),
        "adaptive": F.adaptive_avg_pool2d(x, (2, 3)),
        "columns": F.unfold(x, 2, padding=1),
        "shuffled": F.pixel_shuffle(F.concat([x, x], 1), 2),
        "sampled": F.grid_sample(x, grid),
        "channels": F.local_response_norm(x, 3),
    }


def lengths(q: Any, k: Any) -> dict[str, Any]:
    return {
        "attention": F.scaled_dot_product_attention(q, k, k, is_causal=True),
        "distances": F.cdist(q, k),
        "turned": F.rotary_encoding(q),
        "moments": F.quiet_softmax(k, 0),
    }


@pytest.mark.parametrize(
    ("function", "signature", "shapes"),
    [
        (lengths, "q: f32[n, 4]; k: f32[m, 4]", ((3, 4), (5, 4))),
        (spatial, "x: f32[b, 2, h, w]; g: f32[b, 2, 3, 2]", ((2, 2, 5, 6), (2, 2, 3, 2))),
    ],
    ids=["lengths", "spatial"],
)
def test_sizes_may_be_symbolic(function: Any, signature: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [RNG.normal(size=s).astype(np.float32) for s in shapes]
    model = fb.compile(lambda *operands: tuple(function(*operands).values()), signature)
    expected = function(*map(tensor, arrays))
    for found, (name, value) in zip(model(*arrays).values(), expected.items(), strict=True):
        np.testing.assert_allclose(found, value.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_element_types_stay(name: str, frontend: None) -> None:
    function, arrays = CASES[name]
    exact = function(*map(tensor, arrays)).numpy()
    for dtype, tolerance in (("f32", 1e-3), ("bf16", 0.2)):
        operands = [tensor(a).astype(dtype) if a.dtype == np.float64 else tensor(a) for a in arrays]
        found = function(*operands)
        assert found.dtype.name == dtype
        np.testing.assert_allclose(found.numpy().astype(np.float64), exact, rtol=tolerance, atol=tolerance)
