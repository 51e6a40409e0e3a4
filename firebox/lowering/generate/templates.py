"""The relation table of templates: which generator turns a group into kernels.

A template is found by the name of the op that gives the group its kind (a contraction, a scan, an opaque op) and,
failing that, by the kind itself. Plugins add rows with `register_template`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.errors import CompilerError
from firebox.runtime.target import Target


@dataclass(frozen=True)
class Launch:
    """How the host starts a kernel.

    Attributes:
        count: units of work.
        grain: units that a thread takes at a time.
        scratch: bytes of scratch per thread; a multiple of 64 when symbolic.
    """

    count: DimLike
    grain: int
    scratch: DimLike = 0


@dataclass(frozen=True)
class Kernels:
    """What a template makes of a group: the function that is launched, helpers it calls, and its launch."""

    main: FuncOp
    helpers: tuple[FuncOp, ...] = ()


@dataclass(frozen=True)
class Template:
    """One generator.

    Attributes:
        name: stands in schedules.
        schedule: chooses a schedule for a group on a target.
        generate: the kernels of a scheduled group; ``dim_order`` are the program's symbolic dims, ``op_ids`` the table
            of source lines, which it extends.
        launch: how the kernel of a scheduled group is started.
    """

    name: str
    schedule: Callable[[GroupOp, Target], Schedule]
    generate: Callable[[GroupOp, Schedule, Target, Sequence[str], dict[str, int]], Kernels]
    launch: Callable[[GroupOp, Schedule], Launch]


HOST = "host"
"""Name in schedules of what the host does itself, with copies and fills: packing. There is no kernel."""

_TEMPLATES: dict[str, Template] = {}


def register_template(key: str, template: Template) -> None:
    """Use a template for groups of a kind (``loops``, ``contract``) or of an op (``nd.sort``)."""
    _TEMPLATES[key] = template


def template_of(group: GroupOp) -> Template:
    """The template of a group.

    Raises:
        CompilerError: no generator for it.
    """
    names = [op.name for op in group.members] if group.group != "loops" else []
    for key in (*names, group.group):
        if key in _TEMPLATES:
            return _TEMPLATES[key]
    what = ", ".join(names) or group.group
    raise CompilerError("no kernel generator for this target", op=what, hint="register one with register_template")
