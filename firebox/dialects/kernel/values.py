"""What the kernel builder hands out: typed values and references to memory."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.ir import Attribute, SSAValue

from firebox.dialects.xdsl_compat import I1, INDEX_TYPE, scalar_type, vector_type
from firebox.dtypes import DType, Kind, bool_

INDEX = DType("index", "index", Kind.INT, 8, np.dtype(np.int64))
"""The type of loop counters, extents and element offsets: a signed 64-bit integer that never overflows."""


@dataclass(slots=True, eq=False)
class Val:
    """A scalar (one lane) or vector value inside a kernel.

    Attributes:
        ssa: the value in the IR.
        dtype: how its bits are read: signedness and bool live here, not in the IR type. bf16 and f16 only occur on
            values loaded with ``raw=True``; all others are f32 by then.
        lanes: elements; 1 is a scalar.
        level: depth of the scope (loop or branch) in which it is defined; 0 is the function.
        const: its Python value where that is known.
        nonneg: an integer known not to be negative.
    """

    ssa: "SSAValue[Attribute]"
    dtype: DType
    lanes: int
    level: int
    const: bool | int | float | None = None
    nonneg: bool = False


@dataclass(slots=True, eq=False)
class Ref:
    """Flat memory inside a kernel: a buffer argument, a stack array or a view.

    Attributes:
        ssa: the memref in the IR.
        dtype: the storage type of its elements.
        level: depth of the scope in which it is defined.
    """

    ssa: "SSAValue[Attribute]"
    dtype: DType
    level: int


Operand: TypeAlias = Val | bool | int | float
"""Whatever an op of the builder takes as a value; Python numbers take the type of the other operand."""

_TYPES: dict[tuple[DType, int], Attribute] = {}


def value_type(dtype: DType, lanes: int) -> Attribute:
    """The MLIR type of a register value: bool is i1, INDEX is index."""
    found = _TYPES.get((dtype, lanes))
    if found is None:
        found = _TYPES[dtype, lanes] = vector_type(_element_type(dtype), lanes)
    return found


def _element_type(dtype: DType) -> Attribute:
    if dtype is bool_:
        return I1
    return INDEX_TYPE if dtype is INDEX else scalar_type(dtype)
