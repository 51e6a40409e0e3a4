"""The relation table of templates: which generator turns a group into kernels.

A template is found by the kind of the target, and by the name of the op that gives the group its kind (a contraction, a
scan, an opaque op) or, failing that, by the kind itself. Plugins add rows with `register_template`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.func import FuncOp

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.errors import CompilerError

AnySchedule = Callable[[GroupOp, Any], Schedule]
Generate = Callable[[GroupOp, Schedule, Any, Sequence[str], dict[str, int]], "Kernels"]


@dataclass(frozen=True)
class Launch:
    """How the host starts a kernel.

    Attributes:
        count: units of work; on OpenCL work-groups. Nothing is started for 0.
        grain: units that a thread takes at a time; on OpenCL work-items of a work-group.
        scratch: bytes of scratch per thread, a multiple of 64 when symbolic; on OpenCL bytes of the workspace that all
            kernels of the group share.
    """

    count: DimLike
    grain: int
    scratch: DimLike = 0


@dataclass(frozen=True)
class Kernels:
    """What a template makes of a group: the functions that are launched one after the other, and helpers they call.

    The first has the label of the group as its name, the others the names that `kernel_name` gives.
    """

    mains: tuple[FuncOp, ...]
    helpers: tuple[FuncOp, ...] = ()


@dataclass(frozen=True)
class Template:
    """One generator.

    Attributes:
        name: stands in schedules; no two templates have the same.
        schedule: chooses a schedule for a group on a target.
        generate: the kernels of a scheduled group; ``dim_order`` are the program's symbolic dims, ``op_ids`` the table
            of source lines, which it extends.
        launch: how each kernel of a scheduled group is started.
    """

    name: str
    schedule: AnySchedule
    generate: Generate
    launch: Callable[[GroupOp, Schedule], tuple[Launch, ...]]


HOST = "host"
"""Name in schedules of what the host does itself, with copies and fills: packing. There is no kernel."""

_TEMPLATES: dict[tuple[str, str], Template] = {}
_BY_NAME: dict[str, Template] = {}


def register_template(key: str, template: Template, kind: str = "cpu") -> None:
    """Use a template for groups of a kind (``loops``, ``contract``) or of an op (``nd.sort``).

    Args:
        key: full name of an op, or a kind of group.
        kind: of the targets that it is for, ``cpu`` or ``opencl``.
    """
    _TEMPLATES[kind, key] = template
    add_template(template)


def add_template(template: Template) -> None:
    """Know a template by its name, for schedules that another template's `schedule` gives."""
    _BY_NAME[template.name] = template


def template_of(group: GroupOp, kind: str = "cpu") -> Template:
    """The template of a group on targets of a kind.

    Raises:
        CompilerError: no generator for it.
    """
    names = [op.name for op in group.members] if group.group != "loops" else []
    for key in (*names, group.group):
        if (kind, key) in _TEMPLATES:
            return _TEMPLATES[kind, key]
    what = ", ".join(names) or group.group
    hint = "register one with register_template"
    raise CompilerError("no kernel generator for this target", op=what, expected=f"one for {kind}", hint=hint)


def template_named(name: str) -> Template:
    """The template that a schedule names.

    Raises:
        CompilerError: there is none of that name.
    """
    if name not in _BY_NAME:
        raise CompilerError("no such template", op="schedule", expected=", ".join(sorted(_BY_NAME)), found=name)
    return _BY_NAME[name]


def kernel_name(label: str, number: int) -> str:
    """The symbol of a group's kernel: its label for the first one."""
    return label if number == 0 else f"{label}_{number}"
