"""A defect of the compiler is reported at the read of what it concerns, and of nothing else."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import CompilerError
from firebox.frontend import execute


def test_other_values_can_still_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fb.flush()
    find: Any = execute._find

    def broken(device: Any, plan: Any) -> Any:
        if any(node.entry.op.name == "nd.erf" for node in plan.nodes):
            raise AssertionError("a rule is wrong")
        return find(device, plan)

    monkeypatch.setattr(execute, "_find", broken)
    bad, good = fb.ones(2).erf(), fb.ones(2) + 1.0
    assert good.tolist() == [2.0, 2.0]
    for _ in range(2):
        with pytest.raises(CompilerError, match="defect of firebox") as caught:
            bad.numpy()
        assert isinstance(caught.value.__cause__, AssertionError)
    assert (fb.ones(3) * 3.0).tolist() == [3.0] * 3


def test_groups_are_merged_without_cycles() -> None:
    """The derivatives of products join masks from before a scan with what comes after it."""
    x = np.array([[0.5, -2.0, 3.0], [1.5, 0.0, 4.0]])
    cumulative = fb.grad(lambda v: v.cumprod(1).sum())(fb.tensor(x)).numpy()
    expected = [[1 - 2 - 6, 0.5 + 1.5, -1.0], [1.0, 1.5 + 6.0, 0.0]]
    np.testing.assert_allclose(cumulative, expected, atol=1e-12)
    product = fb.grad(lambda v: v.prod(-1).sum())(fb.tensor(x)).numpy()
    np.testing.assert_allclose(product, [[-6.0, 1.5, -1.0], [0.0, 6.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_the_extreme_of_everything_keeps_dims(name: str) -> None:
    x = np.array([[3.0, -1.0], [7.0, 5.0]])
    found = getattr(fb, name)(fb.tensor(x), keepdims=True)
    expected = getattr(np, name)(x, keepdims=True)
    assert found.shape == (1, 1)
    assert found.tolist() == expected.tolist()
