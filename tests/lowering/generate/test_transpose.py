"""Transposition of squares of vectors, with NumPy in place of the kernel builder."""

from typing import Any

import numpy as np
import pytest

from firebox.dtypes import DType, as_dtype
from firebox.lowering.generate.transpose import transpose
from firebox.runtime.target import Target


class Vector:
    def __init__(self, values: Any, dtype: DType) -> None:
        self.values = np.asarray(values)
        self.dtype = dtype
        self.lanes = len(self.values)


class Builder:
    def shuffle(self, x: Vector, y: Vector, lanes: list[int]) -> Vector:
        return Vector(np.concatenate([x.values, y.values])[list(lanes)], x.dtype)

    def asm(self, text: str, constraints: str, operands: list[Vector], dtype: DType, lanes: int) -> Vector:
        assert text == "" and lanes == operands[0].lanes and dtype is operands[0].dtype
        return operands[0]


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["i8", "i16", "f32", "f64"])
@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64", "aarch64"])
def test_squares(dtype: str, lanes: int, target: str) -> None:
    square = np.arange(lanes * lanes).reshape(lanes, lanes)
    builder: Any = Builder()
    rows: Any = [Vector(row, as_dtype(dtype)) for row in square]
    columns: Any = transpose(builder, rows, Target.parse(target))
    np.testing.assert_array_equal([column.values for column in columns], square.T)
