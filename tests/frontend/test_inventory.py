"""What Burn's tensors can do and what the array API standard names is there; modes and orders that Burn names, too."""

import math
from functools import reduce
from typing import Any

import numpy as np
import pytest

import firebox as fb
from tests.conftest import GOLDEN

LINES = [line for line in (GOLDEN / "burn_functions.txt").read_text().splitlines() if line and line[0] != "#"]
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr
slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift"
NUMPY = """
absolute cbrt copysign cumulative_prod cumulative_sum diff einsum exp2 expm1 fmax fmin frexp gradient heaviside
histogram interp kron ldexp log10 log2 logaddexp logaddexp2 modf nan_to_num nanmean nextafter percentile polyval
quantile rot90 searchsorted signbit sinc tensordot tile trapezoid unique vander
"""
SPECIAL = "betaln digamma entr erf erfc erfinv i0 i0e i1 i1e lgamma logit ndtr polygamma sigmoid xlog1py xlogy"


@pytest.mark.parametrize("line", LINES)
def test_the_functions_of_burn(line: str) -> None:
    name, _, where = line.partition(" -> ")
    place = where or f"fb.{name}"
    root, *path = place.split(".")
    assert reduce(getattr, path, {"fb": fb, "x": fb.Tensor}[root]) is not None


def test_the_list_has_each_function_once() -> None:
    names = [line.partition(" -> ")[0] for line in LINES]
    assert len(set(names)) == len(names) > 280


def test_the_standard_numpy_and_special_functions() -> None:
    assert [n for n in LINALG.split() if not hasattr(fb.linalg, n)] == []
    assert set(fb.array_api.linalg.__all__) == set(LINALG.split())
    assert [n for n in FFT.split() if n not in fb.fft.__all__] == []
    assert [n for n in (NUMPY + SPECIAL).split() if not hasattr(fb, n)] == []


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "lanczos"])
def test_ways_to_resample(mode: Any) -> None:
    found = fb.interpolate(fb.ones(1, 1, 4, 4), (6, 5), mode=mode)
    assert found.shape == (1, 1, 6, 5)
    assert abs(found - 1.0).max().item() < 1e-6


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, math.inf, -math.inf])
def test_norms(order: float) -> None:
    x: Any = np.array([[3.0, -4.0, 0.0], [1.0, 2.0, -2.0]])
    np.testing.assert_allclose(fb.vector_norm(x, 1, ord=order).numpy(), np.linalg.norm(x, order, 1))


@pytest.mark.parametrize("reduction", ["set", "add", "mul", "min", "max"])
def test_ways_to_scatter(reduction: str) -> None:
    x, values = np.full(4, 2.0), np.array([5.0, 1.0])
    expected = x.copy()
    at = np.array([3, 0])
    update: dict[str, Any] = {
        "set": lambda a, b: b,
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }
    expected[at] = update[reduction](x[at], values)
    found = fb.scatter_nd(fb.tensor(x), fb.tensor(at[:, None]), fb.tensor(values), reduction)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_one_hot_with_other_values_and_a_median_with_its_place() -> None:
    hot = fb.one_hot(fb.tensor([2, 0]), 3)
    assert fb.where(hot, 5, -1).tolist() == [[-1, -1, 5], [5, -1, -1]]
    value, place = fb.kthvalue(fb.tensor([4.0, 1.0, 3.0, 2.0]), 2)
    assert (value.item(), place.item()) == (2.0, 3)  # the lower of the two in the middle
