"""Shapes, element types and kinds that do not fit: op, expected, found, the user's line, the way out."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, FireboxError, ShapeError, UserError
from tests.bad_input.says import Call, says

X = fb.tensor(np.ones((2, 3), np.float32))
Y = fb.tensor(np.ones(4, np.float32))
I = fb.tensor([1, 2])  # noqa: E741
B = fb.tensor([True, False])
IMAGE = fb.tensor(np.ones((1, 3, 8, 8), np.float32))
CAST = "hint:     cast with astype"
FLOATS = "expected: one of f16, bf16, f32, f64"
INTS = "i8, i16, i32, i64, u8, u16, u32, u64"

BROADCAST = "expected: sizes that are equal or 1, from the last dim on"
INSERT = "hint:     insert a dim with expand_dims, or reshape"
DIFFER = "found:    (2, 3) and (4), differing at dim -1"

SHAPES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "add": (lambda: X + Y, ("add: shapes do not broadcast", BROADCAST, DIFFER, INSERT)),
    "compare": (lambda: X < Y, ("lt: shapes do not broadcast", BROADCAST, DIFFER, INSERT)),
    "maximum": (lambda: fb.maximum(X, Y), ("max: shapes do not broadcast", BROADCAST, DIFFER, INSERT)),
    "where": (
        lambda: fb.where(X > 0, X, Y),
        (
            "select: shapes do not broadcast",
            BROADCAST,
            "found:    (2, 3) and (2, 3) and (4), differing at dim -1",
            INSERT,
        ),
    ),
    "matmul": (
        lambda: X @ Y,
        (
            "matmul: the inner dims differ",
            "expected: 3 rows in the second operand, as many as columns in the first",
            "found:    (2, 3) @ (4): 3 and 4",
        ),
    ),
    "matmul of equal matrices": (
        lambda: X @ X,
        (
            "matmul: the inner dims differ",
            "expected: 3 rows in the second operand, as many as columns in the first",
            "found:    (2, 3) @ (2, 3): 3 and 2",
            "hint:     transpose the second operand: a @ b.T",
        ),
    ),
    "matmul by a number": (
        lambda: X @ fb.tensor(2.0),
        ("matmul: needs at least 1-D operands", "found:    (2, 3) @ ()", "hint:     use * to scale"),
    ),
    "concat": (
        lambda: fb.concat([X, fb.ones(2, 4)], 0),
        ("concat: array 1 does not fit", "expected: (*, 3)", "found:    (2, 4)"),
    ),
    "concat of another rank": (
        lambda: fb.concat([X, Y], 1),
        ("concat: array 1 does not fit", "expected: (2, *)", "found:    (4)"),
    ),
    "concat of nothing": (lambda: fb.concat([], 0), ("concat: needs at least one array",)),
    "stack": (
        lambda: fb.stack([X, Y]),
        ("stack: array 1 does not fit", "expected: (2, 3)", "found:    (4,)"),
    ),
    "conv2d channels": (
        lambda: fb.conv2d(IMAGE, fb.ones(4, 2, 3, 3)),
        (
            "conv2d: the channels do not fit",
            "expected: 2 channels (axis 1): 2 a group, 1 groups",
            "found:    (1, 3, 8, 8)",
        ),
    ),
    "conv2d kernel": (
        lambda: fb.conv2d(IMAGE, fb.ones(4, 3, 9, 9)),
        (
            "conv2d: the kernel is larger than the padded input",
            "found:    input (1, 3, 8, 8), weight (4, 3, 9, 9): an output of (0, 0)",
        ),
    ),
    "conv2d rank": (
        lambda: fb.conv2d(X, fb.ones(4, 3, 3, 3)),
        ("conv2d: wrong number of dims", "expected: rank 4: (N, C, H, W)", "found:    (2, 3)"),
    ),
    "max_pool2d": (
        lambda: fb.max_pool2d(IMAGE, 9),
        (
            "max_pool2d: the window is larger than the padded input",
            "expected: at least 9 elements in a dim",
            "found:    (1, 3, 8, 8)",
        ),
    ),
    "reshape": (
        lambda: X.reshape(4, 2),
        ("reshape: the number of elements must stay", "expected: 6 elements of (2, 3)", "found:    (4, 2)"),
    ),
    "reshape with -1": (
        lambda: X.reshape(-1, 4),
        ("reshape: the size is not divisible", "expected: 6 elements", "found:    (-1, 4)"),
    ),
    "reshape to negative sizes": (
        lambda: X.reshape(-2, -3),
        ("reshape: a size is negative", "expected: sizes of 0 or more, or one -1", "found:    (-2, -3)"),
    ),
    "reshape to no integers": (
        lambda: X.reshape(2.0, 3),
        ("reshape: not a shape", "expected: integers", "found:    (2.0, 3)"),
    ),
    "broadcast_to": (
        lambda: X.broadcast_to((2, 4)),
        ("broadcast_to: cannot broadcast", "expected: a shape that (2, 3) broadcasts to", "found:    (2, 4)"),
    ),
    "squeeze": (
        lambda: X.squeeze(0),
        ("squeeze: only dims of size 1 can be squeezed", "found:    size 2 at axis 0"),
    ),
    "zeros": (lambda: fb.zeros(2, -1), ("zeros: not a shape", "expected: sizes of 0 or more", "found:    (2, -1)")),
    "item": (lambda: X.item(), ("item: needs exactly one element", "expected: size 1", "found:    f32[2, 3]")),
    "nested lists": (
        lambda: fb.tensor([[1, 2], [3]]),
        (
            "tensor: nested lists of different lengths",
            "found:    setting an array element with a sequence. The requested array has an inhomogeneous shape after 1"
            " dimensions. The detected shape was (2,) + inhomogeneous part.",
        ),
    ),
    "cross_entropy": (
        lambda: fb.cross_entropy(X, fb.tensor([0, 1, 2])),
        (
            "cross_entropy: targets do not fit the scores",
            "expected: (2): the scores without the class axis 1",
            "found:    (3) for scores (2, 3)",
        ),
    ),
    "mse_loss": (
        lambda: fb.mse_loss(X, Y),
        (
            "mse_loss: input and target differ in shape",
            "expected: (2, 3)",
            "found:    (4)",
            "hint:     reshape or broadcast_to one of them",
        ),
    ),
    "linear": (
        lambda: fb.nn.Linear(4, 2)(X),
        (
            "linear: the last dim of the input is not that of the weight",
            "expected: (.., 4) for a weight (out, in) = (2, 4)",
            "found:    (2, 3)",
        ),
    ),
    "batch norm": (
        lambda: fb.nn.BatchNorm2d(4)(IMAGE),
        ("BatchNorm2d: the channels do not fit", "expected: 4 channels (axis 1)", "found:    (1, 3, 8, 8)"),
    ),
    "backward": (
        lambda: fb.tensor([1.0, 2.0], requires_grad=True).backward(),
        (
            "backward: backward starts from one number",
            "expected: a loss",
            "found:    f32[2]",
            "hint:     reduce it first (loss.mean()), or pass gradient=",
        ),
    ),
}

TYPES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "exp of integers": (lambda: I.exp(), ("exp: element type not accepted", FLOATS, "found:    i64", CAST)),
    "fb.sqrt of bools": (lambda: fb.sqrt(B), ("sqrt: element type not accepted", FLOATS, "found:    bool", CAST)),
    "bool - bool": (
        lambda: B - B,
        ("sub: element type not accepted", f"expected: one of {INTS}, f16, bf16, f32, f64", "found:    bool", CAST),
    ),
    "-bool": (
        lambda: -B,
        ("neg: element type not accepted", f"expected: one of {INTS}, f16, bf16, f32, f64", "found:    bool", CAST),
    ),
    "float & float": (
        lambda: X & X,
        ("bitwise_and: element type not accepted", f"expected: one of bool, {INTS}", "found:    f32", CAST),
    ),
    "~float": (
        lambda: ~X,
        ("bitwise_not: element type not accepted", f"expected: one of {INTS}", "found:    f32", CAST),
    ),
    "float << 1": (
        lambda: X << 1,
        ("shift_left: element type not accepted", f"expected: one of {INTS}", "found:    f32", CAST),
    ),
    "a float as an index": (
        lambda: X[1.0],
        (
            "index: not an index",
            "expected: integers, slices, None, ... or integer arrays",
            "found:    1.0",
        ),
    ),
    "floats as an index": (
        lambda: X[fb.ones(1)],
        ("index: indices must be integers", "expected: an int type", "found:    f32", CAST),
    ),
    "NumPy floats as an index": (
        lambda: X[np.array([0.5])],
        ("index: indices must be integers", "expected: an int type", "found:    float64", CAST),
    ),
    "a 0-d bool beside another index": (
        lambda: X[fb.tensor(True), 0],
        (
            "index: a 0-d bool is no index",
            "expected: a mask of 1 dim or more",
            "found:    True",
            "hint:     use fb.where, or the 0-d mask alone",
        ),
    ),
    "rows by floats": (
        lambda: X.take(X),
        ("gather: element type not accepted", f"expected: one of {INTS}", "found:    f32", CAST),
    ),
    "classes as floats": (
        lambda: fb.cross_entropy(X, fb.ones(2)),
        (
            "cross_entropy: the targets (class indices) must be integers",
            "expected: an int type",
            "found:    f32",
            "hint:     for probabilities as targets use soft_cross_entropy",
        ),
    ),
    "gradients by integers": (
        lambda: fb.grad(lambda v: v.sum())(I),
        (
            "grad: derivatives are by floats only",
            "expected: float tensors",
            "found:    i64[2]",
            "hint:     cast it, or choose other argnums",
        ),
    ),
    "an unknown type": (
        lambda: X.astype("f128"),
        (
            "astype: no such element type",
            f"expected: one of bool, {INTS}, f16, bf16, f32, f64",
            "found:    f128",
        ),
    ),
    "bitcast": (
        lambda: X.bitcast("f64"),
        ("bitcast: the sizes must be equal", "expected: an element type of 4 bytes, not bool", "found:    f64"),
    ),
    "a list": (
        lambda: X * [1.0],
        ("mul: not an operand", "expected: a tensor, a number or a NumPy array", "found:    list"),
    ),
    "None": (
        lambda: None + X,
        ("add: not an operand", "expected: a tensor, a number or a NumPy array", "found:    NoneType"),
    ),
    "a text": (
        lambda: fb.softmax("a"),  # type: ignore[type-var]
        ("softmax: not an array", "expected: a tensor or an array", "found:    'a'"),
    ),
    "None among arrays": (
        lambda: fb.concat([X, None]),  # type: ignore[type-var]
        ("concat: not an array", "expected: a tensor or an array", "found:    None"),
    ),
    "where with None": (
        lambda: fb.where(B, None, 2),
        ("where: not a number of type i64", "expected: a bool, int or float", "found:    NoneType: None"),
    ),
    "a number beyond the type": (
        lambda: fb.ones(2, dtype="u8") + 300,
        ("add: the number is not in the range of u8", "expected: 0 to 255", "found:    300"),
    ),
    "a number beyond all types": (
        lambda: X + 10**400,
        (
            "add: not a number of type f32",
            "expected: a bool, int or float",
            "found:    int: 1" + "0" * 39,
        ),
    ),
    "objects": (
        lambda: fb.tensor({"a": 1}),
        (
            "tensor: no data of a tensor",
            "expected: bools, integers of at most 64 bits, floats, nested lists or arrays of these",
            "found:    dict of object",
        ),
    ),
    "complex numbers": (
        lambda: fb.tensor(np.ones(2, np.complex64)),
        (
            "tensor: no such element type",
            f"expected: one of bool, {INTS}, f16, bf16, f32, f64",
            "found:    complex64",
        ),
    ),
    "not a NumPy array": (
        lambda: fb.from_numpy([1, 2]),  # type: ignore[arg-type]
        ("from_numpy: not a NumPy array", "expected: an ndarray", "found:    list", "hint:     use fb.tensor"),
    ),
    "jit of no function": (
        lambda: fb.jit(3),  # type: ignore[call-overload]
        ("jit: not a function", "expected: something to call", "found:    3"),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    call, lines = SHAPES[name]
    says(call, ShapeError, *lines)


@pytest.mark.parametrize("name", TYPES)
def test_types_and_kinds(name: str) -> None:
    call, lines = TYPES[name]
    says(call, DTypeError, *lines)


def test_classes_that_callers_may_expect() -> None:
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DTypeError, TypeError)
    assert issubclass(ShapeError, UserError) and issubclass(UserError, FireboxError)


def test_functions_take_what_makes_a_tensor() -> None:
    """A number, list or NumPy array where a tensor is expected is one, though the types ask for tensors."""
    public: Any = fb
    one, half = np.zeros(1, np.float32), X[0, :2]
    np.testing.assert_array_equal(public.relu([-1.0, 2.0]).numpy(), [0, 2])
    np.testing.assert_array_equal(public.concat([one, X[0]]).numpy(), [0, 1, 1, 1])
    np.testing.assert_array_equal(public.matmul(np.eye(2), [[1.0], [2.0]]).numpy(), [[1], [2]])
    np.testing.assert_array_equal(public.where([True, False], half, 5.0).numpy(), [1, 5])
    np.testing.assert_array_equal(public.einsum("i,i->", [1.0, 2.0], [3.0, 4.0]).numpy(), 11)


def test_a_failed_op_leaves_no_trace() -> None:
    x = X * 2
    with pytest.raises(ShapeError):
        x + Y
    np.testing.assert_array_equal(x.numpy(), np.full((2, 3), 2.0))
