"""`nd.contract` against plain loops, and the closure of its specs under transposition."""

import itertools
from typing import Any

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array
from firebox.dialects.nd.ops.contract import Contract
from firebox.dialects.nd.ops.contract_spec import (
    conv_spec,
    conv_transpose_spec,
    infer_sizes,
    matmul_spec,
    parse_spec,
    transpose_spec,
)
from firebox.dims import dim
from firebox.errors import CompilerError, DTypeError, ShapeError


def run(a: Array, b: Array, spec: str, **known: int) -> Array:
    sizes = infer_sizes(parse_spec(spec), a.shape, b.shape, known)
    result: Array = Contract.evaluate_all([a, b], {"spec": spec, "sizes": sizes})[0]
    return result


def arrays(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(5)
    return [rng.integers(-4, 5, s).astype(np.float64) for s in shapes]


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4))],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = arrays(left, right)
    np.testing.assert_array_equal(run(a, b, matmul_spec(len(left), len(right))), a @ b)


@pytest.mark.parametrize(("stride", "padding", "dilation"), list(itertools.product((1, 2, 3), (0, 2), (1, 2))))
def test_convolution_by_loops(stride: int, padding: int, dilation: int) -> None:
    x, w = arrays((2, 3, 9), (4, 3, 3))
    size = (9 + 2 * padding - 2 * dilation - 1) // stride + 1
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    expected = np.zeros((2, 4, size))
    for n, o, y in np.ndindex(expected.shape):
        expected[n, o, y] = sum(
            padded[n, c, y * stride + k * dilation] * w[o, c, k] for c in range(3) for k in range(3)
        )
    found = run(x, w, conv_spec((stride,), (padding,), (dilation,)), y0=size)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("stride", "padding", "dilation"), list(itertools.product((1, 2, 3), (0, 1), (1, 2))))
def test_transposed_convolution_by_loops(stride: int, padding: int, dilation: int) -> None:
    x, w = arrays((2, 3, 4), (3, 2, 3))
    full = np.zeros((2, 2, 3 * stride + 2 * dilation + 1))
    for n, c, i, o, k in np.ndindex(2, 3, 4, 2, 3):
        full[n, o, i * stride + k * dilation] += x[n, c, i] * w[c, o, k]
    expected = full[:, :, padding : full.shape[2] - padding]
    found = run(x, w, conv_transpose_spec((stride,), (padding,), (dilation,)), y0=expected.shape[2])
    np.testing.assert_array_equal(found, expected)


def test_groups() -> None:
    x, w = arrays((2, 2, 3, 7), (2, 4, 3, 3))
    found = run(x, w, conv_spec((1,), (0,), (1,), groups=True), y0=5)
    for g in range(2):
        np.testing.assert_array_equal(found[:, g], run(x[:, g], w[g], conv_spec((1,), (0,), (1,)), y0=5))


def test_names_in_one_operand_or_none() -> None:
    a, b = arrays((2, 3), (4,))
    np.testing.assert_array_equal(run(a, b, "i j, k -> k"), a.sum() * b)
    np.testing.assert_array_equal(run(a, b, "i j, k -> k t", t=2), np.repeat((a.sum() * b)[:, None], 2, 1))


def test_integers_wrap() -> None:
    a = np.full((1, 4), 100, np.int8)
    np.testing.assert_array_equal(run(a, a.T.copy(), matmul_spec(2, 2)), np.array([[40000]]).astype(np.int8))


def test_spec_text_round_trip() -> None:
    for text in (
        "b m k, b k n -> b m n",
        "n c y*2+ky-1 x*2+kx-1, o c ky kx -> n o y x",
        "n c (y-k*3+1)//2, c o k -> n o y",
        "k, k -> ",
    ):
        assert str(parse_spec(text)) == text


def test_gradient_of_a_strided_convolution_is_a_contraction() -> None:
    spec = parse_spec(conv_spec((2,), (1,), (3,)))
    sizes = infer_sizes(spec, (8, 3, 20), (5, 3, 4), {"y0": 7})
    by_input = transpose_spec(spec, 0, (8, 3, 20), sizes)
    assert str(by_input.spec) == "n o (p2-k0*3+1)//2, o c k0 -> n c p2"
    by_weight = transpose_spec(spec, 1, (5, 3, 4), sizes)
    assert str(by_weight.spec) == "n c y0*2+k0*3-1, n o y0 -> o c k0"
    # and the gradient by the cotangent of the input's gradient is the convolution again
    back = transpose_spec(by_input.spec, 0, (8, 5, 7), by_input.sizes)
    assert str(back.spec) == "n c p2_*2+k0*3-1, o c k0 -> n o p2_"


@pytest.mark.parametrize(
    ("text", "lhs", "rhs", "known"),
    [
        (conv_spec((2, 1), (1, 0), (1, 2)), (2, 3, 9, 8), (4, 3, 3, 2), {"y0": 5, "y1": 6}),
        (conv_transpose_spec((3,), (1,), (2,)), (2, 3, 4), (3, 2, 2), {"y0": 10}),
        ("y*3+k*2-1, y k -> y", (8,), (3, 2), {}),
        ("y+k z, y k -> y z", (4, 2), (3, 2), {}),
        ("a b, b c -> a c", (2, 3), (3, 4), {}),
    ],
)
def test_specs_are_closed_under_transposition(
    text: str, lhs: tuple[int, ...], rhs: tuple[int, ...], known: dict[str, Any]
) -> None:
    """Any chain of transpositions parses, infers and is adjoint: <T(a, b), c> == <a, T'(c, b)>."""
    sizes = infer_sizes(parse_spec(text), lhs, rhs, known)
    for sides in itertools.product((0, 1), repeat=3):
        spec, shapes, extents = text, [lhs, rhs], sizes
        for side in sides:
            a, b = arrays(*shapes)
            result = Contract.evaluate_all([a, b], {"spec": spec, "sizes": extents})[0]
            (ct,) = arrays(result.shape)
            moved = transpose_spec(parse_spec(spec), side, shapes[side], extents)
            pair = [ct, b] if side == 0 else [a, ct]
            spec, extents = str(moved.spec), moved.sizes
            gradient = Contract.evaluate_all(pair, {"spec": spec, "sizes": extents})[0]
            assert float(np.sum(result * ct)) == float(np.sum(gradient * (a, b)[side]))
            shapes = [p.shape for p in pair]


@pytest.mark.parametrize(
    "text",
    [
        "a b -> a",
        "a, b",
        "a, b -> a a",
        "a*b, b -> a",
        "a, b -> a+b",
        "j+k, i -> i",
        "(a)//0, a -> a",
        "3, a -> a",
        "a+, a -> a",
    ],
)
def test_malformed_specs(text: str) -> None:
    with pytest.raises(ShapeError, match="contract"):
        parse_spec(text)


def test_errors_name_operand_and_dim() -> None:
    f32 = dtypes.f32
    with pytest.raises(ShapeError, match=r"right operand does not fit at dim 0[\s\S]*size 3 of 'k'[\s\S]*\(4, 2\)"):
        Contract.infer(Aval(f32, (5, 3)), Aval(f32, (4, 2)), spec="m k, k n -> m n", sizes=(5, 3, 2))
    with pytest.raises(ShapeError, match=r"wrong rank of the left operand[\s\S]*2 dims"):
        Contract.infer(Aval(f32, (5,)), Aval(f32, (4, 2)), spec="m k, k n -> m n", sizes=(5, 4, 2))
    with pytest.raises(ShapeError, match=r"number of sizes[\s\S]*m k n"):
        Contract.infer(Aval(f32, (5, 3)), Aval(f32, (3, 2)), spec="m k, k n -> m n", sizes=(5, 3))
    with pytest.raises(DTypeError):
        Contract.infer(Aval(dtypes.bool_, (2,)), Aval(dtypes.bool_, (2,)), spec="k, k -> ", sizes=(2,))
    with pytest.raises(ShapeError, match=r"without a size[\s\S]*y0"):
        infer_sizes(parse_spec(conv_spec((1,), (0,), (1,))), (1, 2, 5), (1, 2, 3), {})
    with pytest.raises(CompilerError, match="diagonal"):
        transpose_spec(parse_spec("i i, i -> i"), 0, (2, 2), (2,))


def test_symbolic_sizes() -> None:
    n = dim("n")
    spec = conv_spec((2,), (1,), (1,))
    sizes = infer_sizes(parse_spec(spec), (n, 3, 4 * n), (5, 3, 2), {"y0": 2 * n + 1})
    result = Contract.infer(Aval(dtypes.f32, (n, 3, 4 * n)), Aval(dtypes.f32, (5, 3, 2)), spec=spec, sizes=sizes)
    assert result == Aval(dtypes.f32, (n, 5, 2 * n + 1))
