"""`nd.group`: ops that run as one kernel; what `fuse` makes and the schedule, the plan and the generators speak about.

The region holds ordinary nd ops, is isolated from above, and ends in ``nd.yield``. ``domain`` are the extents of the
loops that all its values share, ``axes`` the loops that are reduced; a value inside is either *full* (one element per
point of the domain) or a *row* value (one per point of the loops that are not reduced).
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import region_def, traits_def
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.utils.exceptions import VerifyException

from firebox import dims
from firebox.dialects.nd.aval import Aval, DimsAttr, Shape
from firebox.dialects.nd.base import Kind, NdOp, register
from firebox.dialects.nd.params import DIMS, INTS, TEXT
from firebox.dialects.nd.schedule import Schedule, ScheduleAttr
from firebox.errors import CompilerError

GROUP_KINDS = ("loops", "contract", "scan", "opaque")


@register
class GroupOp(NdOp):
    """A fused group.

    Parameters:
        group: ``loops`` (maps and reductions over one domain), ``contract`` (a contraction with its epilogue),
            ``scan`` or ``opaque`` (a single op, after the numbers it takes).
        label: name of the kernel; structurally equal groups have the same one (given by ``order``).
        domain: loop extents.
        axes: reduced loops, ascending.
    """

    name = "nd.group"
    kind = Kind.REGION
    params = {"group": TEXT, "label": TEXT, "domain": DIMS, "axes": INTS}
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def make(
        cls, inputs: Sequence[SSAValue], results: Sequence[Attribute], body: Block, params: dict[str, Any]
    ) -> "GroupOp":
        """A detached group; ``body`` ends in ``nd.yield`` of values of the result types."""
        return cls.create(operands=inputs, result_types=results, attributes=cls.encode(params), regions=[Region(body)])

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def domain(self) -> Shape:
        return tuple(DIMS.decode(self.attributes["domain"]))

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(INTS.decode(self.attributes["axes"]))

    @property
    def label(self) -> str:
        return str(TEXT.decode(self.attributes["label"]))

    @property
    def group(self) -> str:
        return str(TEXT.decode(self.attributes["group"]))

    @property
    def schedule(self) -> Schedule:
        """How it becomes a kernel; given by the pass `schedule`."""
        attribute = self.attributes.get("schedule")
        if not isinstance(attribute, ScheduleAttr):
            raise CompilerError("the group has no schedule yet", op=self.label or self.name)
        return attribute.data

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the group ends where it does: one reason per operand that another group computes."""
        attribute = self.attributes.get("borders")
        if not isinstance(attribute, ArrayAttr):
            return ()
        return tuple(a.data for a in attribute.data if isinstance(a, StringAttr))

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        last = self.block.last_op
        return tuple(last.operands) if last is not None else ()

    @property
    def dim_names(self) -> tuple[str, ...]:
        """The symbolic dims that a kernel of the group may need: in its types and in the parameters of its ops."""
        types = [a.shape for op in self.members for a in (*op.operand_avals, *op.avals)]
        params = [a.data for op in self.members for a in op.attributes.values() if isinstance(a, DimsAttr)]
        return dims.names(*(d for part in (self.domain, *types, *params) for d in part))

    @property
    def members(self) -> list[NdOp]:
        """The ops inside, without the terminator."""
        return [op for op in self.block.ops if isinstance(op, NdOp) and op is not self.block.last_op]

    @classmethod
    def result_avals(cls, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        raise NotImplementedError("a group's results come from its region")

    def verify_(self) -> None:
        for name, param in self.params.items():
            if not isinstance(self.attributes.get(name), param.attribute):
                raise VerifyException(f"nd.group: parameter '{name}' must be {param.description}")
        if self.group not in GROUP_KINDS:
            raise VerifyException(f"nd.group: group must be one of {', '.join(GROUP_KINDS)}, found {self.group!r}")
        if [a.type for a in self.block.args] != [o.type for o in self._operands]:
            raise VerifyException("nd.group: block arguments must have the operands' types")
        if [v.type for v in self.yielded] != [r.type for r in self.results]:
            raise VerifyException("nd.group: yielded values must have the results' types")
        if any(not 0 <= a < len(self.domain) for a in self.axes):
            raise VerifyException(f"nd.group: axes {self.axes} are not loops of a domain of rank {len(self.domain)}")
