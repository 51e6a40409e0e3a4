"""Errors: how a message is laid out, and what else each class is."""

import pytest

from firebox import errors
from firebox.errors import FireboxError, InputError, ShapeError


def test_a_message_has_all_its_parts() -> None:
    error = ShapeError("axes differ", op="matmul", expected="3", found="4", hint="transpose(w)").at("model.py:31")
    assert str(error).splitlines() == [
        "matmul: axes differ",
        "  expected: 3",
        "  found:    4",
        "  at:       model.py:31",
        "  hint:     transpose(w)",
    ]


def test_parts_that_are_not_there_are_left_out() -> None:
    assert str(FireboxError("broken")) == "broken"
    assert str(FireboxError("broken", found=0)) == "broken\n  found:    0"


def test_the_first_location_stays() -> None:
    assert FireboxError("x").at("a.py:1").at("b.py:2").location == "a.py:1"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("ShapeError", ValueError),
        ("DTypeError", TypeError),
        ("IndexRangeError", IndexError),
        ("InputError", ValueError),
        ("InputError", errors.UserError),
        ("ArtifactError", FireboxError),
        ("CompilerError", FireboxError),
        ("DeviceError", FireboxError),
    ],
)
def test_callers_may_catch_the_usual_classes(name: str, base: type[Exception]) -> None:
    with pytest.raises(base):
        raise getattr(errors, name)("x")


def test_faults_of_the_user_are_not_the_compilers() -> None:
    assert not issubclass(InputError, errors.CompilerError)
    assert not issubclass(errors.CompilerError, errors.UserError)
