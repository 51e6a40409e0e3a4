"""A Python decision on a value that is not known yet: inside jit, vmap, grad and the others, with the way out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import FireboxError, ShapeError, TraceError, UserError

X = fb.tensor(np.ones((2, 3), np.float32))

BRANCH = (
    "bool: Python cannot branch on a traced value",
    "expected: a value known while tracing",
    "found:    a traced bool[]",
    "hint:     use fb.where(condition, a, b) to choose between values",
)
READ = (
    "a value of a traced function is used outside of it, or read inside it: "
    "its numbers are known only when the compiled program runs"
)
READ_HINT = (
    "hint:     return it from the function; to choose by a traced condition use fb.where or fb.cond, "
    "to repeat by one fb.while_loop; to print it, return it"
)


def with_if(x: Any) -> Any:
    return x.sum() if x.sum() > 0 else -x.sum()


def with_while(x: Any) -> Any:
    while x.sum() > 0:
        x = x - 1
    return x.sum()


def with_and(x: Any) -> Any:
    return x.sum() > 0 and x.sum()


def with_not(x: Any) -> Any:
    return x.sum() if not (x > 0).any() else x.max()


def with_assert(x: Any) -> Any:
    assert x.min() > 0
    return x.sum()


def with_max(x: Any) -> Any:
    return max(x.sum(), 1.0)


def with_equality(x: Any) -> Any:
    return x.sum() if x.sum() == 0 else x.max()


BRANCHES = (with_if, with_while, with_and, with_not, with_assert, with_max, with_equality)
TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], object]] = {
    "jit": lambda f: fb.jit(f)(X),
    "grad": lambda f: fb.grad(f)(X),
    "value_and_grad": lambda f: fb.value_and_grad(f)(X),
    "vmap": lambda f: fb.vmap(f)(X),
    "jvp": lambda f: fb.jvp(f, (X,), (X,)),
    "vjp": lambda f: fb.vjp(f, X),
    "hessian": lambda f: fb.hessian(f)(X),
    "checkpoint": lambda f: fb.checkpoint(f)(X),
    "jit of grad": lambda f: fb.jit(fb.grad(f))(X),
    "compile": lambda f: fb.compile(f, "x: f32[b, 3]"),
    "export": lambda f: fb.export(f, "x: f32[b, 3]"),
}


def fails(call: Callable[[], object], function: Callable[..., Any], kind: type[FireboxError], *lines: str) -> None:
    """The call fails with these lines, the place being one of the function's."""
    with pytest.raises(kind) as caught:
        call()
    found = [text.strip() for text in str(caught.value).splitlines()]
    (place,) = (text for text in found if text.startswith("at: "))
    found.remove(place)
    assert found == list(lines), caught.value
    file, _, line = place.removeprefix("at:       ").rpartition(":")
    first = function.__code__.co_firstlineno
    last = max(number for _, _, number in function.__code__.co_lines() if number is not None)
    assert file == __file__
    assert first <= int(line) <= last


@pytest.mark.parametrize("function", BRANCHES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_branches(transform: str, function: Callable[[Any], Any]) -> None:
    fails(lambda: TRANSFORMS[transform](function), function, TraceError, *BRANCH)


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "int": lambda x: int(x.sum()),
    "float": lambda x: float(x.sum()),
    "index": lambda x: [1, 2, 3][x.argmax()],
    "format": lambda x: f"{x.sum():.3f}",
    "array": lambda x: np.asarray(x),
    "exp": lambda x: math.exp(x.sum()),
    "range": lambda x: list(range(x.sum().astype("i64"))),
}
OPS = {"format": "format", "array": "array", "exp": "float", "range": "index"}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "jit of grad"])
def test_reads(transform: str, name: str) -> None:
    function = READS[name]
    found = "found:    a value of type f32[3]" if transform == "vmap" else "found:    a value of type f32[2, 3]"
    op = OPS.get(name, name)
    fails(lambda: TRANSFORMS[transform](function), function, TraceError, f"{op}: {READ}", found, READ_HINT)


def test_a_mask_selects_an_unknown_number() -> None:
    function: Callable[[Any], Any] = lambda x: x[x > 0].sum()  # noqa: E731
    fails(
        lambda: fb.jit(function)(X),
        function,
        TraceError,
        "index: the number of elements that a mask selects is not known while tracing",
        "expected: a mask whose values are known",
        "found:    a traced mask of shape (2, 3)",
        "hint:     use fb.where(mask, x, 0), or return the mask and index outside",
    )


def test_a_symbolic_size_in_a_condition() -> None:
    function: Callable[[Any], Any] = lambda x: x if x.shape[0] > 3 else -x  # noqa: E731
    fails(
        lambda: fb.compile(function, "x: f32[b]"),
        function,
        UserError,
        "gt: a size is known only when the program runs",
        "found:    b > 3",
        "hint:     give the size a number, or write the function so that it does not ask",
    )


def test_a_symbolic_size_in_a_calculation() -> None:
    function: Callable[[Any], Any] = lambda x: x.sum() * (1.0 / x.shape[0])  # noqa: E731
    fails(
        lambda: fb.compile(function, "x: f32[b]"),
        function,
        UserError,
        "div: a size is known only when the program runs",
        "found:    b and 1.0",
        "hint:     calculate with a tensor beside it, as in x.sum() / x.shape[0]",
    )
    assert fb.compile(lambda x: x.sum() / x.shape[0], "x: f32[b]")(np.arange(4, dtype=np.float32)) == 1.5


def test_a_value_that_left_its_function() -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x * 2)
        return x

    fb.jit(leak)(X)
    line = test_a_value_that_left_its_function.__code__.co_firstlineno + 10
    with pytest.raises(TraceError) as caught:
        kept[0].numpy()
    assert str(caught.value).splitlines()[0] == f"numpy: {READ}"
    assert f"at:       {__file__}:{line}" in str(caught.value)
    assert repr(kept[0]) == "Tensor(f32[2, 3], traced)"


def test_what_is_known_may_be_asked() -> None:
    """Sizes, element types and Python numbers, and the rows of a tensor of known size."""

    @fb.jit
    def total(x: Any, scale: float, double: bool) -> Any:
        if x.shape[0] == 2 and x.dtype is fb.float32 and len(x) > 1 and double:
            scale = 2 * scale
        return sum((row.sum() for row in x), fb.zeros(())) * scale

    assert total(X, 1.5, True).item() == 18
    assert total(X, 1.5, False).item() == 9


def test_errors_of_the_function_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        fb.jit(lambda x: 1 / 0)(X)
    with pytest.raises(ShapeError, match="matmul: the inner dims differ"):
        fb.jit(lambda x: x @ x)(X)
    assert fb.jit(lambda x: x + 1)(X).sum().item() == 12  # and the next function is traced as ever
