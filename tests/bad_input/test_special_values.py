"""NaN, infinities, signed zeros, the largest and smallest numbers: natively as in NumPy, in vectors and beside them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import firebox as fb

Array = np.ndarray[Any, Any]

SPECIAL = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.4e38, -3.4e38, 1e-45, 1e-38, 2.5, -2.5, 0.5, 1.5, 100, -100, 88.8,
    -104,
]  # fmt: skip
FLOATS: list[Any] = [np.float32, np.float64]
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}

UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "neg": (np.negative, lambda x: -x),
    "abs": (np.abs, fb.abs),
    "sign": (np.sign, fb.sign),
    "exp": (np.exp, fb.exp),
    "expm1": (np.expm1, fb.expm1),
    "log": (np.log, fb.log),
    "log1p": (np.log1p, fb.log1p),
    "sqrt": (np.sqrt, fb.sqrt),
    "rsqrt": (lambda x: 1 / np.sqrt(x), fb.rsqrt),
    "sin": (np.sin, fb.sin),
    "tanh": (np.tanh, fb.tanh),
    "erf": (lambda x: np.vectorize(math.erf)(x).astype(x.dtype), fb.erf),
    "floor": (np.floor, fb.floor),
    "ceil": (np.ceil, fb.ceil),
    "round": (np.round, fb.round),
    "trunc": (np.trunc, fb.trunc),
    "isnan": (np.isnan, fb.isnan),
    "isinf": (np.isinf, fb.isinf),
    "isfinite": (np.isfinite, fb.isfinite),
    "relu": (lambda x: np.maximum(x, 0), fb.relu),
    "clip": (lambda x: np.clip(x, -1, 1), lambda x: fb.clip(x, -1, 1)),
    "bool": (lambda x: x.astype(bool), lambda x: x.astype("bool")),
}

BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (np.add, lambda a, b: a + b),
    "sub": (np.subtract, lambda a, b: a - b),
    "mul": (np.multiply, lambda a, b: a * b),
    "div": (np.divide, lambda a, b: a / b),
    "floordiv": (np.floor_divide, lambda a, b: a // b),
    "mod": (np.mod, lambda a, b: a % b),
    "pow": (np.power, lambda a, b: a**b),
    "maximum": (np.maximum, fb.maximum),
    "minimum": (np.minimum, fb.minimum),
    "lt": (np.less, lambda a, b: a < b),
    "le": (np.less_equal, lambda a, b: a <= b),
    "gt": (np.greater, lambda a, b: a > b),
    "ge": (np.greater_equal, lambda a, b: a >= b),
    "eq": (np.equal, lambda a, b: a == b),
    "ne": (np.not_equal, lambda a, b: a != b),
    "where": (lambda a, b: np.where(a > b, a, b), lambda a, b: fb.where(a > b, a, b)),
    "where a": (lambda a, b: np.where(a.astype(bool), b, 0), lambda a, b: fb.where(a, b, 0.0)),
}

ALONG: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "cumsum": (lambda x: np.cumsum(x, -1), lambda x: x.cumsum(-1)),
    "cummax": (lambda x: np.maximum.accumulate(x, -1), lambda x: x.cummax(-1)),
    "cummin": (lambda x: np.minimum.accumulate(x, -1), lambda x: x.cummin(-1)),
    "sort": (lambda x: np.sort(x, -1), lambda x: x.sort(-1)),
    "argsort": (lambda x: np.argsort(x, -1, kind="stable"), lambda x: x.argsort(-1)),
    "matmul": (lambda x: x @ np.swapaxes(x, -1, -2), lambda x: x @ x.T),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def same(found: fb.Tensor, expected: Any, rtol: float, name: str) -> None:
    """Equal within the tolerance; NaN is NaN, and a zero has its sign."""
    value, wanted = found.numpy(), np.asarray(expected)
    assert value.shape == wanted.shape, name
    np.testing.assert_allclose(value.astype(np.float64), wanted.astype(np.float64), rtol, 0, err_msg=name)
    if wanted.dtype.kind == "f":
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(value)[zero], np.signbit(wanted)[zero], err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 19, 171])
def test_functions(count: int, dtype: Any) -> None:
    x = np.resize(np.array(SPECIAL, dtype), count)
    found = {name: ours(fb.tensor(x)) for name, (_, ours) in UNARY.items()}
    for name, (reference, _) in UNARY.items():
        same(found[name], reference(x), TOLERANCE[dtype], name)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 19])
def test_operators(count: int, dtype: Any) -> None:
    """Every pair of the numbers."""
    x, y = (v.reshape(-1) for v in np.meshgrid(np.array(SPECIAL[:count], dtype), np.array(SPECIAL, dtype)))
    a, b = fb.tensor(x), fb.tensor(y)
    found = {name: ours(a, b) for name, (_, ours) in BINARY.items()}
    for name, (reference, _) in BINARY.items():
        same(found[name], reference(x, y), TOLERANCE[dtype], name)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 5, 16, 67, 300])
def test_reductions(count: int, special: float) -> None:
    """One special number in the middle row, at the start, in the middle and at the end."""
    for place in {0, count // 2, count - 1}:
        x = np.random.default_rng(place).standard_normal((3, count))
        x[1, place] = special
        tensor = fb.tensor(x)
        names = ("sum", "max", "min", "argmax", "argmin", "any", "all", "mean")
        found = {(name, axis): getattr(tensor, name)(axis) for name in names for axis in (None, 0, 1)}
        along = {name: ours(tensor) for name, (_, ours) in ALONG.items()}
        for (name, axis), value in found.items():
            same(value, getattr(x, name)(axis=axis), 1e-11, f"{name} {axis}")
        for name, value in along.items():
            same(value, ALONG[name][0](x), 1e-10, name)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3.4e38])
@pytest.mark.parametrize("count", [2, 40])
def test_softmax(count: int, special: float) -> None:
    """NaN and inf make a row NaN, -inf has no weight, and large numbers do not overflow."""
    x = np.linspace(-1, 1, 3 * count).reshape(3, count).astype(np.float32)
    x[1, count // 2] = special
    shifted = x.astype(np.float64) - x.max(-1, keepdims=True)
    parts = np.exp(shifted)
    total = parts.sum(-1, keepdims=True)
    same(fb.softmax(fb.tensor(x)), parts / total, 1e-5, "softmax")
    same(fb.log_softmax(fb.tensor(x)), shifted - np.log(total), 1e-5, "log_softmax")


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_rows_of_nothing_else(value: float) -> None:
    x = np.full((2, 40), value, np.float32)
    tensor = fb.tensor(x)
    for name in ("sum", "max", "min", "argmax", "argmin"):
        same(getattr(tensor, name)(-1), getattr(x, name)(axis=-1), 0, name)
    assert np.isnan(fb.softmax(tensor).numpy()).all()
    same(tensor.sort(-1, descending=True), x, 0, "sort")


def test_casts_to_integers_saturate() -> None:
    """NumPy leaves these open; NaN is 0."""
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300, -300, 2.9, -2.9], np.float32)
    for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
        found = fb.tensor(x).astype(name).numpy()
        limits = np.iinfo(found.dtype)
        clipped = [0 if math.isnan(v) else min(max(v, limits.min), limits.max) for v in x.tolist()]
        np.testing.assert_array_equal(found, [int(v) for v in clipped])


def test_integers_without_a_result() -> None:
    """Nothing traps: division by 0 gives 0, the quotient that does not fit wraps, and shifts move all bits out."""
    least = -(2**63)
    for count in (1, 64):
        numbers = fb.full((count,), least, dtype="i64")
        assert (numbers // -1).numpy()[0] == least
        assert (numbers % -1).numpy()[0] == 0
        assert (numbers // 0).numpy()[0] == (numbers % 0).numpy()[0] == 0
        assert abs(numbers).numpy()[0] == least
        assert (fb.full((count,), 1) << 64).numpy()[0] == (fb.full((count,), 1) << -1).numpy()[0] == 0
    narrow = fb.full((64,), -128, dtype="i8")
    assert (narrow // fb.full((64,), -1, dtype="i8")).numpy()[0] == -128
    assert (narrow // fb.zeros(64, dtype="i8")).numpy()[0] == 0


def test_numbers_beyond_f32_become_infinite_without_a_warning() -> None:
    assert fb.tensor(1e39).item() == math.inf
    assert fb.tensor([1e39, -1e39]).tolist() == [math.inf, -math.inf]
    assert (fb.ones(2) * 1e39).tolist() == [math.inf, math.inf]
