"""Ops over symbolic dims: types stay symbolic, and formulas hold for every value of the dims."""

from typing import Any

import numpy as np
import pytest

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, lookup
from firebox.dialects.nd.numpy_scalar import evaluate_formula
from firebox.dialects.nd.ops.contract_spec import conv_spec, infer_sizes, parse_spec
from firebox.dialects.nd.ops.movement import reshape_index
from firebox.dialects.nd.params import DIMS, Literal
from firebox.dims import dim

B, N = dim("b"), dim("n")
F32 = dtypes.f32
ZERO = Literal.of(np.zeros((), np.float32))
WINDOW: dict[str, Any] = {"axes": (1,), "sizes": (2,), "strides": (2,), "dilations": (1,), "low": (1,), "high": (0,)}
CONV = conv_spec((2,), (1,), (1,))
CONV_SIZES = infer_sizes(parse_spec(CONV), (B, 2, N), (3, 2, 3), {"y0": (N - 1) // 2 + 1})

CASES: list[tuple[str, list[Shape], dict[str, Any], Shape]] = [
    ("exp", [(B, N)], {}, (B, N)),
    ("add", [(B, 1, N), (4, 1)], {}, (B, 4, N)),
    ("mul", [(2 * B, 3), (B + B, 1)], {}, (2 * B, 3)),
    ("reduce_sum", [(B, N, 3)], {"axes": (1,), "keepdims": False}, (B, 3)),
    ("argmax", [(B, N)], {"axes": (1,), "keepdims": True}, (B, 1)),
    ("cumsum", [(B, N)], {"axis": 1, "reverse": True}, (B, N)),
    ("reshape", [(B, N, 4)], {"shape": (B, 4 * N)}, (B, 4 * N)),
    ("reshape", [(B, 4 * N)], {"shape": (B * N, 4)}, (B * N, 4)),
    ("transpose", [(B, 2, N)], {"permutation": (2, 0, 1)}, (N, B, 2)),
    ("broadcast_to", [(N,)], {"shape": (B, N)}, (B, N)),
    ("slice", [(N + 2,)], {"start": (1,), "stop": (N,), "step": (2,)}, (N // 2,)),
    ("pad", [(B, N)], {"low": (0, B), "high": (1, 0), "value": ZERO}, (B + 1, B + N)),
    ("flip", [(B, N)], {"axes": (0,)}, (B, N)),
    ("concat", [(B, 2), (N, 2), (B, 2)], {"axis": 0}, (2 * B + N, 2)),
    ("window", [(B, N)], {**WINDOW, "value": ZERO}, (B, (N - 1) // 2 + 1, 2)),
    ("fold_window", [(B, (N - 1) // 2 + 1, 2)], {**WINDOW, "shape": (B, N)}, (B, N)),
    ("view", [(B * N + 3,)], {"offset": (3,), "shape": (B, N)}, (B, N)),
    ("iota", [], {"shape": (B, N), "axis": 1, "dtype": F32}, (B, N)),
    ("dim_size", [], {"size": (B * N + 1,), "dtype": F32}, ()),
    ("contract", [(B, N), (N, 3)], {"spec": "m k, k n -> m n", "sizes": (B, N, 3)}, (B, 3)),
    ("contract", [(B, 2, N), (3, 2, 3)], {"spec": CONV, "sizes": CONV_SIZES}, (B, 3, (N - 1) // 2 + 1)),
    ("softmax", [(B, N)], {"axis": 1}, (B, N)),
    ("sort", [(B, N)], {"axis": 1, "descending": True}, (B, N)),
]


def concrete(params: dict[str, Any], op: Any, values: dict[str, int]) -> dict[str, Any]:
    return {k: tuple(dims.evaluate(d, values) for d in v) if op.params[k] is DIMS else v for k, v in params.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c[0]))
def test_types_and_formulas(case: tuple[str, list[Shape], dict[str, Any], Shape]) -> None:
    name, shapes, params, expected = case
    op = lookup(f"nd.{name}")
    avals = [Aval(F32, s) for s in shapes]
    results = op.result_avals(avals, params)
    assert results[0].shape == expected
    for values in ({"b": 2, "n": 5}, {"b": 1, "n": 8}, {"b": 3, "n": 2}):
        arrays = [_array(s, values) for s in shapes]
        evaluated = op.evaluate_all(arrays, concrete(params, op, values))
        assert evaluated[0].shape == tuple(dims.evaluate(d, values) for d in expected)
        if op.kind not in (Kind.OPAQUE, Kind.COMPOSITE):
            found = evaluate_formula(op.formula(avals, results, **params), arrays, results, values)
            np.testing.assert_allclose(found[0], evaluated[0], rtol=2e-6)


def _array(shape: Shape, values: dict[str, int]) -> Array:
    sizes = [dims.evaluate(d, values) for d in shape]
    rng = np.random.default_rng(11)
    return np.asarray(rng.integers(-5, 6, sizes)).astype(np.float32)


def test_reshapes_divide_only_where_dims_merge_or_split() -> None:
    i0, i1, i2 = dim("i0"), dim("i1"), dim("i2")
    assert reshape_index((B, 4, 6), (B, 24)) == (i0, i1 // 6, i1 % 6)
    assert reshape_index((B, 24), (B, 4, 6)) == (i0, i1 * 6 + i2)
    assert reshape_index((B, 1, N), (B, N)) == (i0, 0, i1)
    assert reshape_index((B, N), (B, N, 1, 1)) == (i0, i1)
    assert reshape_index((2, B, 3), (2 * B, 3)) == (i0 // B, i0 % B, i1)
    assert reshape_index((6, 4), (3, 8)) == (2 * i0 + i1 // 4, i1 % 4)
