"""The tensor dialect `nd`: what a program means. Importing it registers all of its ops."""

from xdsl.ir import Dialect

from firebox.dialects.nd import control, group, ops, transform
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, DimsAttr, Shape, aval_of, tensor_type
from firebox.dialects.nd.base import Kind, NdOp, Sample, lookup, register, registered
from firebox.dialects.nd.formula import Formula, Guard, Monoid, Read, ScalarBuilder
from firebox.dialects.nd.params import Literal, LiteralAttr, Param
from firebox.dialects.nd.schedule import Schedule, ScheduleAttr
from firebox.dialects.nd.value import Inserter, Value

ND = Dialect(
    "nd", [op for name, op in registered().items() if name.startswith("nd.")], [DimsAttr, LiteralAttr, ScheduleAttr]
)

__all__ = [
    "ND",
    "ArrayLike",
    "Aval",
    "DimsAttr",
    "Formula",
    "Guard",
    "Inserter",
    "Kind",
    "Literal",
    "LiteralAttr",
    "Monoid",
    "NdOp",
    "Param",
    "Read",
    "Sample",
    "ScalarBuilder",
    "Schedule",
    "ScheduleAttr",
    "Shape",
    "Value",
    "aval_of",
    "control",
    "group",
    "lookup",
    "ops",
    "register",
    "registered",
    "tensor_type",
    "transform",
]
