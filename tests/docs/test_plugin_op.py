"""docs/adding-an-op.md does what it says: ops from outside are checked, trained through, fused, compiled and found."""

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_op import escape_time, fast_hypot, fit_circle, hypot, recurrence, simplify
from plugin_op.hypot import Hypot
from xdsl.universe import Universe

import firebox as fb
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.value import block_of
from firebox.dtypes import f32
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend import irtext, universe
from firebox.frontend.cli.main import main
from firebox.frontend.source import trace
from firebox.lowering.patterns import patterns_of
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target
from tests import op_checks
from tests.docs.conftest import EXAMPLES, environment, install_plugin
from tests.lowering.test_native_ops import check

OPS: list[type[NdOp]] = [Hypot, recurrence.Recurrence, escape_time.EscapeTime]
each_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


@each_op
def test_the_op_is_what_it_says(op: type[NdOp]) -> None:
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    for sample in op_checks.samples(op):
        op_checks.check_types(op, sample)
        op_checks.check_batch(op, sample)
        if op.kind is not Kind.OPAQUE:
            op_checks.check_formula(op, sample)
        if op.differentiable:
            op_checks.check_vjp(op, sample, rng)
            op_checks.check_jvp(op, sample, rng)


@each_op
def test_compiled_code_agrees_with_numpy(op: type[NdOp]) -> None:
    cases = [(case, op_checks.avals_of(case.arrays)) for case in op_checks.samples(op)]
    check(op, cases, fb.Device("cpu"))


def test_hypot_does_not_overflow() -> None:
    extremes = np.array([3e200, 3e-200, 0.0, -np.inf])
    x = fb.tensor(extremes)
    np.testing.assert_allclose(fb.apply("special.hypot", x, x), np.hypot(extremes, extremes), rtol=1e-15)
    assert ((x * x + x * x) ** 0.5).tolist() == [np.inf, 0.0, 0.0, np.inf]


def test_gradients_flow_through_hypot() -> None:
    a, b = fb.tensor([3.0, 0.0], requires_grad=True), fb.tensor([[4.0], [-4.0]], requires_grad=True)
    hypot.hypot(a, b).sum().backward()
    assert a.grad is not None and b.grad is not None
    np.testing.assert_allclose(a.grad, [1.2, 0.0], rtol=1e-6)
    np.testing.assert_allclose(b.grad, [[1.8], [-1.8]], rtol=1e-6)
    second = fb.grad(fb.grad(lambda x: hypot.hypot(x, 4.0)))(fb.tensor(3.0))
    np.testing.assert_allclose(second, 16.0 / 125.0, rtol=1e-6)
    per_row = fb.vmap(lambda row: hypot.hypot(row, row.sum()))(fb.tensor([[3.0, 1.0], [0.0, 2.0]]))
    np.testing.assert_allclose(per_row, [[5.0, 17**0.5], [2.0, 8**0.5]], rtol=1e-6)


def test_hypot_is_fused_with_its_neighbours() -> None:
    module = trace(lambda x, y: fb.exp(-hypot.hypot(x, y)).sum(-1), "x: f32[b, 64]; y: f32[b, 64]").module
    fused = str(run_to(module, Target.parse("x86-64-v3"), "fuse"))
    assert fused.count("nd.group") == 1 and "special.hypot" in fused


def test_the_circle_is_found_and_its_artifact_agrees(tmp_path: Path) -> None:
    circle = fit_circle.Circle()
    points = fit_circle.arc(50, np.random.default_rng(0))
    assert fit_circle.fit(circle, points, 200) < 1e-3
    np.testing.assert_allclose(circle.centre, [2.0, -1.0], atol=0.02)
    fb.compile(circle, "points: f32[n, 2]", path=tmp_path / "circle.fbox")
    loaded = fb.runtime.load(tmp_path / "circle.fbox")
    np.testing.assert_allclose(loaded(points), circle(fb.tensor(points)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_recurrence_trains(reverse: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 40)).astype(np.float32)
    decay = fb.Param(np.float32(0.2))
    target = recurrence.Recurrence.evaluate(np.full_like(x, 0.7), x, 1, reverse)
    optimizer = fb.optim.Adam([decay], lr=0.05)
    for _ in range(60):
        state = recurrence.recurrence(decay.broadcast_to(x.shape), fb.tensor(x), reverse=reverse)
        loss = ((state - fb.tensor(target)) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert abs(decay.item() - 0.7) < 0.02


def test_the_template_makes_the_kernel() -> None:
    x, y = np.meshgrid(np.linspace(-2.0, 0.6, 60), np.linspace(-1.1, 1.1, 24))
    found = escape_time.escape_time(fb.tensor(x), fb.tensor(y), 50)
    np.testing.assert_array_equal(found, escape_time.EscapeTime.evaluate(x, y, 50))
    assert 50 in found.numpy() and found.numpy().min() >= 1


# ---- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words", "line"),
    [
        (lambda x: fb.apply(Hypot, x), UserError, "wrong number of operands", "test_plugin_op.py"),
        (lambda x: fb.apply(Hypot, x, x, axis=0), UserError, "other parameters", "test_plugin_op.py"),
        (lambda x: fb.apply("special.hypotenuse", x, x), UserError, "no such op", "test_plugin_op.py"),
        (lambda x: fb.apply("nd.grad", x), UserError, "regions", "test_plugin_op.py"),
        (lambda x: fb.apply(Hypot, x, fb.ones(4)), ShapeError, "do not broadcast", "test_plugin_op.py"),
        (lambda x: hypot.hypot(x, x.astype(fb.float64)), DTypeError, "f32 and f64", "plugin_op/hypot.py"),
    ],
)
def test_misuse_is_refused_with_the_line(call: Any, error: type[Exception], words: str, line: str) -> None:
    """The line is that of the call into Firebox, also where the op's own type rule refuses."""
    with pytest.raises(error, match=words) as raised:
        call(fb.ones(3))
    assert f"{line}:" in str(raised.value)


def test_apply_takes_numbers_names_and_no_operands() -> None:
    np.testing.assert_array_equal(fb.apply("nd.add", 1.0, fb.tensor([1.0, 2.0], dtype=fb.float64)), [2.0, 3.0])
    np.testing.assert_array_equal(fb.apply("nd.iota", shape=(3,), axis=0, dtype=fb.int8), [0, 1, 2])
    values, order = fb.apply("nd.sort", fb.tensor([2.0, 1.0]), axis=0, descending=False)
    assert values.tolist() == [1.0, 2.0] and order.tolist() == [1, 0]


# ---- other processes and tools -----------------------------------------------------------------------------------


def python(*arguments: str, path: Path) -> str:
    """Run Python with a folder on its path; gives what it printed."""
    call = [sys.executable, *arguments]
    known = environment(path.parent / "pycache", path)
    result = subprocess.run(call, env=known, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_an_edited_op_is_compiled_anew(tmp_path: Path, cache_dir: Path) -> None:
    """Both processes use one cache on disk; that the op is another one must be seen."""
    source = (EXAMPLES / "plugin_op" / "hypot.py").read_text()
    (tmp_path / "mine.py").write_text(source)
    call = "import firebox as fb, mine; print(mine.hypot(fb.tensor(3.0), fb.tensor(4.0)).item())"
    assert python("-c", call, path=tmp_path) == "5.0\n"
    assert any(cache_dir.rglob("*.bin"))
    (tmp_path / "mine.py").write_text(source.replace("s.fma(ratio, ratio, 1.0)", "s.fma(ratio, ratio, 3.00)"))
    assert float(python("-c", call, path=tmp_path)) == pytest.approx(7.549834)


def test_tools_find_the_dialect_and_the_pass(tmp_path: Path) -> None:
    """`firebox opt` in a process where a package that names the universe as its entry point is installed."""
    install_plugin(tmp_path)
    model = tmp_path / "model.mlir"
    model.write_text(fb.export(hypot.hypot, "a: f32[n]; b: f32[n]"))
    text = python("-m", "firebox", "opt", str(model), "-p", "special-fast-hypot{only=f32}", path=tmp_path)
    assert "special.hypot" not in text and "nd.sqrt" in text


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package of the example were installed."""
    known: dict[str, Universe] = {**universe.universes(), "plugin_op": fast_hypot.UNIVERSE}
    monkeypatch.setattr(universe, "universes", lambda: known)


@pytest.mark.usefixtures("installed")
def test_the_pass_replaces_what_it_is_told_to() -> None:
    text = fb.export(lambda a, b: hypot.hypot(a, a), "a: f64[4]; b: f64[4]")
    module = irtext.parse_module(text, "text")
    fast_hypot.FastHypot(only="f32").apply(irtext.context(), module)
    assert irtext.print_module(module) == text
    fast_hypot.FastHypot().apply(irtext.context(), module)
    assert "special.hypot" not in irtext.print_module(module)


@pytest.mark.usefixtures("installed")
def test_text_with_the_op_compiles(tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(fb.export(hypot.hypot, "a: f32[n]; b: f32[n]"))
    assert main(["compile", str(model), "-o", str(tmp_path / "model.fbox")]) == 0
    loaded = fb.runtime.load(tmp_path / "model.fbox")
    np.testing.assert_array_equal(loaded(np.array([3.0], np.float32), np.array([4.0], np.float32)), [5.0])


def test_the_pattern_drops_signs() -> None:
    assert simplify.drop_signs in patterns_of(Hypot.build_op(block_of([Aval(f32, (4,))] * 2).args, {}))
    module = trace(lambda a, b: hypot.hypot(-a, abs(b)), "a: f32[4]; b: f32[4]").module
    simplified = str(run_to(module, Target.parse("x86-64-v3"), "canonicalize"))
    assert "nd.neg" not in simplified and "nd.abs" not in simplified and "special.hypot" in simplified
