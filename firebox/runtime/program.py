"""`Program`: everything about compiled code that is not code - inputs, outputs, sizes, kernels, source lines."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from firebox import dims
from firebox.dims import DimLike
from firebox.errors import UserError
from firebox.runtime.canonical import canonical_json, damaged, load_canonical_json
from firebox.signature import Signature, TensorSpec, dim_from_json, specs_from_json

THREADS = "threads"
_MAX_ITEMS = 1 << 20
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.$-]{0,511}")

T = TypeVar("T")


@dataclass(frozen=True)
class KernelInfo:
    """One generated kernel, for people and tools.

    Attributes:
        name: its symbol.
        kind: the generator that made it, e.g. ``loops`` or ``contract``.
        ops: what was fused into it, in order.
        location: ``file:line`` of its first op, or empty.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    location: str = ""


@dataclass(frozen=True)
class Guard:
    """A condition on the dims without which the code would leave its buffers: ``left >= right``.

    Attributes:
        left, right: sizes.
        op: number of the op that needs it.
    """

    left: DimLike
    right: DimLike
    op: int = 0

    def __str__(self) -> str:
        return f"{self.left} >= {self.right}"

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether it is true for these values of the dims; a condition that divides by 0 is not."""
        try:
            return dims.evaluate(self.left, env) >= dims.evaluate(self.right, env)
        except UserError:
            return False

    @property
    def names(self) -> tuple[str, ...]:
        """The dims that it is about."""
        return dims.names(self.left, self.right)


@dataclass(frozen=True)
class Program:
    """What the dispatcher must know to call an entry point, and what tools show of it.

    Attributes:
        name: of the function it was made from.
        inputs: one argument each, in order.
        outputs: one result each, in order.
        dims: names of the symbolic dims, in the order in which the entry takes their values.
        arena: bytes of workspace; may use the dims and ``threads``.
        aliases: (output, input) pairs that may share one buffer.
        guards: conditions on the dims that the caller of the entry checks.
        entry: symbol of the entry point.
        kernels: what the code consists of.
        ops: op id -> name of the op, for those that can fail at run time or need a guard.
        locations: op id -> ``file:line``.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: tuple[str, ...] = ()
    arena: DimLike = 0
    aliases: tuple[tuple[int, int], ...] = ()
    guards: tuple[Guard, ...] = ()
    entry: str = "main"
    kernels: tuple[KernelInfo, ...] = ()
    ops: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()

    @property
    def signature(self) -> Signature:
        """Inputs and outputs, without ranges of the dims."""
        return Signature(self.inputs, self.outputs)

    def op_name(self, op: int) -> str:
        """The name of the op with this number; the program's own where there is none."""
        return self.ops[op] if 0 <= op < len(self.ops) else self.name

    def location(self, op: int) -> str:
        """``file:line`` of the op with this number, or an empty string."""
        return self.locations[op] if 0 <= op < len(self.locations) else ""

    def unmet(self, env: Mapping[str, int]) -> Guard | None:
        """The first guard that does not hold for these values of the dims."""
        return next((guard for guard in self.guards if not guard.holds(env)), None)

    def without_locations(self) -> "Program":
        """The same program with nothing that depends on where its source lies."""
        kernels = tuple(replace(kernel, location="") for kernel in self.kernels)
        return replace(self, kernels=kernels, locations=())

    def to_json(self) -> str:
        """Canonical JSON: equal programs give equal text. No floats."""
        data: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        data["inputs"] = [spec.to_dict() for spec in self.inputs]
        data["outputs"] = [spec.to_dict() for spec in self.outputs]
        data["arena"] = self.arena if isinstance(self.arena, int) else str(self.arena)
        data["guards"] = [{"condition": str(guard), "op": guard.op} for guard in self.guards]
        data["kernels"] = [{"name": k.name, "kind": k.kind, "ops": k.ops, "location": k.location} for k in self.kernels]
        return canonical_json(data)

    @staticmethod
    def from_json(text: str | bytes) -> "Program":
        """The program written by `to_json`. The text may come from anywhere: every field is checked.

        Raises:
            ArtifactError: not canonical JSON, or a field is missing, unknown, of the wrong form or out of range.
        """
        data = load_canonical_json(text, "program")
        names = {field.name for field in fields(Program)}
        if not isinstance(data, dict) or set(data) != names:
            raise damaged("program", "not a program description")
        program = Program(
            name=_text(data["name"]),
            inputs=specs_from_json(data["inputs"]),
            outputs=specs_from_json(data["outputs"]),
            dims=_list(data["dims"], _identifier),
            arena=dim_from_json(data["arena"]),
            aliases=_list(data["aliases"], _pair),
            guards=_list(data["guards"], _guard),
            entry=_identifier(data["entry"]),
            kernels=_list(data["kernels"], _kernel),
            ops=_list(data["ops"], _text),
            locations=_list(data["locations"], _text),
        )
        _check(program)
        return program


def _check(program: Program) -> None:
    """What holds between the fields; `from_json` has checked each alone."""
    of_inputs = {name for spec in program.inputs for name in dims.names(*spec.shape)}
    if len(set(program.dims)) != len(program.dims) or not of_inputs <= set(program.dims):
        raise damaged("program", "its dims are not those of its inputs")
    used = {name for spec in program.outputs for name in dims.names(*spec.shape)}
    used.update(name for guard in program.guards for name in guard.names)
    if not used <= set(program.dims) or not set(dims.names(program.arena)) <= {*program.dims, THREADS}:
        raise damaged("program", "a size depends on an unknown dim")
    outputs = [output for output, _ in program.aliases]
    inputs = [source for _, source in program.aliases]
    if len(set(outputs)) != len(outputs) or len(set(inputs)) != len(inputs):
        raise damaged("program", "a buffer is shared twice")
    for output, source in program.aliases:
        if output >= len(program.outputs) or source >= len(program.inputs):
            raise damaged("program", "an alias names no input or output")
        if program.outputs[output].nbytes != program.inputs[source].nbytes:
            raise damaged("program", "an output shares a buffer of another size")


def _kernel(data: Any) -> KernelInfo:
    if not isinstance(data, dict) or set(data) != {"name", "kind", "ops", "location"}:
        raise damaged("program", "not a kernel description")
    return KernelInfo(
        _identifier(data["name"]), _text(data["kind"]), _list(data["ops"], _text), _text(data["location"])
    )


def _guard(data: Any) -> Guard:
    if not isinstance(data, dict) or set(data) != {"condition", "op"} or type(data["op"]) is not int:
        raise damaged("program", "not a guard")
    left, sign, right = _text(data["condition"]).partition(" >= ")
    if not sign:
        raise damaged("program", "not a condition on dims")
    return Guard(dim_from_json(left), dim_from_json(right), data["op"])


def _list(data: object, item: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(data, list) or len(data) > _MAX_ITEMS:
        raise damaged("program", "not a list")
    return tuple(item(value) for value in data)


def _pair(data: Any) -> tuple[int, int]:
    if not isinstance(data, list) or len(data) != 2 or any(type(n) is not int or n < 0 for n in data):
        raise damaged("program", "not a pair of indices")
    return data[0], data[1]


def _text(data: object) -> str:
    if not isinstance(data, str) or len(data) > _MAX_ITEMS:
        raise damaged("program", "not a text")
    return data


def _identifier(data: object) -> str:
    if not isinstance(data, str) or _IDENTIFIER.fullmatch(data) is None:
        raise damaged("program", "not a name")
    return data
