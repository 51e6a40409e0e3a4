"""Sizes that are known only at run time: what does not fit is refused before any code runs, whatever it would read."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import IndexRangeError, InputError, ShapeError, UserError
from firebox.runtime.artifact import Artifact
from firebox.runtime.session import Model


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


RANGES: dict[str, tuple[Any, str, str]] = {
    "an index": (lambda x: x[5], "x: f32[b]", "6 <= b"),
    "an index from the end": (lambda x: x[-2], "x: f32[b]", "2 <= b"),
    "a slice from the end": (lambda x: x[-3:].sum(), "x: f32[b]", "3 <= b"),
    "all but the first": (lambda x: x[1:].sum(), "x: f32[b]", "1 <= b"),
    "x.at": (lambda x: x.at[3].set(0.0).sum(), "x: f32[b]", "4 <= b"),
    "topk": (lambda x: fb.topk(x, 3)[0].sum(), "x: f32[b]", "3 <= b"),
    "split": (lambda x: fb.split(x, [2, x.shape[0] - 2])[1].sum(), "x: f32[b]", "2 <= b"),
    "zeros": (lambda x: fb.zeros(x.shape[0] - 3).sum(), "x: f32[b]", "3 <= b"),
    "conv2d": (lambda x: fb.conv2d(x.reshape(1, 1, 8, -1), fb.ones(1, 1, 3, 5)).sum(), "x: f32[8, b]", "4 <= b"),
    "a derivative": (lambda x: fb.grad(lambda y: y[2] * y[3])(x).sum(), "x: f32[b]", "4 <= b"),
    "vmap": (lambda x: fb.vmap(lambda y: y[4])(x).sum(), "x: f32[3, b]", "5 <= b"),
}


@pytest.mark.parametrize("name", RANGES)
def test_what_a_model_needs_of_a_dim_is_in_its_signature(name: str) -> None:
    function, spec, needs = RANGES[name]
    model = fb.compile(function, spec)
    assert str(model.signature).endswith(f", {needs}")
    least = int(needs.split(" ")[0])
    (axis,) = (k for k, d in enumerate(model.inputs[0].shape) if str(d) == "b")
    for size in (least - 1, 0):
        shape = [d if isinstance(d, int) else size for d in model.inputs[0].shape]
        with pytest.raises(InputError) as caught:
            model(ones(*shape))
        got = ",".join(map(str, shape))
        assert str(caught.value) == f"input x: dim {axis} is b={size}, expected {needs}; got f32[{got}] for {spec}"
    assert np.isfinite(model(ones(*(d if isinstance(d, int) else least for d in model.inputs[0].shape))))


def test_an_index_far_outside_does_not_read_there() -> None:
    model = fb.compile(lambda x: x[100_000_000], "x: f32[b]")
    with pytest.raises(InputError, match="expected 100000001 <= b"):
        model(ones(3))


def test_conditions_on_several_dims_are_checked_together() -> None:
    model = fb.compile(lambda x, y: x[: y.shape[0]] + y, "x: f32[b]; y: f32[c]")
    line = test_conditions_on_several_dims_are_checked_together.__code__.co_firstlineno + 1
    np.testing.assert_array_equal(model(ones(3), ones(2)), [2, 2])
    with pytest.raises(InputError) as caught:
        model(ones(3), ones(4))
    assert str(caught.value).splitlines() == [
        "slice: a size does not fit",
        "  expected: b >= c",
        "  found:    b = 3, c = 4",
        f"  at:       test_sizes.py:{line}",
    ]


def test_two_dims_that_multiply_to_a_size() -> None:
    """-2 * -2 elements would be 4."""
    model = fb.compile(lambda x: fb.conv2d(x, fb.ones(1, 1, 5, 5)), "x: f32[1, 1, h, w]")
    with pytest.raises(InputError, match="dim 2 is h=2, expected 4 <= h"):
        model(ones(1, 1, 2, 2))
    assert model(ones(1, 1, 5, 6)).shape == (1, 1, 1, 2)


def test_a_range_in_which_nothing_fits() -> None:
    line = test_a_range_in_which_nothing_fits.__code__.co_firstlineno + 3
    with pytest.raises(UserError) as caught:
        fb.compile(lambda x: x[5], "x: f32[b], 1<=b<=4")
    assert str(caught.value).splitlines() == [
        "slice: no size in the range of a dim fits",
        "  expected: b >= 6",
        "  found:    1 <= b <= 4",
        f"  at:       test_sizes.py:{line}",
    ]


def test_the_conditions_are_in_the_file(tmp_path: Any) -> None:
    fb.compile(lambda x, y: x[: y.shape[0]] + y, "x: f32[b]; y: f32[c]", path=tmp_path / "a.fbox")
    artifact = Artifact.open(tmp_path / "a.fbox")
    assert [str(guard) for guard in artifact.builds[0].program.guards] == ["b >= c"]
    with pytest.raises(InputError, match="expected: b >= c"):
        Model(artifact)(ones(1), ones(2))


def test_empty_dims_where_they_mean_something() -> None:
    for function in (lambda x: x[:5], lambda x: x[::-1], lambda x: x[::2], lambda x: x[2:5], lambda x: x[1::3]):
        assert fb.compile(function, "x: f32[b]")(ones(0)).shape == (0,)


# ---- jit ---------------------------------------------------------------------------------------------------------


def test_a_jitted_function_is_compiled_anew_for_a_size_that_does_not_fit() -> None:
    last = fb.jit(lambda x: x[-3:].sum())
    for size in (9, 7, 5, 2, 3, 2):
        assert last(fb.tensor(np.arange(size, dtype=np.float32))).item() == np.arange(size)[-3:].sum()


def test_an_index_that_one_size_does_not_have() -> None:
    pick = fb.jit(lambda x: x[5])
    line = test_an_index_that_one_size_does_not_have.__code__.co_firstlineno + 1
    for size in (9, 7, 8):
        assert pick(fb.tensor(np.arange(size))).item() == 5
    for size in (3, 2, 1):
        with pytest.raises(IndexRangeError) as caught:
            pick(fb.tensor(np.arange(size)))
        assert str(caught.value).splitlines() == [
            "index: index out of range",
            f"  expected: -{size} to {size - 1} at axis 0",
            "  found:    5",
            f"  at:       {__file__}:{line}",
        ]
    assert pick(fb.tensor(np.arange(6))).item() == 5


def test_sizes_in_python_conditions() -> None:
    """Asked of a symbolic size they cannot be answered, so that each size has a program of its own."""
    halve = fb.jit(lambda x: x[: int(x.shape[0] * 0.5)] if x.shape[0] > 4 else -x)
    for size in (8, 6, 3, 10):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(halve(fb.tensor(x)).numpy(), x[: size // 2] if size > 4 else -x)


def test_shapes_that_are_not_provably_equal() -> None:
    line = test_shapes_that_are_not_provably_equal.__code__.co_firstlineno + 3
    with pytest.raises(ShapeError) as caught:
        fb.compile(lambda x, y: x + y, "x: f32[b]; y: f32[c]")
    assert "found:    (b) and (c), differing at dim -1" in str(caught.value)
    assert f"at:       {__file__}:{line}" in str(caught.value)
