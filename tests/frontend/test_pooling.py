"""Pooling of one to three dims against recorded values and gradients of PyTorch."""

from collections.abc import Callable

import numpy as np
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions import adaptive_pooling as A
from firebox.frontend.functions import pooling as F
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "max1d": lambda x: F.max_pool1d(x, 3, 2, 1, 1, True),
    "max2d_ceil": lambda x: F.max_pool2d(x, 3, 2, 1, 2, True),
    "max3d": lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0)),
    "max3d_ceil": lambda x: F.max_pool3d(x, 2, 2, 1, 1, True),
    "places1d": lambda x: F.max_pool1d_with_indices(x, 3, 2, 1, 1, True)[1],
    "places2d": lambda x: F.max_pool2d_with_indices(x, (3, 2), (2, 1), (1, 0), (1, 2))[1],
    "places3d": lambda x: F.max_pool3d_with_indices(x, 2, 2, 1, 1, True)[1],
    "unpool1d": lambda x: F.max_unpool1d(*F.max_pool1d_with_indices(x, 2), 2),
    "unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d_with_indices(x, 2), 2, output_size=(5, 7)),
    "unpool3d": lambda x: F.max_unpool3d(*F.max_pool3d_with_indices(x, 2), 2),
    "avg1d": lambda x: F.avg_pool1d(x, 3, 2, 1, False, True),
    "avg2d_ceil": lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, True, True),
    "avg2d_ceil_real": lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, False, True),
    "avg2d_divisor": lambda x: F.avg_pool2d(x, 2, 1, 1, divisor_override=3),
    "avg3d": lambda x: F.avg_pool3d(x, 3, 2, 1, False, True),
    "lp1d": lambda x: F.lp_pool1d(x, 2, 3, 2),
    "lp2d": lambda x: F.lp_pool2d(x, 3.0, 2, 2),
    "lp3d": lambda x: F.lp_pool3d(x, 2, 2),
    "adaptive_avg1d": lambda x: A.adaptive_avg_pool1d(x, 3),
    "adaptive_avg2d": lambda x: A.adaptive_avg_pool2d(x, (None, 4)),
    "adaptive_avg3d": lambda x: A.adaptive_avg_pool3d(x, (2, 1, 3)),
    "adaptive_max1d": lambda x: A.adaptive_max_pool1d(x, 3),
    "adaptive_max2d": lambda x: A.adaptive_max_pool2d(x, (4, 3)),
    "adaptive_max3d": lambda x: A.adaptive_max_pool3d(x, (2, 3, 2)),
    "adaptive_places2d": lambda x: A.adaptive_max_pool2d_with_indices(x, (4, 3))[1],
    "adaptive_places3d": lambda x: A.adaptive_max_pool3d_with_indices(x, (2, 3, 2))[1],
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("pooling"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("pooling", name, CASES[name])


def test_overlapping_windows_unpool_to_one_value() -> None:
    x = tensor(np.array([[[1.0, 5.0, 2.0, 0.0]]]))
    values, places = F.max_pool1d_with_indices(x, 2, 1)
    np.testing.assert_array_equal(F.max_unpool1d(values, places, 2, 1).numpy(), [[[0.0, 5.0, 2.0, 0.0]]])


def test_lp_pool_of_zeros_has_no_gradient() -> None:
    x = tensor(np.zeros((1, 1, 4)), requires_grad=True)
    F.lp_pool1d(x, 2, 2).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((1, 1, 4)))


def test_what_does_not_fit() -> None:
    x = tensor(np.ones((1, 1, 4, 4)))
    with pytest.raises(ShapeError, match="rank 5"):
        F.max_pool3d(x, 2)
    with pytest.raises(UserError, match="divisor is 0"):
        F.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(UserError, match="bad norm_type"):
        F.lp_pool2d(x, 0, 2)
    with pytest.raises(DTypeError, match="indices"):
        F.max_unpool2d(x, x, 2)
    with pytest.raises(ShapeError, match="bad output_size"):
        A.adaptive_max_pool2d(x, (0, 1))
