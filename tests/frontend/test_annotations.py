"""jaxtyping's annotations on tensors, where it is installed: types, dims, traces."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import dtypes

jaxtyping: Any = pytest.importorskip("jaxtyping")
beartype: Any = pytest.importorskip("beartype")

from jaxtyping import Float

pytestmark = pytest.mark.usefixtures("frontend")

EXACT = {
    "bool": "Bool",
    "i8": "Int8",
    "i16": "Int16",
    "i32": "Int32",
    "i64": "Int64",
    "u8": "UInt8",
    "u16": "UInt16",
    "u32": "UInt32",
    "u64": "UInt64",
    "f16": "Float16",
    "bf16": "BFloat16",
    "f32": "Float32",
    "f64": "Float64",
}


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
def test_each_element_type_is_known(dtype: str) -> None:
    x = fb.ones(2, 3, dtype=dtype)
    kinds = {"Float": x.kind == "float", "Bool": x.kind == "bool", "Shaped": True, "Num": x.kind != "bool"}
    kinds |= {"Int": dtype[0] == "i", "UInt": dtype[0] == "u"}
    for name, expected in {**kinds, **{other: known == dtype for known, other in EXACT.items()}}.items():
        assert isinstance(x, getattr(jaxtyping, name)[fb.Tensor, "a b"]) is expected


def test_shapes_and_ranks() -> None:
    f32 = jaxtyping.Float32
    cases: list[tuple[tuple[int, ...], str, bool]] = [
        ((2, 3), "2 3", True),
        ((2, 3), "2 4", False),
        ((2, 3), "a", False),
        ((2, 2), "n n", True),
        ((2, 3), "n n", False),
        ((2, 3, 4), "... 4", True),
        ((2, 4), "n 2*n", True),
        ((), "", True),
    ]
    for shape, text, expected in cases:
        assert isinstance(fb.ones(shape), f32[fb.Tensor, text]) is expected
    assert isinstance(fb.Param([1.0]), f32[fb.Tensor, "1"])
    assert not isinstance(np.ones(1, np.float32), f32[fb.Tensor, "1"])


def checked(function: Any) -> Any:
    return jaxtyping.jaxtyped(typechecker=beartype.beartype)(function)


def test_a_function_is_held_to_its_annotations() -> None:
    @checked
    def pair(x: Float[fb.Tensor, "batch 4"], y: Float[fb.Tensor, "batch"]) -> Float[fb.Tensor, ""]:
        return (x.sum(1) * y).sum()

    assert pair(fb.ones(3, 4), fb.ones(3)).item() == 12.0
    for wrong in ((fb.ones(3, 5), fb.ones(3)), (fb.ones(3, 4), fb.ones(2)), (fb.ones(3, 4, dtype="i32"), fb.ones(3))):
        with pytest.raises(jaxtyping.TypeCheckError):
            pair(*wrong)


def test_the_check_is_made_while_tracing_and_in_derivatives() -> None:
    calls: list[object] = []

    @checked
    def loss(x: Float[fb.Tensor, "b n"], w: Float[fb.Tensor, "n"]) -> Float[fb.Tensor, ""]:
        calls.append(x.shape)
        return ((x @ w) ** 2).mean()

    @checked
    def wrong(x: Float[fb.Tensor, "b n"]) -> Float[fb.Tensor, "b"]:
        return x.sum(0)

    jitted = fb.jit(loss, dims={"x": ("b", None)})
    for size in (3, 5, 3):
        assert jitted(fb.ones(size, 2), fb.ones(2)).item() == 4.0
    assert len(calls) == 1
    assert fb.grad(loss, 1)(fb.ones(3, 2), fb.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(jaxtyping.TypeCheckError):
        fb.jit(wrong, dims={"x": ("b", None)})(fb.ones(3, 2))


def test_inside_of_vmap_a_slice_is_checked() -> None:
    @checked
    def row(x: Float[fb.Tensor, "n"]) -> Float[fb.Tensor, ""]:
        return x.sum()

    assert fb.vmap(row)(fb.ones(3, 2)).tolist() == [2.0, 2.0, 2.0]
