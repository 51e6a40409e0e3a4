"""`Schedule`: how a group is turned into a kernel; an attribute of `nd.group` that can be read, printed and edited."""

from dataclasses import dataclass, fields

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class Schedule:
    """Decisions for one group on one target. Only what has no meaning for the values stands here.

    Attributes:
        template: name of the generator.
        lane: the loop that fills the vector lanes, e.g. ``d1``; ``flat`` for all loops of a map; empty for scalar code.
        lanes: elements of a vector.
        block: turns of the lane loop (a parallel one) in one unit of work.
        unroll: vectors in flight: independent accumulators of a reduction, or vectors of a map.
        grain: units of work that one thread takes at a time.
        tile: rows, one number for each loop of `rows`, and columns of a contraction's register tile.
        nontemporal: stores bypass the caches.
        masked: every turn of a parallel lane loop has a mask, so that a large body is written once.
        rows: the loops that give a contraction's register tile its rows, e.g. ``d2,d3``.
        blocks: turns of a contraction's loops that are one piece of work, e.g. ``d0:64,r0:256``; where not named, all.
        pack: operands of a contraction that are copied to scratch, block by block.
        group: work-items of a work-group, on OpenCL.
        rows_per_group: rows that a work-group reduces side by side.
        split: work-groups that share one reduction, each with a part of it.
        stages: tiles of a contraction that are on their way to local memory at a time.
    """

    template: str
    lane: str = ""
    lanes: int = 1
    block: int = 0
    unroll: int = 1
    grain: int = 1
    tile: tuple[int, ...] = ()
    nontemporal: bool = False
    masked: bool = False
    rows: str = ""
    blocks: str = ""
    pack: tuple[int, ...] = ()
    group: int = 0
    rows_per_group: int = 1
    split: int = 1
    stages: int = 1

    def __str__(self) -> str:
        """``template=loops lane=d1 lanes=16``: fields that differ from their defaults."""
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "template" or value != field.default:
                text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
                parts.append(f"{field.name}={text}")
        return " ".join(parts)

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read what ``str`` prints.

        Raises:
            ValueError: unknown field or malformed value; names it.
        """
        values: dict[str, object] = {}
        kinds = {field.name: field.type for field in fields(cls)}
        for part in text.split():
            name, _, value = part.partition("=")
            if name not in kinds:
                raise ValueError(f"a schedule has no field {name!r}; it has {', '.join(kinds)}")
            values[name] = _decode(name, kinds[name], value)
        return cls(**values)  # type: ignore[arg-type]


def _decode(name: str, kind: object, value: str) -> object:
    if kind is str:
        return value
    if kind is bool:
        if value not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, found {value!r}")
        return value == "true"
    parts = value.split("x") if value else []
    if not all(p.isdigit() for p in parts) or (kind is int and len(parts) != 1):
        raise ValueError(f"{name} must be a number, found {value!r}")
    return int(parts[0]) if kind is int else tuple(int(p) for p in parts)


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """``#nd.schedule<"template=loops lane=d1 lanes=16">``."""

    name = "nd.schedule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            return Schedule.parse(text)
        except (ValueError, TypeError) as error:
            raise VerifyException(f"malformed schedule: {error}") from error

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))
