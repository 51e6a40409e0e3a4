"""Signatures: the text form, and the check of real arrays."""

import numpy as np
import pytest

from firebox import dims
from firebox.dims import dim
from firebox.dtypes import bf16, f32, i64
from firebox.errors import ArtifactError, InputError, UserError
from firebox.signature import UNBOUNDED, Signature, TensorSpec, parse_inputs

N = dim("n")


def zeros(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.zeros(shape, dtype)


# ---- text ------------------------------------------------------------------------------------------------------------


def test_the_form_with_a_range() -> None:
    signature = parse_inputs("x: f32[b, 1, 8, 8], 1<=b<=4096")
    assert signature.inputs == (TensorSpec("x", f32, (dim("b"), 1, 8, 8)),)
    assert signature.ranges == {"b": (1, 4096)}
    assert signature.dims == ("b",)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x:f32", ()),
        ("x: f32[]", ()),
        ("x : float32 [ 3 ]", (3,)),
        ("x: f32[2*n + 1, min(n, 4), n // 2]", (N * 2 + 1, dims.minimum(N, 4), N // 2)),
        ("layers.0.x: f32[0]", (0,)),
    ],
)
def test_shapes(text: str, shape: tuple[object, ...]) -> None:
    assert parse_inputs(text).inputs[0].shape == shape


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("2<=n", (2, UNBOUNDED)),
        ("n<=7", (0, 7)),
        ("n>=3", (3, UNBOUNDED)),
        ("1 <= n <= 4", (1, 4)),
        ("1<=n, n<=4", (1, 4)),
        ("1<=n<=9, 2<=n<=12", (2, 9)),
    ],
)
def test_ranges(text: str, bounds: tuple[int, int]) -> None:
    assert parse_inputs(f"x: f32[n], {text}").ranges == {"n": bounds}


def test_several_inputs_share_dims() -> None:
    one = parse_inputs("x: f32[b, n]; y: i64[b], 1<=b<=9")
    two = parse_inputs(["x: f32[b, n]", "y: i64[b], 1<=b<=9"])
    assert one == two
    assert one.dims == ("b", "n")
    assert str(one) == "(x: f32[b, n], y: i64[b]) -> (), 1 <= b <= 9"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[3]", "not an input description"),
        ("x: f32[3", "not an input description"),
        ("x: f32[3] y", "not an input description"),
        ("x: f33[3]", "input x: no such element type"),
        ("x: f32[3,]", "input x: malformed dim"),
        ("x: f32[a b]", "input x: malformed dim"),
        ("x: f32[-1]", "input x: a negative size"),
        ("x: f32[b], b", "not a range"),
        ("x: f32[b], 1<b", "not a range"),
        ("x: f32[b], 1<=b>=2", "not a range"),
        ("x: f32[b], 5<=b<=4", "b: no size is in this range"),
        ("x: f32[b], 1<=c", "c: the range of a dim that no input has"),
        ("x: f32; x: f32", "input x: given twice"),
    ],
)
def test_malformed_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_inputs(text)
    assert message in str(caught.value)


def test_specs_of_arrays() -> None:
    assert str(TensorSpec.of("x", zeros(2, 3))) == "x: f32[2, 3]"
    assert TensorSpec("x", bf16, (dim("b"), 3)).nbytes == dim("b") * 6


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_dictionaries_give_the_same_signature() -> None:
    inputs = parse_inputs("x: f32[b, 8], 1<=b<=9; s: i64")
    signature = Signature(inputs.inputs, (TensorSpec("y", f32, (dim("b") * 2,)),), inputs.ranges)
    assert Signature.from_dict(signature.to_dict()) == signature


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": {"c": [0, 1]}},
        {"ranges": {"b": [2, 1]}},
        {"ranges": {"b": [0]}},
        {"ranges": {"b": [0, 1.5]}},
        {"ranges": {"b": [-1, 1]}},
        {"ranges": []},
        {"outputs": [{"name": "y", "dtype": "f32", "shape": ["c"]}]},
        {"outputs": 3},
        {"more": 0},
    ],
)
def test_wrong_dictionaries_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ArtifactError):
        Signature.from_dict({**parse_inputs("x: f32[b], 1<=b<=9").to_dict(), **change})


# ---- values ----------------------------------------------------------------------------------------------------------


def test_bind_reads_off_the_dims() -> None:
    signature = parse_inputs("w: f32[3*n + 1, k]; x: f32[n, k // 2]")
    assert signature.bind([zeros(13, 6), zeros(4, 3)]) == {"k": 6, "n": 4}


def test_bind_solves_for_a_dim_that_stands_in_an_expression_only() -> None:
    assert parse_inputs("x: f32[8*n]").bind([zeros(24)]) == {"n": 3}
    assert parse_inputs("x: f32[8*n]; y: f32[n + m]").bind([zeros(24), zeros(5)]) == {"n": 3, "m": 2}


@pytest.mark.parametrize(
    ("text", "array", "message"),
    [
        (
            "x: f32[b, 1, 8, 8], 1<=b<=4096",
            zeros(5000, 1, 8, 8),
            "input x: dim 0 is b=5000, expected 1 <= b <= 4096; got f32[5000,1,8,8] for x: f32[b, 1, 8, 8]",
        ),
        ("x: f32[b], 2<=b", zeros(1), "input x: dim 0 is b=1, expected 2 <= b; got f32[1] for x: f32[b]"),
        ("x: f32[2, 64]", zeros(2, 63), "input x: dim 1 is 63, expected 64; got f32[2,63] for x: f32[2, 64]"),
        ("x: f32[2]", zeros(2, dtype="f8"), "input x: element type is f64, expected f32; got f64[2] for x: f32[2]"),
        ("x: f32[2]", zeros(2, dtype="c8"), "input x: element type is complex64, expected f32; got complex64[2]"),
        ("x: f32[2]", zeros(2, dtype=">f4"), "input x: element type is >f4, expected f32"),
        ("x: f32[2]", zeros(), "input x: rank is 0, expected 1; got f32[] for x: f32[2]"),
        ("x: f32[n, n]", zeros(2, 3), "input x: dim 1 is n=3, but dim 0 of input x is n=2; got f32[2,3]"),
        ("x: f32[n, 2*n]", zeros(2, 3), "input x: dim 1 is 3, expected 2*n = 4 for n=2"),
        ("x: f32[8*n]", zeros(25), "input x: dim 0 is 25, which 8*n cannot be; got f32[25] for x: f32[8*n]"),
        ("x: f32[n + 4]", zeros(3), "input x: dim 0 is 3, which n + 4 cannot be"),
        ("x: f32[8*n], 1<=n<=4", zeros(40), "input x: dim 0 is n=5, expected 1 <= n <= 4"),
        ("x: f32[n + m]", zeros(3), "input x: dim 0 is 3, and n + m does not say what"),
    ],
)
def test_a_misfit_is_named(text: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_inputs(text).bind([array])
    assert message.replace("n + m", "m + n") in str(caught.value).replace("n + m", "m + n")


def test_two_inputs_must_agree() -> None:
    with pytest.raises(InputError, match=r"input y: dim 0 is b=3, but dim 1 of input x is b=2"):
        parse_inputs("x: f32[4, b]; y: i64[b]").bind([zeros(4, 2), zeros(3, dtype="i8")])


def test_order_follows_the_signature() -> None:
    signature = parse_inputs("x: f32; y: f32")
    assert signature.order({"y": 2, "x": 1}) == [1, 2]
    with pytest.raises(InputError, match=r"input z: no such input; the program takes x: f32\[\]; y: f32\[\]"):
        signature.order({"z": 1, "y": 1, "x": 1})
    with pytest.raises(InputError, match="input y: missing"):
        signature.order({"x": 1})


def test_the_number_of_inputs_is_checked() -> None:
    with pytest.raises(InputError, match="wrong number of inputs"):
        parse_inputs("x: i64").bind([])


def test_i64_is_the_type_of_python_integers() -> None:
    assert parse_inputs("x: i64").bind([np.asarray(3)]) == {}
    assert parse_inputs("x: int64").inputs[0].dtype is i64
