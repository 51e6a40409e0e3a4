"""Element-wise functions against NumPy: values, special values, types, gradients; and how close compiled code is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import firebox as fb
from firebox.errors import DTypeError, UserError
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(5)
SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.7, np.inf, -np.inf, np.nan])
ONE: dict[str, tuple[Callable[..., Any], tuple[float, float]]] = {
    "tan": (np.tan, (-1.4, 1.4)),
    "asin": (np.arcsin, (-0.9, 0.9)),
    "acos": (np.arccos, (-0.9, 0.9)),
    "atan": (np.arctan, (-4.0, 4.0)),
    "sinh": (np.sinh, (-4.0, 4.0)),
    "cosh": (np.cosh, (-4.0, 4.0)),
    "asinh": (np.arcsinh, (-4.0, 4.0)),
    "acosh": (np.arccosh, (1.1, 9.0)),
    "atanh": (np.arctanh, (-0.9, 0.9)),
    "exp2": (np.exp2, (-4.0, 4.0)),
    "log2": (np.log2, (0.1, 9.0)),
    "log10": (np.log10, (0.1, 9.0)),
    "cbrt": (np.cbrt, (0.2, 9.0)),
    "reciprocal": (np.reciprocal, (0.3, 4.0)),
    "deg2rad": (np.deg2rad, (-90.0, 90.0)),
    "rad2deg": (np.rad2deg, (-3.0, 3.0)),
    "sinc": (np.sinc, (0.1, 3.0)),
    "nan_to_num": (np.nan_to_num, (-3.0, 3.0)),
    "square": (np.square, (-3.0, 3.0)),
}
TWO: dict[str, tuple[Callable[..., Any], bool]] = {
    "atan2": (np.arctan2, True),
    "hypot": (np.hypot, True),
    "copysign": (np.copysign, False),
    "logaddexp": (np.logaddexp, True),
    "logaddexp2": (np.logaddexp2, True),
    "fmod": (np.fmod, False),
    "remainder": (np.remainder, False),
    "nextafter": (np.nextafter, False),
    "floor_divide": (np.floor_divide, False),
    "power": (np.power, False),
    "greater": (np.greater, False),
    "less_equal": (np.less_equal, False),
    "not_equal": (np.not_equal, False),
    "logical_and": (np.logical_and, False),
    "logical_or": (np.logical_or, False),
    "logical_xor": (np.logical_xor, False),
}
pytestmark = pytest.mark.usefixtures("frontend")


def close(found: fb.Tensor, expected: Any, rtol: float = 1e-13) -> None:
    array = found.numpy()
    assert (array.shape, array.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_allclose(array, expected, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_array(name: str) -> None:
    function, domain = ONE[name]
    x = RNG.uniform(*domain, (3, 4))
    close(getattr(fb, name)(fb.tensor(x)), function(x))
    close(getattr(fb.tensor(x), name)(), function(x))
    with np.errstate(all="ignore"):
        close(getattr(fb, name)(fb.tensor(SPECIAL)), function(SPECIAL))
    check_gradient(getattr(fb, name), x)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands(name: str) -> None:
    function, smooth = TWO[name]
    a, b = RNG.uniform(-3, 3, (3, 4)), RNG.uniform(-3, 3, 4)
    public = getattr(fb, name)
    with np.errstate(all="ignore"):
        close(public(fb.tensor(a), fb.tensor(b)), function(a, b))
        close(public(fb.tensor(a), 2.0), function(a, 2.0))
        close(public(-1.5, fb.tensor(a)), function(-1.5, a))
        close(public(fb.tensor(SPECIAL), fb.tensor(SPECIAL[:, None])), function(SPECIAL, SPECIAL[:, None]))
    if smooth:
        check_gradient(public, a, b)


def test_gradients_in_the_corners() -> None:
    def gradients(function: Callable[..., fb.Tensor], *values: float) -> list[float]:
        inputs = [fb.tensor(v, dtype="f64", requires_grad=True) for v in values]
        function(*inputs).backward()
        return [0.0 if x.grad is None else float(x.grad) for x in inputs]

    assert gradients(fb.hypot, 0.0, 0.0) == [0.0, 0.0]
    assert gradients(fb.atan2, 0.0, 0.0) == [0.0, 0.0]
    assert gradients(fb.sinc, 0.0) == [0.0]
    assert gradients(fb.logaddexp, 1.0, 1.0) == [0.5, 0.5]
    assert gradients(fb.copysign, -2.0, 3.0) == [-1.0, 0.0]
    assert gradients(fb.xlogy, 0.0, 0.0)[1] == 0.0
    assert gradients(lambda x: fb.norm(fb.stack([x, x]), 3), 0.0) == [0.0]


def test_neighbours_are_numpys_in_every_type() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = np.concatenate([SPECIAL, np.array([6e-8, 65504.0, 1e-3])]).astype(dtype)
        for target in (np.inf, -np.inf, 0.0):
            found = fb.nextafter(fb.tensor(x), target).numpy()
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(found, np.nextafter(x, dtype(target)))
    one = fb.tensor(1.0, dtype="bf16")
    assert fb.nextafter(one, 2.0).item() == 1.0078125


def test_signs() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        np.testing.assert_array_equal(fb.signbit(fb.tensor(SPECIAL.astype(dtype))).numpy(), np.signbit(SPECIAL))
    np.testing.assert_array_equal(fb.signbit(fb.tensor([-1, 0, 2])).numpy(), [True, False, False])
    np.testing.assert_array_equal(fb.isposinf(fb.tensor(SPECIAL)).numpy(), np.isposinf(SPECIAL))
    np.testing.assert_array_equal(fb.isneginf(fb.tensor(SPECIAL)).numpy(), np.isneginf(SPECIAL))
    assert bool(fb.contains_nan(fb.tensor(SPECIAL)))


def test_integers_divide_and_round_as_numpys() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    close(fb.fmod(fb.tensor(a), fb.tensor(b)), np.fmod(a, b))
    quotient, rest = fb.divmod(fb.tensor(a), fb.tensor(b))
    close(quotient, a // b)
    close(rest, a % b)
    x = np.array([1.25, -2.345, 1234.5])
    close(fb.round(fb.tensor(x), 1), np.round(x, 1))
    close(fb.round(fb.tensor(x), -2), np.round(x, -2))
    close(fb.round(fb.tensor(a), 2), a)
    with pytest.raises(UserError, match="integers have no decimals"):
        fb.round(fb.tensor(a), -1)


def test_bits_are_numpys() -> None:
    a, b = np.array([5, -6, 7], np.int32), np.array([1, 2, 3], np.int32)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        close(getattr(fb, name)(fb.tensor(a), fb.tensor(b)), getattr(np, name)(a, b))
    close(1 << fb.tensor(b), np.int32(1) << b)
    close(fb.bitwise_not(fb.tensor(a)), ~a)
    with pytest.raises(DTypeError, match="bitwise_and: floats have no bits"):
        fb.bitwise_and(fb.tensor(1.0), 1)
    with pytest.raises(DTypeError, match=r"tan[\s\S]*expected: one of f16, bf16, f32, f64[\s\S]*found:    i64"):
        fb.tan(fb.tensor(a.astype(np.int64)))


def test_numbers_take_the_type_of_the_array() -> None:
    x = fb.tensor([1.0, 2.0], dtype="f16")
    assert fb.hypot(x, 2.0).dtype is fb.float16 and fb.hypot(2, x).dtype is fb.float16
    assert fb.logaddexp(x, fb.tensor(1.0)).dtype is fb.float32


def test_equality_of_arrays() -> None:
    x = fb.tensor(SPECIAL)
    assert not bool(fb.array_equal(x, x)) and bool(fb.array_equal(x, x, equal_nan=True))
    assert not bool(fb.array_equal(x, fb.ones(3)))
    close(fb.lerp(fb.tensor([0.0, 1.0]), 2.0, 0.25), np.array([0.5, 1.25], np.float32))


# ---- compiled ----------------------------------------------------------------------------------------------------

DOMAINS: dict[str, tuple[float, float, float]] = {
    "tan": (-1.5, 1.5, 2.0),
    "asin": (-1.0, 1.0, 2.0),
    "acos": (-1.0, 1.0, 2.0),
    "atan": (-20.0, 20.0, 2.0),
    "sinh": (-89.2, 89.2, 2.0),
    "cosh": (-89.2, 89.2, 2.0),
    "asinh": (-50.0, 50.0, 2.0),
    "acosh": (1.0, 50.0, 2.0),
    "atanh": (-1.0, 1.0, 2.0),
    "exp2": (-100.0, 100.0, 2.0),
    "log2": (0.0, 50.0, 2.0),
    "log10": (0.0, 50.0, 2.0),
    "cbrt": (-50.0, 50.0, 2.0),
}


def test_compiled_functions_are_within_two_units_in_f32() -> None:
    given = {name: RNG.uniform(low, high, 4096).astype(np.float32) for name, (low, high, _) in DOMAINS.items()}
    a, b = (RNG.normal(size=4096).astype(np.float32) for _ in range(2))
    with fb.device("cpu"):
        found = {name: getattr(fb, name)(fb.tensor(x)) for name, x in given.items()}
        pairs = fb.atan2(fb.tensor(a), fb.tensor(b)), fb.hypot(fb.tensor(a), fb.tensor(b))
        fb.flush()
    for name, x in given.items():
        exact = ONE[name][0](x.astype(np.float64))
        assert units(found[name].numpy(), exact) <= DOMAINS[name][2], name
    wide = a.astype(np.float64), b.astype(np.float64)
    for result, exact in zip(pairs, (np.arctan2(*wide), np.hypot(*wide)), strict=True):
        assert units(result.numpy(), exact) <= 2.0


def units(found: Array, exact: Array) -> float:
    """The largest error in units of the last place."""
    return float(np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))))
