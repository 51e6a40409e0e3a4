"""Random streams: the generator's published values, independence of grouping, ranges and moments."""

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError

pytestmark = pytest.mark.usefixtures("frontend")


def grad_of(leaf: fb.Tensor) -> fb.Tensor:
    """The leaf's gradient, which must be there."""
    assert leaf.grad is not None
    return leaf.grad


def test_the_words_are_those_of_philox() -> None:
    """Known answers of Random123's kat_vectors for philox4x32 with 10 rounds: counter and key 0."""
    words = fb.random.bits((4,), generator=fb.Generator(0)).numpy()
    assert [hex(w) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def draw() -> list[np.ndarray]:
    fb.manual_seed(7)
    return [fb.rand(5), fb.randn(3), fb.random.randint(10, shape=(6,)), fb.rand(2)]  # type: ignore[list-item]


def test_the_stream_does_not_depend_on_how_ops_are_grouped() -> None:
    together = [x.numpy() for x in draw()]  # type: ignore[attr-defined]
    fb.manual_seed(7)
    apart = [fb.rand(5).numpy(), fb.randn(3).numpy(), fb.random.randint(10, shape=(6,)).numpy(), fb.rand(2).numpy()]
    compiled = fb.jit(lambda: [fb.rand(5), fb.randn(3), fb.random.randint(10, shape=(6,))])
    fb.manual_seed(7)
    inside = [x.numpy() for x in compiled()] + [fb.rand(2).numpy()]
    for a, b, c in zip(together, apart, inside, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_a_compiled_function_draws_anew_at_every_call() -> None:
    f = fb.jit(lambda: fb.rand(3))
    first, second = f().numpy(), f().numpy()
    assert not np.array_equal(first, second)
    fb.manual_seed(0)
    np.testing.assert_array_equal(f().numpy(), first)
    assert fb.stats()["jit_traces"] == 1


def test_drawing_in_a_loop_compiles_once() -> None:
    values = []
    for _ in range(5):
        values.append(fb.rand(4).numpy())
    assert len({v.tobytes() for v in values}) == 5
    assert fb.stats()["programs_compiled"] == 1


def test_seeds_and_generators_are_streams_of_their_own() -> None:
    own = fb.Generator(3)
    a = fb.rand(4, generator=own)
    fb.manual_seed(3)
    np.testing.assert_array_equal(a.numpy(), fb.rand(4).numpy())
    assert not np.array_equal(fb.rand(4, generator=own).numpy(), a.numpy())
    state = own.get_state()
    b = fb.randn(5, generator=own).numpy()
    own.set_state(state)
    np.testing.assert_array_equal(fb.randn(5, generator=own).numpy(), b)


def test_a_value_computed_again_is_the_same() -> None:
    """Dropout read before its backward: the backward sees the same mask."""
    w = fb.Param(np.ones(64, np.float32))
    y = w * fb.random.bernoulli((64,), 0.5)
    kept = y.numpy()
    y.sum().backward()
    np.testing.assert_array_equal(grad_of(w).numpy(), kept)


@pytest.mark.parametrize(
    ("dtype", "step"), [(fb.float32, 2.0**-24), (fb.float16, 2.0**-11), (fb.bfloat16, 2.0**-8), (fb.float64, 2.0**-53)]
)
def test_uniform_numbers_are_multiples_of_a_step_below_one(dtype: fb.DType, step: float) -> None:
    x = fb.rand(4000, dtype=dtype).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert np.array_equal(x / step, np.round(x / step))
    assert abs(x.mean() - 0.5) < 0.02
    assert abs(x.var() - 1 / 12) < 0.005


def test_ranges_and_moments() -> None:
    x = fb.random.uniform((5000,), -2.0, 4.0).numpy()
    assert x.min() >= -2 and x.max() <= 4
    assert abs(x.mean() - 1) < 0.1
    y = fb.random.normal((5000,), 3.0, 2.0).numpy()
    assert abs(y.mean() - 3) < 0.1
    assert abs(y.std() - 2) < 0.1
    assert np.isfinite(y).all()
    assert abs(((y - 3) ** 3).mean()) < 1.0
    z = fb.randn(2000, dtype=fb.float64)
    assert z.dtype is fb.float64
    assert fb.randn(3, dtype=fb.float16).dtype is fb.float16
    k = fb.random.randint(-3, 4, (5000,)).numpy()
    assert set(k) == set(range(-3, 4))
    assert np.bincount(k + 3).min() > 600
    assert fb.random.randint(5, dtype=fb.int32).dtype is fb.int32
    assert abs(fb.random.bernoulli((5000,), 0.3).numpy().mean() - 0.3) < 0.03


def test_bounds_may_be_tensors() -> None:
    low = fb.tensor([0.0, 100.0])
    x = fb.random.uniform((2,), low, low + 1).numpy()
    assert 0 <= x[0] < 1 and 100 <= x[1] <= 101


def test_permutations_and_choices() -> None:
    p = fb.random.permutation(50).numpy()
    assert sorted(p) == list(range(50))
    assert list(p) != list(range(50))
    rows = fb.random.permutation(fb.tensor([[1], [2], [3]])).numpy()
    assert sorted(rows.ravel()) == [1, 2, 3]
    assert len(set(fb.random.choice(10, (10,), replace=False).tolist())) == 10
    picked = fb.random.choice(fb.tensor([5.0, 6.0, 7.0]), (3000,), p=[0.5, 0.0, 0.5]).numpy()
    assert set(picked) == {5.0, 7.0}
    assert abs((picked == 5).mean() - 0.5) < 0.05
    assert fb.random.choice(4, (2, 3)).shape == (2, 3)


def test_empty_and_scalar_shapes() -> None:
    assert fb.rand(0, 3).shape == (0, 3)
    assert fb.rand().shape == ()
    assert fb.random.permutation(0).shape == (0,)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(DTypeError, match="draws floats"):
        fb.rand(2, dtype=fb.int32)
    with pytest.raises(UserError, match="bad range"):
        fb.random.randint(3, 3)
    with pytest.raises(ShapeError, match="more values than there are"):
        fb.random.choice(2, (3,), replace=False)
    with pytest.raises(UserError, match="replace=True"):
        fb.random.choice(2, (1,), replace=False, p=[0.5, 0.5])
    with pytest.raises(ShapeError):
        fb.rand(-1)


def test_symbolic_sizes() -> None:
    f = fb.jit(lambda x: x + fb.random.uniform(x.shape), dims={"x": ("b",)})
    a, b = f(fb.zeros(5)).numpy(), f(fb.zeros(7)).numpy()
    assert a.shape == (5,) and b.shape == (7,)
    assert not np.array_equal(a, b[:5])
    assert fb.stats()["jit_traces"] == 1


def test_categories_by_weight() -> None:
    fb.manual_seed(3)
    weights = fb.tensor([[1.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
    drawn = fb.categorical(weights, 4000)
    assert (drawn.shape, drawn.dtype) == ((2, 4000), fb.int64)
    counts = np.bincount(drawn.numpy()[0], minlength=4)
    assert counts[1] == counts[3] == 0
    assert abs(counts[0] - 1000) < 110  # four standard deviations
    assert (drawn.numpy()[1] == 3).all()
    with pytest.raises(UserError, match="categorical: nothing to draw"):
        fb.categorical(weights, 0)
    with pytest.raises(ShapeError, match="categorical: no weights"):
        fb.categorical(fb.tensor(1.0), 1)


def test_numbers_like_others() -> None:
    like = fb.zeros(2, 3, dtype=fb.float64)
    for drawn in (fb.rand_like(like), fb.randn_like(like)):
        assert (drawn.shape, drawn.dtype) == (like.shape, like.dtype)
        assert len(set(drawn.numpy().ravel().tolist())) == 6
