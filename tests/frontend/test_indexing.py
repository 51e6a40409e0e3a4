"""`x[...]` and `x.at[...]` against NumPy, and what is refused."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, IndexRangeError, ShapeError, TraceError, UserError

pytestmark = pytest.mark.usefixtures("frontend")

A = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
II, J = np.array([[0, 1], [2, -1]]), np.array([1, 0])
ALL = slice(None)
BASIC: list[Any] = [
    0,
    -1,
    ALL,
    slice(None, None, -1),
    (slice(1, 0, -1), 0),
    (Ellipsis, 2),
    (0, Ellipsis, None),
    (None, 1),
    (slice(None, None, 2), slice(5, 0, -2)),
    slice(3, 1),
    (Ellipsis, -2, slice(None, None, -3)),
    slice(-1, -5, -1),
    (0, 1, 2, 3),
    (),
    np.int64(1),
    (ALL, slice(-2, 100), slice(-100, 2)),
]
ADVANCED: list[Any] = [
    (ALL, II),
    (ALL, II, ALL, J),
    (II % 2, ALL, J),
    (0, ALL, J),
    (ALL, 0, II),
    (ALL, II, J),
    (0, II, slice(None, None, -1), J),
    (II % 2, II, II, II),
    (ALL, ALL, [1, 2], None, 0),
    (None, Ellipsis, II),
    (II % 2, None, J),
    ([0, 1],),
    np.array(1),
    (ALL, []),
]
MASKS: list[Any] = [A > 50, (ALL, A[0, :, 0, 0] > 25), (ALL, np.ones((3, 4), bool)), A > 1000]


def as_tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(as_tensors, key))
    return fb.tensor(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", [*BASIC, *ADVANCED, *MASKS], ids=str)
def test_reading_matches_numpy(key: Any) -> None:
    x = fb.tensor(A)
    for form in (key, as_tensors(key)):
        found = x[form]
        assert found.shape == A[key].shape
        np.testing.assert_array_equal(found.numpy(), A[key])


def test_small_types_of_indices() -> None:
    for dtype in (np.int8, np.uint8, np.int32, np.uint64):
        index = np.array([1, 0], dtype)
        np.testing.assert_array_equal(fb.tensor(A)[fb.tensor(index)].numpy(), A[index])


def test_a_tensor_of_no_dims_is_an_integer_index() -> None:
    np.testing.assert_array_equal(fb.tensor(A)[fb.tensor(1), fb.tensor(-1)].numpy(), A[1, -1])


def test_a_slice_of_one_program_reverses_without_a_loop() -> None:
    text = fb.jit(lambda x: x[::-1, 1:]).lower(fb.spec("f32[4, 5]")).mlir()
    assert "nd.flip" in text
    assert "nd.gather" not in text


UPDATES = {
    "set": lambda b, key, v: b.__setitem__(key, v),
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("key", [*BASIC, *ADVANCED, *MASKS], ids=str)
def test_updates_match_numpy(name: str, key: Any) -> None:
    rng = np.random.default_rng(1)
    value = rng.integers(-9, 99, A[key].shape).astype(np.float32)
    expected = A.copy()
    UPDATES[name](expected, key, value)
    x = fb.tensor(A)
    found = getattr(x.at[key], name)(value)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), A)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float16])
def test_set_keeps_the_element_type(dtype: Any) -> None:
    a = np.array([0, 1, 1, 0]).astype(dtype)
    found = fb.tensor(a).at[[0, 2]].set(fb.tensor([1.0, 0.0]))
    assert found.numpy().dtype == dtype
    np.testing.assert_array_equal(found.numpy(), np.array([1, 1, 0, 0]).astype(dtype))


def test_of_several_values_for_one_place_the_last_is_set() -> None:
    found = fb.zeros(3).at[[1, 1, 1]].set(fb.tensor([5.0, 6.0, 7.0]))
    assert found.tolist() == [0, 7, 0]


def test_set_replaces_nan_and_takes_nan() -> None:
    x = fb.tensor([np.nan, 1.0, 2.0])
    np.testing.assert_array_equal(x.at[[0, 1, 1]].set(fb.tensor([5.0, np.nan, 6.0])).numpy(), [5, 6, 2])
    np.testing.assert_array_equal(x.at[1:].set(np.nan).numpy(), [np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(x.at[:1].min(3.0).numpy(), [np.nan, 1, 2])


def test_values_broadcast_and_get_reads() -> None:
    x = fb.zeros(2, 3)
    assert x.at[:, 1].set(4).tolist() == [[0, 4, 0], [0, 4, 0]]
    assert x.at[0].add([1.0, 2.0, 3.0]).at[0].get().tolist() == [1, 2, 3]


def test_rows_are_added_without_flat_positions() -> None:
    """Adding rows by one index array is a single scatter of rows."""
    text = fb.jit(lambda x, i, v: x.at[i].add(v)).lower(fb.spec("f32[9, 5]"), fb.spec("i64[2]"), fb.spec("f32[2, 5]"))
    assert "(tensor<9x5xf32>, tensor<2xi64>, tensor<2x5xf32>) -> tensor<9x5xf32>" in text.mlir()


def test_a_block_is_written_without_a_scatter() -> None:
    text = fb.jit(lambda x: x.at[1:3, 0].set(1.0)).lower(fb.spec("f32[4, 5]")).mlir()
    assert "nd.scatter_add" not in text
    assert "nd.pad" in text


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, IndexRangeError, "-2 to 1 at axis 0"),
        (-3, IndexRangeError, "-2 to 1 at axis 0"),
        ((0, 0, 4), IndexRangeError, "-4 to 3 at axis 2"),
        ((0, 0, 0, 0, 0), IndexRangeError, "too many indices"),
        ((Ellipsis, Ellipsis), IndexRangeError, "more than one ellipsis"),
        ([0, 2], IndexRangeError, "-2 to 1 at axis 0"),
        (1.5, DTypeError, "not an index"),
        ("a", DTypeError, "not an index"),
        (np.array([0.5]), DTypeError, "indices must be integers"),
        (True, DTypeError, "single bool"),
        (slice(0, 1.5), DTypeError, "a slice needs integers"),
        (slice(None, None, 0), IndexRangeError, "step of a slice is 0"),
        (np.ones(3, bool), ShapeError, "mask does not fit"),
    ],
)
def test_bad_indices(key: Any, error: type[Exception], message: str) -> None:
    x = fb.tensor(A)
    with pytest.raises(error, match=message) as caught:
        x[key]
    assert __file__ in str(caught.value)
    with pytest.raises(error, match=message):
        x.at[key].set(0)


def test_a_float_tensor_is_no_index() -> None:
    with pytest.raises(DTypeError, match=r"(?s)integers.*found:    f32.*astype"):
        fb.tensor(A)[fb.tensor([1.0])]


@pytest.mark.parametrize("index", [[3], [-4]])
def test_a_computed_index_out_of_range_is_an_error_when_it_is_read(index: list[int]) -> None:
    x, i = fb.tensor([1.0, 2.0, 3.0]), fb.tensor(index)
    y = x[i]
    with pytest.raises(IndexRangeError, match="out of range"):
        y.numpy()
    grid = fb.tensor(A)[0]
    with pytest.raises(IndexRangeError, match="out of range"):
        grid[i, i % 2].numpy()


def test_a_traced_mask_is_refused() -> None:
    with pytest.raises(TraceError, match=r"(?s)number of elements.*fb\.where"):
        fb.jit(lambda x: x[x > 0])(fb.ones(3))


def test_assignment_names_the_way_out() -> None:
    x = fb.ones(3)
    with pytest.raises(UserError, match=r"x\.at\[\.\.\.\]\.set\(v\)"):
        x[0] = 1.0


# ---- derivatives and symbolic sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [1, (ALL, slice(2, 0, -1)), (ALL, II), (II % 2, ALL, J), A > 50], ids=str)
def test_the_derivative_of_reading_counts_the_reads(key: Any) -> None:
    expected = np.zeros_like(A)
    np.add.at(expected, key, 1.0)
    gradient = fb.grad(lambda x: x[key].sum())(fb.tensor(A))
    np.testing.assert_array_equal(gradient.numpy(), expected)


def test_the_derivative_of_set_goes_to_the_values_and_to_what_stays() -> None:
    def f(x: fb.Tensor, v: fb.Tensor) -> fb.Tensor:
        return (x.at[[0, 2, 2]].set(v) * fb.tensor([1.0, 10.0, 100.0])).sum()

    by_x, by_v = fb.grad(f, (0, 1))(fb.ones(3), fb.ones(3))
    assert by_x.tolist() == [0, 10, 0]
    assert by_v.tolist() == [1, 0, 100]


def test_slices_of_symbolic_sizes() -> None:
    f = fb.jit(lambda x: (x[1:], x[:-1], x[-1], x[0], x[::-1], x[..., 0], x[:2]), dims={"x": ("b", None)})
    for size in (3, 5):
        a = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        for found, expected in zip(
            f(fb.tensor(a)), (a[1:], a[:-1], a[-1], a[0], a[::-1], a[..., 0], a[:2]), strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), expected)
    assert fb.stats()["jit_traces"] == 1
