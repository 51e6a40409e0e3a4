"""A wrong call of every public function: the message says what is wrong, expected and found, and names the call's line.

tests/golden/errors/wrong_calls.txt has one call of each with its message. A function that HANDMADE does not name is
called with operands of the wrong kind, type or shape: the first of these calls that is refused stands in the table.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import FireboxError
from tests.conftest import Golden

HOUSES = tuple(f"firebox.frontend.{name}" for name in ("functions", "elementwise", "pairs", "creation", "linalg"))
PARTS: dict[str, Any] = {"linalg": fb.linalg, "fft": fb.fft, "signal": fb.signal, "vision": fb.vision}
NAMES: dict[str, Any] = {
    "B": fb.tensor([True, False]),
    "I": fb.tensor([1, 2]),
    "X": fb.tensor(np.ones((2, 3), np.float32)),
    "Y": fb.tensor(np.ones(4, np.float32)),
    "Z": fb.tensor(np.float32(1.0)),
    "H": fb.tensor(np.ones((2, 2), np.float16)),
    "IMAGE": fb.tensor(np.ones((1, 3, 4, 5), np.float32)),
}
FILLINGS = (("B", "B"), ("I", "I"), ("X", "Y"), ("Z", "Z"), ("X", "X"), ("IMAGE", "IMAGE"), ("'text'", "X"))
"""What calls are tried with: the first array, and the others."""

HANDMADE = """
fb.abs('text')
fb.add(X, Y)
fb.all(X, 2)
fb.any(X, 2)
fb.amax(X, 2)
fb.amin(X, 2)
fb.arange(0, 3, 0)
fb.argmax(X, 2)
fb.argmin(X, 2)
fb.argsort(X, 2)
fb.argtopk(X, 9)
fb.average(X, 2)
fb.block_diag(IMAGE)
fb.cartesian_grid(())
fb.cartesian_prod(X, Y)
fb.chunk(X, 0)
fb.concat([X, Y])
fb.cumprod(X, 2)
fb.cumsum(X, 2)
fb.empty(-1)
fb.expand_dims(X, 5)
fb.eye(-1)
fb.fft.fft(Y, norm='none')
fb.fft.fftfreq(0)
fb.fft.fftn(X, s=(2, 3), axes=(0,))
fb.fft.hfft(X, Y)
fb.fft.ifft(X, Y)
fb.fft.irfft(X, X, n=0)
fb.fft.rfft(H)
fb.fft.rfftn(H)
fb.fft.rfftfreq(3, 0.0)
fb.flip(X, 2)
fb.full((-1,), 1.0)
fb.gather(X, 0, Y)
fb.histogram(X, 0, 0.0, 1.0)
fb.interp(X, Y, X)
fb.iota((2,), 1)
fb.linalg.cholesky(X)
fb.linalg.det(X)
fb.linalg.eigh(X)
fb.linalg.inv(X)
fb.linalg.lstsq(X, Y)
fb.linalg.matrix_norm(X, ord=3)
fb.linalg.matrix_power(X, 2)
fb.linalg.qr(X, 'raw')
fb.linalg.slogdet(Y)
fb.linalg.solve(X, Y)
fb.linalg.solve_triangular(X @ X.T, Y)
fb.linalg.svd(H)
fb.linspace(0.0, 1.0, -1)
fb.logspace(0.0, 1.0, -1)
fb.matmul(X, X)
fb.max(X, 2)
fb.mean(X, 2)
fb.median(X, 2)
fb.min(X, 2)
fb.moveaxis(X, 0, 5)
fb.narrow(X, 1, 2, 9)
fb.norm(X, axis=2)
fb.normalize(X, axis=2)
fb.one_hot(Y, 3)
fb.ones(-1)
fb.permute(X, (0, 0))
fb.polygamma(9, Y)
fb.prod(X, 2)
fb.quantile(X, 2.0)
fb.repeat(X, -1)
fb.reshape(X, (4, 2))
fb.signal.bartlett_window(-1)
fb.signal.blackman_window(-1)
fb.signal.hamming_window(-1)
fb.signal.hann_window(-1)
fb.signal.istft(X, X, 8)
fb.signal.kaiser_window(-1)
fb.signal.stft(Y, 16, center=False)
fb.softmax(X, 2)
fb.sort(X, 2)
fb.split(X, 0)
fb.squeeze(X, 0)
fb.stack([X, Y])
fb.std(X, 2)
fb.sum(X, 2)
fb.take(X, Y)
fb.tile(X, -1)
fb.topk(X, 9)
fb.transpose(X, (0, 0))
fb.tri(-1)
fb.unsqueeze(X, 5)
fb.var(X, 2)
fb.vision.component_stats(IMAGE)
fb.vision.connected_components(X, 6)
fb.vision.dilate(X, np.zeros((3, 3)))
fb.vision.erode(X, np.ones((3, 3)), border='wrap')
fb.vision.filter2d(X, Y)
fb.vision.median_blur(X, 4)
fb.vision.nms(X, Y)
fb.vision.structuring_element('star', (3, 3))
fb.where(X > 0.0, X, Y)
fb.zeros(2, -1)
"""

ANYTHING = """
argwhere array_equal asarray atleast_1d atleast_2d broadcast_shapes contains_nan count_nonzero diagflat empty_like
flatten full_like isposinf isneginf tril_indices triu_indices
"""
"""Functions for which everything that makes an array will do."""


def public() -> dict[str, Any]:
    """Every function, by how it is called."""
    package: Any = fb
    found = {f"fb.{n}": getattr(fb, n) for n, (where, _) in package._WHERE.items() if where.startswith(HOUSES)}
    for part, module in PARTS.items():
        found |= {f"fb.{part}.{name}": getattr(module, name) for name in module.__all__}
    return {name: f for name, f in found.items() if callable(f) and not inspect.isclass(f)}


def tried(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Calls of operands that may not fit."""
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    for first, others in FILLINGS:
        words = []
        for p in needed:
            kind = str(p.annotation)
            if p.kind is p.KEYWORD_ONLY:
                continue
            if any(word in kind for word in ("int", "float", "str", "bool")) and "ndarray" not in kind:
                words.append("(1,)" if "Sequence" in kind else "'?'" if "str" in kind and "Stri" not in kind else "1")
            elif "Sequence" in kind:
                words.append(f"[{first}, {others}]")
            else:
                words.append(others if words else first)
        yield f"{name}({', '.join(words)})"


def message(call: str) -> str | None:
    """What the call says, without the name of this file; None if it is not refused."""
    place = f"{__file__}:{message.__code__.co_firstlineno}"
    run = eval(f"lambda: {call}", {"fb": fb, "np": np, **NAMES})
    code = run.__code__.replace(co_filename=__file__, co_firstlineno=message.__code__.co_firstlineno)
    try:
        type(run)(code, run.__globals__)()
    except FireboxError as error:
        lines = str(error).splitlines()
        assert any(place in line for line in lines), f"{call} does not name its line: {error}"
        kept = [line for line in lines if place not in line]
        return "\n".join([f"{type(error).__name__}: {kept[0]}", *kept[1:]])
    except (TypeError, ValueError):
        return None
    return None


def table() -> Iterator[tuple[str, str]]:
    """A wrong call of each function, and its message."""
    handmade = {line.partition("(")[0]: line for line in HANDMADE.split("\n") if line}
    for name, function in sorted(public().items()):
        calls = [handmade[name]] if name in handmade else tried(name, function)
        said = next(((call, text) for call in calls if (text := message(call)) is not None), None)
        if said is not None:
            yield said
        elif name.removeprefix("fb.") not in ANYTHING.split():
            yield name, "not refused"


def test_wrong_calls(golden: Golden) -> None:
    found = list(table())
    assert [name for name, said in found if said == "not refused"] == []
    assert len(found) > 400
    golden("errors/wrong_calls.txt", "".join(f"{call}\n{said}\n\n" for call, said in found))


@pytest.mark.parametrize("line", ["fb.nothing"])
def test_names_that_are_not_there(line: str) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        getattr(fb, line.removeprefix("fb."))
