"""Tables of the pages, generated from the registry and from docstrings, so that they say what the code says."""

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import firebox
from firebox import config, dtypes, errors
from firebox.dialects.kernel import Kernel
from firebox.dialects.kernel.builder import KernelBuilder
from firebox.dialects.nd import numpy_scalar, params
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Kind, NdOp, Sample, registered
from firebox.dialects.nd.ops.contract_spec import (
    conv_spec,
    conv_transpose_spec,
    infer_sizes,
    matmul_spec,
    parse_spec,
    transpose_spec,
)
from firebox.dialects.nd.schedule import Schedule
from firebox.dialects.plan import PLAN
from firebox.dtypes import DType, as_dtype, bool_
from firebox.frontend.passes import PASSES
from firebox.frontend.stats import Counters
from firebox.lowering import legal
from firebox.lowering.fuse import REASONS
from firebox.lowering.generate import table as _rows  # noqa: F401  (registers the templates with `pipeline`)
from firebox.lowering.generate import templates
from firebox.lowering.llvm import emit as _emit  # noqa: F401  (fills the table of lowerings)
from firebox.lowering.llvm.function import LOWERINGS
from firebox.lowering.pipeline import PHASES

Rows = Iterable[Sequence[str]]
_PARAMS = {id(value): name for name, value in vars(params).items() if isinstance(value, params.Param)}
_TYPES = {
    frozenset(dtypes.ALL): "all",
    frozenset((*dtypes.FLOATS, *dtypes.INTS)): "float, int",
    frozenset(dtypes.FLOATS): "float",
    frozenset(dtypes.INTS): "int",
    frozenset((*dtypes.INTS, dtypes.bool_)): "int, bool",
    frozenset((dtypes.bool_,)): "bool",
}


def markdown(head: Sequence[str], rows: Rows) -> list[str]:
    """The lines of a table."""
    body = ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *body]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("``", "`").strip()


def summary(documented: object) -> str:
    """The first paragraph of a docstring."""
    return inspect.cleandoc(documented.__doc__ or "").split("\n\n")[0]


def attributes(cls: type) -> dict[str, str]:
    """What the section ``Attributes:`` of a class' docstring says, by name."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", what) for name, what in found}


# ---- the nd dialect ----------------------------------------------------------------------------------------------


def nd_ops(kind: Kind) -> list[str]:
    """The ops of the tensor dialect of one kind."""
    ops = [op for name, op in registered().items() if op.kind is kind and name.startswith("nd.")]
    return markdown(("op", "operands", "parameters", "types", "derivative", "is"), map(_nd_row, ops))


def _nd_row(op: type[NdOp]) -> list[str]:
    operands = "any" if op.arity is None else str(op.arity)
    derivative = "yes" if op.differentiable else ""
    return [f"`{op.name}`", operands, _params(op), _TYPES.get(accepted(op), ""), derivative, summary(op)]


def accepted(op: type[NdOp]) -> frozenset[DType]:
    """The element types that the type rule takes, tried on one of the op's samples; for `select`, of its values."""
    samples = [s for s in op.samples(np.random.default_rng(0)) if s.arrays] if op.arity != 0 else []
    if not samples:
        return frozenset()
    sample = next((s for s in samples if len({a.dtype for a in s.arrays}) > 1), samples[0])
    known = [as_dtype(a.dtype) for a in sample.arrays]
    varied = known[1] if known[0] is bool_ and len(known) > 1 else known[0]
    return frozenset(d for d in dtypes.ALL if _takes(op, sample, varied, d))


def _takes(op: type[NdOp], sample: Sample, old: DType, new: DType) -> bool:
    known = [Aval(as_dtype(a.dtype), a.shape) for a in sample.arrays]
    avals = [Aval(new if a.dtype is old else a.dtype, a.shape) for a in known]
    zero = params.Literal.of(np.zeros((), new.numpy))
    given = {name: zero if isinstance(value, params.Literal) else value for name, value in sample.params.items()}
    try:
        op.result_avals(avals, given)
    except errors.DTypeError:
        return False
    return True


def nd_regions() -> list[str]:
    """The region ops of the tensor dialect."""
    ops = [op for name, op in registered().items() if op.kind is Kind.REGION and name.startswith("nd.")]
    return markdown(("op", "parameters", "is"), ((f"`{op.name}`", _params(op), summary(op)) for op in ops))


def _params(op: type[NdOp]) -> str:
    return ", ".join(f"`{name}: {_PARAMS[id(param)]}`" for name, param in op.params.items())


def contract_specs() -> list[str]:
    """Examples of the language of contractions."""
    conv = conv_spec((2,), (1,), (1,))
    parsed, x, w = parse_spec(conv), (2, 3, 8), (4, 3, 3)
    sizes = infer_sizes(parsed, x, w, {"y0": 4})
    rows = [
        ("matrix product", matmul_spec(2, 2)),
        ("batch of matrix products", matmul_spec(3, 3)),
        ("matrix and vector", matmul_spec(2, 1)),
        ("1-D convolution, stride 2, padding 1", conv),
        ("its gradient by the input", str(transpose_spec(parsed, 0, x, sizes).spec)),
        ("its gradient by the weight", str(transpose_spec(parsed, 1, w, sizes).spec)),
        ("2-D convolution, dilation 2, in groups", conv_spec((1, 1), (0, 0), (2, 2), True)),
        ("1-D transposed convolution, stride 2", conv_transpose_spec((2,), (0,), (1,))),
    ]
    return markdown(("contraction", "`spec`"), ((name, f"`{spec}`") for name, spec in rows))


def param_kinds() -> list[str]:
    """The kinds of parameters."""
    found = ((name, p) for name, p in vars(params).items() if isinstance(p, params.Param))
    return markdown(
        ("kind", "is", "attribute"), ((f"`{n}`", p.description, f"`{p.attribute.__name__}`") for n, p in found)
    )


def element_types() -> list[str]:
    """The element types."""
    rows = ((f"`{d.name}`", f"`fb.{d.long}`", str(d.itemsize), f"`{d.compute.name}`") for d in dtypes.ALL)
    return markdown(("type", "in Python", "bytes", "computed in"), rows)


def scalars() -> list[str]:
    """What the scalar part of a formula may use."""
    names = [n for n, v in vars(numpy_scalar.NumpyScalars).items() if not n.startswith("_") and callable(v)]
    for group in ("_UNARY", "_ROUNDING", "_BINARY", "_QUESTIONS"):
        names += getattr(numpy_scalar, group)
    return markdown(("function", "is"), ((f"`{n}`", _scalar_doc(n)) for n in names))


def _scalar_doc(name: str) -> str:
    own = getattr(numpy_scalar.NumpyScalars, name, None)
    return summary(own if name == "index" else getattr(KernelBuilder, name))


def schedule_fields() -> list[str]:
    """The fields of a schedule."""
    said = attributes(Schedule)
    rows = []
    for field in dataclasses.fields(Schedule):
        default = "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
        rows.append((f"`{field.name}`", default, said[field.name]))
    return markdown(("field", "default", "is"), rows)


# ---- kernels and plans -------------------------------------------------------------------------------------------


def dialect_ops(ops: Iterable[Any]) -> list[str]:
    """The ops of a dialect."""
    return markdown(("op", "is"), ((f"`{op.name}`", summary(op)) for op in ops))


def standard_ops() -> list[str]:
    """The ops of standard dialects that kernels are made of: those that the emitter can write."""
    found: dict[str, list[str]] = {}
    for cls in LOWERINGS:
        dialect, _, name = cls.name.partition(".")
        if dialect != "kernel":
            found.setdefault(dialect, []).append(f"`{name}`")
    return markdown(("dialect", "ops"), ((f"`{d}`", " ".join(sorted(found[d]))) for d in sorted(found)))


def template_rows() -> list[str]:
    """The table of templates as this package fills it."""
    known = {key: t for key, t in templates._TEMPLATES.items() if "." not in key[1] or key[1].startswith("nd.")}
    rows = ((kind, f"`{key}`", f"`{known[kind, key].name}`") for kind, key in sorted(known))
    return markdown(("device", "group or op", "template"), rows)


# ---- the pipeline ------------------------------------------------------------------------------------------------


def legality() -> list[str]:
    """What may stand in a program after each phase."""
    return markdown(("after", "may stand in `@main`"), ((f"`{p}`", _legal(legal.STAGES[p])) for p in PHASES))


def _legal(stage: legal.Legal) -> str:
    kinds = ", ".join(kind.value for kind in Kind if kind in stage.kinds)
    parts = [f"nd ops of the kinds {kinds}"] if kinds else []
    parts += ["transforms"] if stage.transforms else []
    parts += ["`nd.group`, which holds plain ops"] if stage.groups else []
    parts += ["control flow"] if stage.control else []
    parts += [f"kernels of {', '.join(f'`{d}`' for d in sorted(stage.dialects))}"] if stage.dialects else []
    return "; ".join(parts)


def pass_rows() -> list[str]:
    """The passes by name, with their options."""
    rows = []
    for name, cls in PASSES.items():
        fields = [f for f in dataclasses.fields(cls) if f.name != "name"] if dataclasses.is_dataclass(cls) else []
        options = ", ".join(f"`{f.name.replace('_', '-')}={f.default}`" for f in fields)
        rows.append((f"`{name}`", options, summary(cls)))
    return markdown(("pass", "options and defaults", "does"), rows)


def reasons() -> list[str]:
    """Why groups end."""
    return markdown(("reason", "says"), ((f"`{name}`", what) for name, what in REASONS.items()))


# ---- settings, counters, errors ----------------------------------------------------------------------------------


def settings() -> list[str]:
    """The environment variables."""
    rows = []
    for function in vars(config).values():
        said = summary(function) if callable(function) and function.__doc__ else ""
        if match := re.search(r"(.*?):? (FIREBOX_\w+)", said.replace("\n", " ")):
            rows.append((f"`{match[2]}`", said))
    return markdown(("variable", "sets"), rows)


def counters() -> list[str]:
    """What `fb.stats()` counts."""
    return markdown(("counter", "counts"), ((f"`{name}`", what) for name, what in attributes(Counters).items()))


def error_classes() -> list[str]:
    """The error classes."""
    found = [v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, errors.FireboxError)]
    rows = ((f"`{c.__name__}`", ", ".join(f"`{b.__name__}`" for b in c.__bases__), summary(c)) for c in found)
    return markdown(("class", "is a", "says"), rows)


def modules(folder: str) -> list[str]:
    """The modules of a folder, each with the first sentence of its docstring."""
    root = Path(__file__).parents[1]
    rows = []
    for path in sorted((root / folder).glob("*.py")):
        said = ast.get_docstring(ast.parse(path.read_text())) or ""
        if said:
            rows.append((f"`{path.relative_to(root)}`", said.split("\n\n")[0]))
    return markdown(("module", "is"), rows)


FOLDERS = (
    "firebox",
    "firebox/dims",
    "firebox/frontend",
    "firebox/frontend/functions",
    "firebox/frontend/linalg",
    "firebox/frontend/vision",
    "firebox/frontend/array_api",
    "firebox/frontend/nn",
    "firebox/frontend/optim",
    "firebox/frontend/record",
    "firebox/frontend/train",
    "firebox/frontend/cli",
    "firebox/dialects",
    "firebox/dialects/nd",
    "firebox/dialects/nd/ops",
    "firebox/lowering",
    "firebox/dialects/kernel",
    "firebox/dialects/plan",
    "firebox/lowering/generate",
    "firebox/lowering/generate/gpu",
    "firebox/lowering/math",
    "firebox/lowering/llvm",
    "firebox/lowering/opencl",
    "firebox/runtime",
)
"""Folders with modules, in the order in which data passes through them."""


def public_functions(module: str) -> list[str]:
    """The public functions of a module, as they are called."""
    found = importlib.import_module(module)
    names = sorted(name for name, (where, _) in firebox._WHERE.items() if where == module)
    functions = {name: getattr(found, firebox._WHERE[name][1]) for name in names}
    return markdown(("function", "is"), ((f"`{n}{_arguments(f)}`", summary(f)) for n, f in functions.items()))


def part_functions(part: str) -> list[str]:
    """The public functions of a part of `fb`, as they are called after its name."""
    module = getattr(firebox, part)
    found = {name: getattr(module, name) for name in module.__all__}
    return markdown(("function", "is"), ((f"`{n}{_arguments(f)}`", summary(f)) for n, f in found.items()))


def _arguments(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, without types."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain))


def promotion() -> list[str]:
    """The common type of each two element types, in italics where it is not NumPy's."""
    head = ("", *(f"`{d.name}`" for d in dtypes.ALL))
    return markdown(head, ((f"`{a.name}`", *(_common(a, b) for b in dtypes.ALL)) for a in dtypes.ALL))


def _common(a: DType, b: DType) -> str:
    found = dtypes.result_type(a, b)
    try:
        same = np.result_type(a.numpy, b.numpy) == found.numpy
    except TypeError:  # NumPy has none
        same = False
    return found.name if same else f"*{found.name}*"


def accuracy() -> list[str]:
    """The largest measured distances of math functions, in units in the last place."""
    text = (Path(__file__).parents[1] / "tests" / "golden" / "math" / "accuracy.csv").read_text()
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return markdown(("function", "f32", "f64"), ((f"`{name}`", single, double) for name, single, double in rows))


TOPICS = (
    "mathematics",
    "shape",
    "moving",
    "ordering",
    "scattering",
    "sets",
    "statistics",
    "special",
    "numeric",
    "assembling",
    "linear_algebra",
    "einsum",
    "matrices",
)
"""Modules of `firebox.frontend.functions` that docs/functions.md lists."""

TABLES: dict[str, Callable[[], list[str]]] = {
    **{f"modules of {folder}": partial(modules, folder) for folder in FOLDERS},
    **{f"nd {kind.value}": partial(nd_ops, kind) for kind in Kind if kind is not Kind.REGION},
    "nd region": nd_regions,
    "contract specs": contract_specs,
    "parameters": param_kinds,
    "element types": element_types,
    "scalars": scalars,
    "schedule": schedule_fields,
    "kernel": lambda: dialect_ops(Kernel.operations),
    "standard ops": standard_ops,
    "plan": lambda: dialect_ops(PLAN.operations),
    "templates": template_rows,
    "legality": legality,
    "passes": pass_rows,
    "reasons": reasons,
    "settings": settings,
    "counters": counters,
    "errors": error_classes,
    "functions elementwise": partial(public_functions, "firebox.frontend.elementwise"),
    "functions pairs": partial(public_functions, "firebox.frontend.pairs"),
    "functions control": partial(public_functions, "firebox.frontend.control"),
    **{f"functions {topic}": partial(public_functions, f"firebox.frontend.functions.{topic}") for topic in TOPICS},
    **{f"functions of {part}": partial(part_functions, part) for part in ("linalg", "fft", "signal", "vision")},
    "functions data types": partial(public_functions, "firebox.frontend.data_types"),
    "promotion": promotion,
    "accuracy": accuracy,
}
"""By name: the lines of each table."""
