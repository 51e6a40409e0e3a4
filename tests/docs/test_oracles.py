"""What docs/oracles.md shows: enough was tried, it agrees, and where it does not there is a reason."""

import pytest

import firebox as fb
from benchmarks.opinfo_arrays import ARRAYS
from benchmarks.opinfo_differences import DIFFERENCES
from benchmarks.opinfo_elementwise import ELEMENTWISE
from benchmarks.opinfo_layers import LAYERS
from benchmarks.opinfo_linear import LINEAR
from benchmarks.opinfo_reasons import WHY, reason
from docs.oracle_tables import oracle

TABLE = {**ELEMENTWISE, **ARRAYS, **LINEAR, **LAYERS}
OPS = {row["op"]: row for row in oracle("opinfo")}
SPECIAL = ("pow", "erfc", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e")


def test_enough_ops_of_pytorch_agree() -> None:
    values = [r for r in OPS.values() if r["samples"] != "0" and r["values"] == r["samples"]]
    gradients = [r for r in values if r["gradients tried"] != "0" and r["gradients"] == r["gradients tried"]]
    assert len(values) >= 440 and len(gradients) >= 370


def test_no_op_of_pytorch_differs() -> None:
    assert not [op for op, r in OPS.items() if (r["values"], r["gradients"]) != (r["samples"], r["gradients tried"])]


def test_every_op_that_is_not_tried_has_a_reason() -> None:
    assert not [op for op, r in OPS.items() if r["samples"] == "0" and not r["reason"]]
    assert reason("linalg.eig") in WHY and reason("fft.hfft2") not in WHY


def test_the_tables_name_ops_of_pytorch() -> None:
    assert not set(TABLE) - set(OPS) and not set(DIFFERENCES) - set(TABLE)


@pytest.mark.parametrize("op", [op for op, entry in TABLE.items() if isinstance(entry, str)])
def test_named_functions_are_there_where_they_were_tried(op: str) -> None:
    found = hasattr(fb, str(TABLE[op])) or hasattr(fb.nn.functional, str(TABLE[op]))
    assert found or OPS[op]["samples"] == "0"


def test_transforms_are_those_of_jax() -> None:
    rows = oracle("jax_oracle")
    assert len(rows) >= 150
    assert not [r for r in rows if {r["vmap"], r["jvp"], r["hessian"]} != {"yes"}]


def test_math_functions_are_near_the_exact_value() -> None:
    rows = oracle("math_oracle")
    assert len(rows) >= 35
    for row in rows:
        limit = 4.0 if row["function"] in SPECIAL else 2.0
        assert float(row["f32"]) <= limit and float(row["f64"]) <= limit, row
