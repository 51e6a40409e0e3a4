"""What docs/interchange.md shows."""

import copy
import pickle

import numpy as np
import pytest

import firebox as fb
from firebox.errors import UserError


def test_memory_is_shared() -> None:
    x = fb.tensor([[1.0, 2.0], [3.0, 4.0]])
    array = np.asarray(x)  # no copy; array keeps the memory alive
    assert not array.flags.writeable
    array = np.array(x)  # a copy of your own

    y = fb.from_dlpack(array)  # no copy either: array must not be written any more
    z = fb.tensor(array)  # a copy
    assert y.numpy().ctypes.data == array.ctypes.data != z.numpy().ctypes.data


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = fb.tensor([1.0, 2.0], dtype=fb.bfloat16)
    there = torch.from_dlpack(x)  # no copy, bf16 too
    back = fb.from_dlpack(there * 2)
    assert back.tolist() == [2.0, 4.0]


def test_text() -> None:
    x = fb.tensor([[1.0, 2.5]])
    assert repr(x) == "tensor([[1. , 2.5]], f32)"
    seen: list[str] = []

    @fb.jit
    def double(x: fb.Tensor) -> fb.Tensor:
        seen.append(repr(x))
        return x * 2.0

    double(x)
    assert seen == ["Tensor(f32[1, 2], traced)"]


def test_copies_and_pickles() -> None:
    x = fb.tensor([1.0, 2.0])
    assert copy.deepcopy(x) is x
    with pytest.raises(UserError, match="tensors are not pickled"):
        pickle.dumps(x)
    assert pickle.loads(pickle.dumps(x.numpy())).tolist() == [1.0, 2.0]


def test_shapes_in_annotations() -> None:
    pytest.importorskip("jaxtyping"), pytest.importorskip("beartype")
    from beartype import beartype
    from jaxtyping import Float, TypeCheckError, jaxtyped

    @jaxtyped(typechecker=beartype)
    def layer(
        x: Float[fb.Tensor, "batch width"], weight: Float[fb.Tensor, "width out"]
    ) -> Float[fb.Tensor, "batch out"]:
        return x @ weight

    assert layer(fb.ones(3, 4), fb.ones(4, 2)).shape == (3, 2)
    with pytest.raises(TypeCheckError, match="width=4"):
        layer(fb.ones(3, 4), fb.ones(5, 2))
    varying = fb.jit(layer, dims={"x": ("b", None)})  # checked once, while tracing, with b as a symbol
    assert varying(fb.ones(3, 4), fb.ones(4, 2)).shape == (3, 2)
    assert varying(fb.ones(5, 4), fb.ones(4, 2)).shape == (5, 2)
