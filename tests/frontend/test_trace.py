"""The light graph and the modules made of it."""

import time

import numpy as np
import pytest

import firebox as fb
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import lookup
from firebox.dialects.xdsl_compat import verify
from firebox.errors import DTypeError
from firebox.frontend import locations, trace
from firebox.frontend.build import build
from firebox.frontend.entries import entry_of, intern
from firebox.frontend.graph import LeafVar, Region, scalar_var
from firebox.frontend.plan import Planner, describe
from firebox.frontend.trace import record

pytestmark = pytest.mark.usefixtures("frontend")


def line() -> int:
    """The caller's line number."""
    location = locations.capture(2)
    assert location is not None
    return locations.file_and_line(location)[1]


def test_entries_are_shared_by_equal_ops() -> None:
    a, b = fb.ones(2)._var, fb.ones(2)._var
    add = lookup("nd.add")
    assert entry_of(add, (a, b), {}) is entry_of(add, (b, a), {})
    assert entry_of(add, (a, b), {}) is not entry_of(add, (a, fb.ones(1)._var), {})
    assert entry_of(lookup("nd.flip"), (a,), {"axes": [0]}) is entry_of(lookup("nd.flip"), (a,), {"axes": (0,)})


def test_a_node_knows_the_users_line() -> None:
    x = fb.ones(2)
    y, here = fb.nn.functional.softmax(x), line()
    node = y._var.node
    assert node is not None and node.location is not None
    assert locations.file_and_line(node.location) == (__file__, here)


def test_values_that_nobody_holds_leave_with_their_nodes() -> None:
    fb.flush()
    (fb.ones(2) + 1).exp()
    assert not [r for r in trace.STATE.pending if r() is not None]
    fb.flush()
    assert fb.stats()["programs_run"] == 0


def test_a_region_holds_what_depends_on_its_arguments() -> None:
    x, y = fb.ones(2), fb.ones(2) * 3
    a = x + 1
    b = a * y
    region = Region((x._var,), (b._var,))
    assert [n.entry.op.name for n in region.nodes] == ["nd.add", "nd.mul"]
    assert region.captures == (y._var,)
    assert Region((y._var,), (b._var,)).captures == (a._var,)
    assert Region((fb.ones(1)._var,), (b._var,)).nodes == []


def test_a_module_has_names_locations_and_verifies() -> None:
    x = fb.tensor([1.0, 2.0])
    y, here = (x * 2).exp() + x, line()
    plan = Planner().make([y._var])
    module = build(plan, (), ["layer.weight"])
    verify(module)
    text = str(module)
    assert '%layer_weight: tensor<2xf32> {nd.name = "layer.weight"}' in text
    ops = [op for op in module.walk() if op.name == "nd.exp"]
    assert str(ops[0].location) == f'loc("{__file__}":{here}:1)'


def test_a_number_used_twice_is_one_constant_and_two_slots() -> None:
    x = fb.tensor([1.0])
    plan = Planner().make([(x * 0.5 + 0.5)._var])
    assert len(plan.slots) == 2
    assert str(build(plan)).count("nd.constant") == 1
    assert str(build(plan, dynamic=[0])).count("nd.constant") == 1
    assert "nd.constant" not in str(build(plan, dynamic=[0, 1]))


def test_equal_traces_have_equal_keys() -> None:
    def plan(scale: float, rows: int) -> object:
        x, y = fb.tensor(np.ones((rows, 2), np.float32)), fb.tensor([1.0, 2.0])
        return Planner().make([(x * scale + y)._var, y.exp()._var])

    assert plan(1.0, 3).key == plan(2.0, 3).key  # type: ignore[attr-defined]
    assert plan(1.0, 3).key != plan(1.0, 4).key  # type: ignore[attr-defined]
    assert describe(plan(1.0, 3)) == describe(plan(1.0, 3))  # type: ignore[arg-type]
    assert describe(plan(1.0, 3)) != describe(plan(2.0, 3))  # type: ignore[arg-type]
    assert describe(plan(1.0, 3), [0]) == describe(plan(2.0, 3), [0])  # type: ignore[arg-type]


def test_the_key_tells_which_inputs_are_the_same() -> None:
    x, y = fb.tensor([1.0]), fb.tensor([1.0])
    assert Planner().make([(x + y)._var]).key != Planner().make([(x + x)._var]).key


def test_parameters_that_are_equal_as_keys_are_told_apart() -> None:
    """-0.0 == 0.0 and True == 1, but they are different numbers."""
    minus, plus = scalar_var(-0.0, fb.float32), scalar_var(0.0, fb.float32)
    assert minus.data != plus.data
    assert scalar_var(True, fb.float32).data == scalar_var(1.0, fb.float32).data
    assert scalar_var(1, fb.int64).data != scalar_var(1.0, fb.float32).data


def test_infer_errors_name_the_op() -> None:
    with pytest.raises(DTypeError, match="not accepted") as caught:
        record(lookup("nd.exp"), (fb.tensor([1])._var,), {})
    assert caught.value.op == "exp"


def test_avals_are_interned() -> None:
    assert intern(Aval(fb.float32, (2, 3))) is intern(Aval(fb.float32, (2, 3)))
    assert fb.ones(2, 3).aval is fb.zeros(2, 3).aval


def test_parameters_are_leaves_of_their_own() -> None:
    value = fb.tensor([1.0])
    a, b = fb.Param(value), fb.Param(value)
    assert isinstance(a._var, LeafVar) and isinstance(b._var, LeafVar)
    assert a._var is not b._var
    assert a._var is a.value._var
    assert not value.requires_grad


def test_recording_is_cheap() -> None:
    """A wide bound for the best of several runs: recording costs about 4 us a node."""
    x = fb.ones(4, 4)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(300):
            x = x + x
        times.append(time.perf_counter() - start)
    assert min(times) / 300 < 40e-6


def test_long_chains_are_recorded_planned_and_freed_without_recursion() -> None:
    x = fb.tensor(1.0)
    w = fb.Param(0.0)
    for _ in range(3000):
        x = x + w
    x.backward()
    assert w.grad is not None
    assert w.grad.item() == 3000
