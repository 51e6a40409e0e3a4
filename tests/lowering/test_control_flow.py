"""Control flow as IR: text, verifier, every pass, the plan, and compiled results against interpreted ones."""

import re
from collections.abc import Callable, Sequence
from io import StringIO

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from firebox.dialects import plan
from firebox.dialects.nd.value import Value
from firebox.frontend import irtext
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.expand import expand
from firebox.lowering.interpret import interpret
from firebox.lowering.options import Options
from firebox.lowering.pipeline import PHASES, lower, run_to
from firebox.lowering.rewrite import RECOMPUTE
from firebox.runtime.device import Device
from firebox.runtime.target import Target
from tests.conftest import GOLDEN, Golden
from tests.lowering.ir_tools import (
    arrays,
    aval,
    check_pass,
    checkpoint,
    cond,
    f64,
    grad,
    here,
    jvp,
    loop,
    module,
    names,
    number,
    ops,
    parse,
    scan,
    vmap,
)
from tests.programs import run_native

TEXT = (GOLDEN / "lowering" / "control.mlir").read_text()
TARGET = Target.parse("x86-64-v3")
INPUTS = [np.arange(15, dtype=np.float32).reshape(5, 3), np.ones(3, np.float32), np.array(2)]


# ---- text and verifier -------------------------------------------------------------------------------------------


def test_the_text_form_round_trips() -> None:
    program = parse(TEXT)
    text = f"{program!s}\n"
    assert re.sub(r"\^bb\d", "^bb", text) == re.sub(r"\^bb\d", "^bb", TEXT)
    assert parse(text).is_structurally_equivalent(program)


def test_the_generic_form_round_trips() -> None:
    program, stream = parse(TEXT), StringIO()
    Printer(stream, print_generic_format=True).print_op(program)
    assert parse(stream.getvalue()).is_structurally_equivalent(program)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{carry = 1 : i64, slices", "{slices", "parameter 'carry' must be an integer"),
        ('length = #nd.dims<"5">', 'length = #nd.dims<"4">', "expected: 4 along the first axis"),
        ("carry = 1 : i64, slices = 1", "carry = 2 : i64, slices = 0", "block arguments do not fit"),
        ("nd.yield %t, %r : tensor<3xf32>, tensor<f32>", "nd.yield %r, %t : tensor<f32>, tensor<3xf32>", "carried"),
        ("nd.yield %next, %sum : tensor<i64>, tensor<3xf32>", "nd.yield %next : tensor<i64>", "carried values"),
        ("nd.yield %more : tensor<i1>", "nd.yield %i : tensor<i64>", "the condition is not one bool"),
        ("nd.yield %more : tensor<i1>", "nd.yield %more, %more : tensor<i1>, tensor<i1>", "wrong number of conditions"),
        ("nd.yield %e : tensor<3xf32>", "nd.yield : ", "results of the two regions"),
        ("nd.neg %d : (tensor<3xf32>)", "nd.neg %root : (tensor<3xf32>)", "out of its IsolatedFromAbove parent"),
    ],
)
def test_the_verifier_names_what_does_not_fit(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    changed = TEXT.replace(old, new.removesuffix(" : "))
    with pytest.raises(VerifyException, match=message):
        parse(changed)


@pytest.mark.parametrize("phase", PHASES[: PHASES.index("bufferize") + 1])
def test_every_phase_is_legal_and_round_trips(phase: str) -> None:
    """The text after each phase can be read again, and what follows makes the same of it."""
    after = run_to(parse(TEXT), TARGET, phase, Options(verify=True))
    text = irtext.print_module(after)
    again = irtext.parse_module(text, "control.mlir")
    assert irtext.print_module(again) == text


def test_interpreted_values() -> None:
    last, rows, count, y = interpret(parse(TEXT), INPUTS)
    state, sums = INPUTS[1], []
    for row in INPUTS[0][::-1]:
        sums.append(state.sum())
        state = state * 2 + row
    np.testing.assert_array_equal(last, state)
    np.testing.assert_array_equal(rows, sums[::-1])
    assert count == 9
    np.testing.assert_array_equal(y, -(state + 7))


def test_compiled_as_interpreted(each_device: Device) -> None:
    expected = interpret(parse(TEXT), INPUTS)
    for e, f in zip(expected, run_native(parse(TEXT), INPUTS, device=each_device), strict=True):
        np.testing.assert_array_equal(f, e)


# ---- canonicalize ------------------------------------------------------------------------------------------------

X, Y = f64(3), f64(4, 3)


def simplified(function: Callable[..., object], *avals: object) -> ModuleOp:
    program = module(function, *avals)  # type: ignore[arg-type]
    return check_pass(canonicalize, program, arrays(0, *avals))  # type: ignore[arg-type]


def test_numbers_are_constants_inside() -> None:
    """So that what they do to a value is simplified there; slices of a repeated number too."""

    def function(x: Value) -> Value:
        one, ones = number(1.0), number(1.0).broadcast_to((4, 3))
        return scan(lambda c, s: [(c * here(one) + s) * s], [x], [ones], 4)[0]

    after = simplified(function, X)
    (found,) = ops(after, "scan")
    assert len(found.operands) == 1 and found.values["slices"] == 0
    assert names(after).count("mul") == 0


def test_what_no_step_changes_is_not_carried() -> None:
    def function(x: Value, y: Value) -> tuple[Value, ...]:
        return scan(lambda a, b, s: [a, b * a + s], [x, x], [y], 4)

    (found,) = ops(simplified(function, X, Y), "scan")
    assert (found.values["carry"], len(found.operands), len(found.results)) == (1, 3, 1)
    kept = simplified(lambda x: loop(lambda v: (v.sum() > 1e9).any(), lambda v: [v], x)[0] + 1.0, X)
    assert names(kept) == ["constant", "add"]


def test_what_nobody_uses_is_not_computed() -> None:
    """A carried value that only carries itself on, a stack, a result of both branches, an operand."""

    def function(x: Value, y: Value) -> Value:
        first = scan(lambda a, b, s: [a + s, b.exp(), a * 2.0, b.sin()], [x, x], [y], 4)[0]
        both = lambda v, w: [v.exp(), v + 1.0]  # noqa: E731
        return cond((x.sum() > 0).any(), both, lambda v, w: [v, v - 1.0], first, y)[1]

    after = simplified(function, X, Y)
    assert not {"exp", "sin", "mul"} & set(names(after))
    assert len(ops(after, "scan")[0].results) == len(ops(after, "cond")[0].results) == 1
    assert len(ops(after, "cond")[0].operands) == 2


def test_a_known_branch_is_the_only_one() -> None:
    def function(x: Value) -> Value:
        return cond(number(1.0) > 0.0, lambda v: [v.exp()], lambda v: [v.sin()], x)[0]

    assert names(simplified(function, X)) == ["exp"]


def test_equal_operands_come_in_once() -> None:
    def function(x: Value, y: Value) -> Value:
        return scan(lambda c, a, b: [c + a * b], [x], [y, y], 4)[0]

    assert len(ops(simplified(function, X, Y), "scan")[0].operands) == 2


# ---- derivatives and batches -------------------------------------------------------------------------------------


def test_golden_of_a_gradient(golden: Golden) -> None:
    """What the way back reads is stacked: the state before each step, and the slope of the tanh."""

    def run(h: Value, x: Value, w: Value) -> Value:
        return scan(lambda h, s: [(h * here(w) + s).tanh()], [h], [x], 4)[0]

    program = module(lambda h, x, w, c: grad(run, [h, x, w], [c])[:3], X, Y, X, X)
    before = str(program)
    expand(program)
    canonicalize(program)
    golden("lowering/scan_grad.mlir", f"// before\n{before}\n// after\n{program!s}\n")
    assert [op.values["reverse"] for op in ops(program, "scan")] == [False, True]


def kept(wrap: Callable[..., Sequence[Value]]) -> int:
    """How many stacks the forward scan of a gradient has."""

    def step(h: Value) -> list[Value]:
        return list(wrap(lambda v: v.exp().sin().tanh().cos(), h))

    program = module(lambda x, c: grad(lambda x: scan(step, [x], [], 4)[0], [x], [c])[0], X, X)
    expand(program)
    canonicalize(program)
    return len(ops(program, "scan")[0].results) - 1


def test_a_checkpoint_keeps_the_carry_only() -> None:
    assert kept(lambda f, v: [f(v)]) > 1
    assert kept(checkpoint) == 1


def test_a_loop_in_a_checkpoint_is_computed_again() -> None:
    """The inner scan runs on the way back, marked, and keeps nothing on the way forward."""

    def step(h: Value) -> list[Value]:
        return list(checkpoint(lambda v: scan(lambda a: [a.sin()], [v], [], 3)[0], h))

    program = module(lambda x, c: grad(lambda x: scan(step, [x], [], 4)[0], [x], [c])[0], X, X)
    expand(program)
    canonicalize(program)
    outer = [op for op in ops(program, "scan") if op.parent_op() is not None and op.parent_op().name == "func.func"]  # type: ignore[union-attr]
    assert len(outer[0].results) == 2
    assert any(RECOMPUTE in op.attributes for op in ops(program, "scan"))


def test_what_is_alike_for_all_slices_is_not_batched() -> None:
    """A counter that no slice changes keeps the loop's condition one number; a condition of data does not."""

    def counted(i: Value, v: Value) -> list[Value]:
        return [i + 1, v * 2.0 + i.astype("f64")]

    def function(y: Value, n: Value) -> Value:
        def each(row: Value) -> Value:
            return loop(lambda i, v: i < 5, counted, here(n), row)[1]

        return vmap(each, [y], [0], [0], 4)[0]

    program = module(function, Y, aval("i64"))
    inputs = arrays(0, Y, aval("i64"))
    expected = interpret(program, inputs)
    expand(program)
    (found,) = ops(program, "while")
    assert [a.shape for a in found.avals] == [(), (4, 3)]
    np.testing.assert_array_equal(interpret(program, inputs)[0], expected[0])


def test_slices_that_end_apart() -> None:
    def function(y: Value) -> tuple[Value, ...]:
        def each(row: Value) -> tuple[Value, ...]:
            return loop(
                lambda i, v: (v * v).sum() < 50.0, lambda i, v: [i + 1, v * 1.5], (row.sum() * 0.0).astype("i64"), row
            )

        return vmap(each, [y], [0], [0, 0], 4)

    program = module(function, Y)
    inputs = [np.arange(1, 13, dtype=np.float64).reshape(4, 3) / 5]
    expected = interpret(program, inputs)
    assert len(set(expected[0].tolist())) > 2
    expand(program)
    for e, f in zip(expected, interpret(program, inputs), strict=True):
        np.testing.assert_array_equal(f, e)


def test_forward_mode_carries_tangents_along() -> None:
    def function(x: Value, t: Value) -> tuple[Value, ...]:
        return jvp(lambda x: loop(lambda v: v.sum() < 10.0, lambda v: [v * v + 1.0], x)[0], [x], [t])

    program = module(function, X, X)
    expand(program)
    (found,) = ops(program, "while")
    assert found.values["carry"] == 2
    value, tangent = interpret(program, [np.ones(3), np.full(3, 0.5)])
    np.testing.assert_array_equal(value, np.full(3, 5.0))  # 1, 2, 5: slope 2 * 4
    np.testing.assert_array_equal(tangent, np.full(3, 4.0))


# ---- the plan ----------------------------------------------------------------------------------------------------


def planned(function: Callable[..., object], *avals: object) -> plan.ProgramOp:
    after = run_to(module(function, *avals), TARGET, "bufferize", Options(verify=True))  # type: ignore[arg-type]
    return next(op for op in after.body.block.ops if isinstance(op, plan.ProgramOp))


def inside(entry: plan.ProgramOp) -> list[str]:
    """The steps of the first loop."""
    found = next(op for op in entry.body.block.ops if isinstance(op, plan.ForOp))
    return [op.name.removeprefix("plan.") for op in found.body.block.ops]


def test_a_carry_that_each_step_overwrites_has_one_place() -> None:
    steps = inside(planned(lambda x, y: scan(lambda c, s: [c * 2.0 + s], [x], [y], 4)[0], X, Y))
    assert steps == ["view", "launch"]


def test_a_carry_that_is_read_again_has_two_places_in_turn() -> None:
    """What is stacked is the value before the step, which therefore must outlive the new one."""
    entry = planned(lambda x, y: scan(lambda c, s: [c.flip(0) + s], [x], [y], 4)[0], X, Y)
    assert inside(entry) == ["view", "view", "view", "launch"]
    assert "% 2" in str(entry)


def test_the_memory_of_a_loop_does_not_depend_on_its_length() -> None:
    sizes = []
    for length in (10, 1000):
        entry = planned(lambda x, n=length: scan(lambda c: [c.flip(0).exp() + c], [x], [], n)[0], X)
        sizes.append(str(entry.attributes["arena"]))
    assert sizes[0] == sizes[1]


def test_golden_of_a_plan(golden: Golden) -> None:

    program = parse(TEXT)
    golden("lowering/control_plan.mlir", str(run_to(program, TARGET, "bufferize", Options(verify=True))) + "\n")


def test_the_entry_of_the_host_has_loops() -> None:
    text = lower(parse(TEXT), TARGET).text
    entry = text[text.index("define void @main") :]
    assert len(re.findall(r"phi i64 \[ 0, ", entry)) == 2
    assert "icmp slt i64" in entry
