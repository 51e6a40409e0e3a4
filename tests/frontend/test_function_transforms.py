"""Functions of tensors inside `vmap` and `jit`: what a loop over the batch gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb

X = np.random.default_rng(0).normal(size=(2, 3, 4))
PLACES = np.array([[0, 2, 1, 2], [0, 0, 1, 1]])
CASES: dict[str, Callable[..., Any]] = {
    "atan2": lambda x: fb.atan2(x, 2.0),
    "cbrt": lambda x: fb.cbrt(x),
    "diag_embed": lambda x: fb.diag_embed(x),
    "diagonal": lambda x: fb.diagonal(x),
    "einsum": lambda x: fb.einsum("ij,kj->", x, x),
    "gather_nd": lambda x: fb.gather_nd(x, fb.tensor([[0, 1], [2, 3]])),
    "histogram": lambda x: fb.histogram(x, 3, -1.0, 1.0)[0],
    "kron": lambda x: fb.kron(x, x),
    "logcumsumexp": lambda x: fb.logcumsumexp(x, 1),
    "masked_select": lambda x: fb.masked_select(x, x > 0, size=6),
    "median": lambda x: fb.median(x, 1),
    "mode": lambda x: fb.mode(x)[0],
    "nextafter": lambda x: fb.nextafter(x, 0.0),
    "quantile": lambda x: fb.quantile(x, 0.3, 0),
    "roll": lambda x: fb.roll(x, 3),
    "scatter min": lambda x: fb.scatter(x, 0, fb.tensor(PLACES), 0.1, "min"),
    "scatter mul": lambda x: fb.scatter(x, 0, fb.tensor(PLACES), 2.0, "mul"),
    "searchsorted": lambda x: fb.searchsorted(fb.tensor([-1.0, 0.0, 1.0]), x),
    "unique": lambda x: fb.unique_counts(x, size=5).values,
    "windows": lambda x: fb.windows(x, 1, 2),
}
pytestmark = pytest.mark.usefixtures("frontend")


@pytest.mark.parametrize("name", CASES)
def test_functions_map_over_a_batch_and_compile(name: str) -> None:
    function = CASES[name]
    expected = [function(fb.tensor(part)).numpy() for part in X]
    np.testing.assert_allclose(fb.vmap(function)(fb.tensor(X)).numpy(), np.stack(expected), rtol=1e-12)
    np.testing.assert_allclose(fb.jit(function)(fb.tensor(X[0])).numpy(), expected[0], rtol=1e-12)
