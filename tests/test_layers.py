"""Imports point one way: leaves, then dialects and runtime, then lowering, then frontend."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAVES = {"config", "dims", "dtypes", "errors", "signature", "version"}
ROOMS = {"dialects", "lowering", "runtime", "frontend"}

# Room -> (rooms or modules of ours that it may import, libraries that it may import).
_NUMERIC = {"numpy", "ml_dtypes"}
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "leaf": (set(), _NUMERIC),
    "dialects": ({"dialects"}, _NUMERIC | {"xdsl"}),
    "runtime": ({"runtime"}, _NUMERIC | {"llvmlite", "pyopencl"}),
    "lowering": (
        {"lowering", "dialects", "runtime.artifact", "runtime.opencl_target", "runtime.program", "runtime.target"},
        _NUMERIC | {"xdsl"},
    ),
    "frontend": (ROOMS, _NUMERIC | {"xdsl", "rich", "safetensors"}),
}
PASSES = {
    "expand", "canonicalize", "checkpoint", "decompose", "layout", "fuse", "order", "schedule", "bufferize",
}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import: where it stands, what it loads, whether inside a function, whether a comment explains it."""

    module: str
    line: int
    target: str
    inner: bool
    explained: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "firebox").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module named relative to ``firebox``; empty for the package's own ``__init__`` and ``__main__``."""
    head = module.partition(".")[0]
    return "leaf" if head in LEAVES else "" if module == "__main__" else head


def imports(path: Path) -> Iterator[Import]:
    lines = path.read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    inner = {id(n) for function in functions for n in ast.walk(function)}
    for node in ast.walk(tree):
        for target in targets(node):
            assert isinstance(node, ast.stmt | ast.expr)
            at = lines[node.lineno - 1], lines[node.lineno - 2] if node.lineno > 1 else ""
            explained = "#" in at[0] or at[1].strip().startswith("#")
            yield Import(module_name(path), node.lineno, target, id(node) in inner, explained)


def targets(node: ast.AST) -> list[str]:
    """Full names of the modules (or members) that a node imports, also through importlib."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "import_module"):
        (name,) = node.args
        return [str(name.value)] if isinstance(name, ast.Constant) else []
    return []


SOURCES = sorted((ROOT / "firebox").rglob("*.py"))
IMPORTS = [item for path in SOURCES for item in imports(path)]


def is_ours(target: str) -> bool:
    return target == "firebox" or target.startswith("firebox.")


def allowed(item: Import) -> bool:
    room = room_of(item.module)
    if not room:
        return is_ours(item.target) or item.target.partition(".")[0] in sys.stdlib_module_names
    ours, libraries = ALLOWED[room]
    head, _, rest = item.target.partition(".")
    if head != "firebox":
        return head in libraries or head in sys.stdlib_module_names
    leaf = rest.partition(".")[0]
    return leaf in LEAVES or any(rest == name or rest.startswith(name + ".") for name in ours)


def test_every_module_is_in_a_room() -> None:
    strays = [module_name(path) for path in SOURCES if room_of(module_name(path)) not in {"", "leaf", *ROOMS}]
    assert strays == []


def test_imports_point_one_way() -> None:
    assert [str(item) for item in IMPORTS if not allowed(item)] == []


def test_no_module_of_ours_is_imported_inside_a_function() -> None:
    """Except to load something heavy late, which a comment says; the package's own ``__init__`` does nothing else."""
    inner = [item for item in IMPORTS if item.inner and item.module and is_ours(item.target)]
    assert [str(item) for item in inner if not item.explained] == []


def test_passes_are_imported_by_the_pipeline_only() -> None:
    found = [str(item) for item in IMPORTS if item.module.startswith("lowering.") and imports_a_pass(item)]
    assert found == []


def imports_a_pass(item: Import) -> bool:
    parts = item.target.split(".")
    is_pass = parts[:2] == ["firebox", "lowering"] and len(parts) > 2 and parts[2] in PASSES
    return is_pass and item.module not in ("lowering.pipeline", f"lowering.{parts[2]}")


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import xdsl", "runtime.memory"),
        ("from firebox.dialects.nd import base", "runtime.dispatch"),
        ("from firebox.runtime.dispatch import Executable", "lowering.fuse"),
        ("from firebox.runtime import dispatch", "lowering.fuse"),
        ("import llvmlite.binding", "lowering.llvm.emit"),
        ("from firebox.lowering import pipeline", "dialects.nd.base"),
        ("from firebox.dialects import nd", "dims"),
        ("from firebox.frontend import tensor", "runtime.artifact"),
        ("importlib.import_module('pyopencl')", "lowering.opencl.emit"),
    ],
)
def test_the_rules_catch_a_planted_import(line: str, module: str) -> None:
    (node,) = ast.parse(line).body
    (target,) = targets(node.value if isinstance(node, ast.Expr) else node)
    assert not allowed(Import(module, 1, target, inner=False, explained=False))


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in result.stdout.split()}


def test_the_runtime_loads_neither_the_compiler_nor_llvm() -> None:
    loaded = loaded_after("import firebox.runtime; firebox.runtime.load")
    assert "numpy" in loaded
    assert not loaded & {"xdsl", "llvmlite", "pyopencl"}


def test_the_commands_that_run_artifacts_load_the_runtime_alone() -> None:
    loaded = loaded_after("import firebox.frontend.cli.run, firebox.frontend.cli.inspect")
    assert not loaded & {"xdsl", "llvmlite", "pyopencl"}


def test_the_command_line_loads_nothing_before_it_knows_the_command() -> None:
    assert not loaded_after("import firebox.frontend.cli.main") & {"numpy", "xdsl", "llvmlite"}
