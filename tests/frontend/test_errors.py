"""What users do wrong: every message names the op, what was expected and found, the user's line and the way out."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, FireboxError, IndexRangeError, ShapeError, TraceError

pytestmark = pytest.mark.usefixtures("frontend")


def check(action: Callable[[], Any], error: type[FireboxError], *parts: str) -> None:
    """The action, one line of this file, raises the error with a message of these parts and the line."""
    with pytest.raises(error) as caught:
        action()
    text = str(caught.value)
    for part in parts:
        assert part in text
    line = action.__code__.co_firstlineno
    assert re.search(rf"at: +{re.escape(__file__)}:{line}\b", text), text


def test_shape_mismatch() -> None:
    x, y = fb.ones(2, 3), fb.ones(4)
    check(lambda: x + y, ShapeError, "add", "(2, 3)", "(4)")
    check(lambda: x @ y, ShapeError, "matmul", "expected", "found")
    check(lambda: fb.concat([x, fb.ones(2, 4)], 0), ShapeError, "concat: array 1 does not fit", "(*, 3)", "(2, 4)")
    check(lambda: x.reshape(4, 2), ShapeError, "reshape", "6 elements", "(4, 2)")
    check(lambda: x.reshape(-1, 4), ShapeError, "reshape", "divisible")
    check(lambda: x.broadcast_to((2, 4)), ShapeError, "broadcast_to", "(2, 3)", "(2, 4)")
    check(lambda: fb.where(x > 0, x, y), ShapeError, "select")
    check(lambda: x.squeeze(0), ShapeError, "size 1", "size 2 at axis 0")


def test_dtype_mismatch() -> None:
    x, i = fb.ones(2), fb.tensor([1, 2])
    check(lambda: x & x, DTypeError, "bitwise_and", "f32", "astype")
    check(lambda: fb.cross_entropy(fb.ones(2, 3), x), DTypeError, "targets", "integers", "f32")
    check(lambda: x.take(x), DTypeError, "gather", "f32")
    check(lambda: i.bitcast("f32"), DTypeError, "bitcast", "8 bytes", "f32")
    check(lambda: x.astype("f128"), DTypeError, "no such element type", "f128", "bf16")
    check(lambda: x * [1.0], DTypeError, "not an operand", "list")
    check(lambda: x + None, DTypeError, "not an operand", "NoneType")


def test_functions_of_real_numbers_refuse_integers_and_bools() -> None:
    """As in the array API: no element type is chosen for the user. Division and mean are defined for integers."""
    i = fb.tensor([1, 2])
    for function in (fb.exp, fb.log, fb.sqrt, fb.sin, fb.tanh, fb.sigmoid):
        with pytest.raises(fb.DTypeError, match="element type not accepted") as error:
            function(i)
        assert "found:    i64" in str(error.value) and "cast with astype" in str(error.value)
    np.testing.assert_allclose((i / 2).numpy(), [0.5, 1])
    np.testing.assert_allclose(i.mean().numpy(), 1.5)
    with pytest.raises(fb.DTypeError, match="element type not accepted"):
        fb.tensor([True, False]).exp()


def test_axes_and_indices_out_of_range() -> None:
    x = fb.ones(2, 3)
    check(lambda: x.sum(2), IndexRangeError, "axis out of range", "-2 <= axis < 2", "2")
    check(lambda: x.softmax(-3), IndexRangeError, "axis out of range")
    check(lambda: x.transpose(0, 5), IndexRangeError, "axis out of range", "5")
    check(lambda: x.sum((0, 0)), ShapeError, "named twice")
    check(lambda: x[5], IndexRangeError, "index", "-2 to 1 at axis 0", "5")
    check(lambda: x[0, 0, 0], IndexRangeError, "too many indices", "at most 2")
    check(lambda: x.cumsum(7), IndexRangeError, "axis out of range")
    assert issubclass(IndexRangeError, IndexError)
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DTypeError, TypeError)


def test_a_float_index() -> None:
    x = fb.ones(3)
    check(lambda: x[fb.ones(1)], DTypeError, "indices must be integers", "f32", "hint:     cast with astype")


def test_a_fault_at_run_time_names_the_line_of_the_op() -> None:
    x, i = fb.ones(3), fb.tensor([4])
    y = x.take(i)
    line = test_a_fault_at_run_time_names_the_line_of_the_op.__code__.co_firstlineno + 2
    with pytest.raises(IndexRangeError, match="out of range") as caught:
        y.numpy()
    assert f"{__file__}:{line}" in str(caught.value)


def test_python_control_flow_on_a_traced_value() -> None:
    def relu(x: fb.Tensor) -> fb.Tensor:
        return x if x.sum() > 0 else x * 0

    with pytest.raises(TraceError) as caught:
        fb.jit(relu)(fb.ones(2))
    text = str(caught.value)
    assert "cannot branch" in text
    assert "found:    a traced bool[]" in text
    assert f"{__file__}:{relu.__code__.co_firstlineno + 1}" in text
    assert "fb.where(condition, a, b)" in text


def test_an_error_in_a_layer_names_the_line_that_calls_it() -> None:
    layer = fb.nn.Linear(3, 2)
    x = fb.ones(2, 4)
    check(lambda: layer(x), ShapeError, "3", "4")


def test_outside_of_the_frontend_no_line_is_added() -> None:
    assert "at:" not in str(ShapeError("no", op="x"))


def test_devices_that_do_not_exist() -> None:
    check(lambda: fb.ones(2, device="tpu"), fb.DeviceError, "no such device", "tpu")


def test_attributes_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(fb, "nothing")  # noqa: B009


def test_every_public_name_is_there_and_has_a_type() -> None:
    missing = [name for name in fb.__all__ if not hasattr(fb, name)]
    assert missing == []
    assert set(fb.__all__) <= set(dir(fb))
    stub = Path(fb.__file__).with_suffix(".pyi").read_text()
    typed = re.findall(r"(?:import|   ) \w+ as (\w+),?$|^(\w+)(?=:| = )", stub, re.MULTILINE)
    assert sorted(set(fb.__all__)) == sorted({a or b for a, b in typed} - {"frontend", "__all__"})
