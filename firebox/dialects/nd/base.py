"""`NdOp`, the base of all tensor ops: one class states everything that is true of its op. And the registry of ops."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, OpDef, get_accessors_from_op_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure
from xdsl.utils.classvar import is_classvar
from xdsl.utils.exceptions import VerifyException

from firebox import dims
from firebox.dialects.nd.aval import Aval, aval_of, tensor_type
from firebox.dialects.nd.formula import Formula
from firebox.dialects.nd.params import Param
from firebox.dims import DimLike
from firebox.errors import CompilerError, FireboxError

if TYPE_CHECKING:
    from firebox.dialects.nd.array import ArrayLike

Array = npt.NDArray[Any]
Rng = np.random.Generator


class Kind(Enum):
    """What passes may do with an op; they branch on this, never on the class."""

    MAP = "map"
    REDUCE = "reduce"
    CONTRACT = "contract"
    SCAN = "scan"
    RESHAPE = "reshape"
    OPAQUE = "opaque"
    COMPOSITE = "composite"
    REGION = "region"


@dataclass(frozen=True)
class Sample:
    """One case for the generic tests of an op: operand arrays and parameters.

    Attributes:
        arrays: operands.
        params: parameters.
        differentiable: operands whose gradient is checked (None: every float operand).
    """

    arrays: tuple[Array, ...]
    params: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] | None = None


class NdOp(IRDLOperation):
    """A tensor op. Subclasses give ``name``, ``kind`` and the parts below; `register` checks that none is missing.

    In the text form every op reads ``%r = nd.add %a, %b {param = ...} : (types) -> types``.
    """

    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    kind: ClassVar[Kind]
    arity: ClassVar[int | None] = None
    params: ClassVar[dict[str, Param]] = {}
    differentiable: ClassVar[bool] = True
    transcendental: ClassVar[bool] = False
    movement: ClassVar[bool] = False
    """Elements of the result are elements of the operand or a fill value, moved; nothing is computed."""

    checks_indices: ClassVar[bool] = False
    """It reads or writes where an operand says, and reports an index that is out of range while it runs."""

    splats: ClassVar[tuple[int, ...]] = ()
    """Operands that the op's own kernel takes as one number where all their elements are equal (kind opaque)."""

    # ---- the parts of an op --------------------------------------------------------------------------------------

    @classmethod
    def infer(cls, *avals: Any, **params: Any) -> Aval | tuple[Aval, ...]:
        """The type rule: avals of the results.

        Raises:
            ShapeError, DTypeError: names the op, what was expected and what was found.
        """
        raise NotImplementedError

    @classmethod
    def evaluate(cls, *arrays: Any, **params: Any) -> Any:
        """The meaning, in NumPy: an array, or a tuple for several results."""
        raise NotImplementedError

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], **params: Any) -> Formula:
        """One element of each result (kinds map, reduce, contract, scan, reshape)."""
        raise NotImplementedError

    @classmethod
    def vjp(
        cls,
        cotangents: "Sequence[ArrayLike]",
        operands: "Sequence[ArrayLike]",
        results: "Sequence[ArrayLike]",
        **params: Any,
    ) -> "Sequence[ArrayLike | None]":
        """Cotangents of the operands; None where there is none. Broadcasts are summed away by the caller."""
        raise NotImplementedError

    @classmethod
    def batch(
        cls, operands: "Sequence[ArrayLike]", batched: Sequence[bool], **params: Any
    ) -> "ArrayLike | Sequence[ArrayLike]":
        """The op over a new leading axis: ``batched`` operands carry it at axis 0, every result does afterwards."""
        raise NotImplementedError

    @classmethod
    def decompose(cls, operands: "Sequence[ArrayLike]", **params: Any) -> "ArrayLike | Sequence[ArrayLike]":
        """The same value in simpler ops (kind composite)."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        """Cases for the generic tests; small, with odd sizes, 0-d and empty arrays where they mean something."""
        raise NotImplementedError

    @classmethod
    def cost(cls, avals: Sequence[Aval], results: Sequence[Aval], **params: Any) -> float:
        """Arithmetic per result element, in additions; used to decide between keeping and recomputing."""
        return 10.0 if cls.transcendental else 1.0

    @classmethod
    def needs(cls, avals: Sequence[Aval], **params: Any) -> Sequence[DimLike]:
        """Expressions over symbolic dims that must not be negative where the op runs; sizes of results are others."""
        return ()

    # ---- construction and access ---------------------------------------------------------------------------------

    @classmethod
    def build_op(cls, operands: Sequence[SSAValue], params: dict[str, Any]) -> "NdOp":
        """A detached op with inferred result types."""
        results = cls.result_avals([aval_of(o.type) for o in operands], params)
        return cls.create(
            operands=operands, result_types=[tensor_type(a) for a in results], attributes=cls.encode(params)
        )

    @classmethod
    def result_avals(cls, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """`infer`, always as a tuple."""
        results = cls.infer(*avals, **params)
        return results if isinstance(results, tuple) else (results,)

    @classmethod
    def unproven(cls, avals: Sequence[Aval], results: Sequence[Aval], params: dict[str, Any]) -> list[DimLike]:
        """What must be 0 or more for the op to stay inside its operands, and is not for all values of the dims."""
        sizes = (d for aval in results for d in aval.shape)
        return [d for d in (*sizes, *cls.needs(avals, **params)) if not dims.never_negative(d)]

    @classmethod
    def evaluate_all(cls, arrays: Sequence[Array], params: dict[str, Any]) -> tuple[Array, ...]:
        """`evaluate`, always as a tuple of arrays."""
        with np.errstate(all="ignore"):
            results = cls.evaluate(*arrays, **params)
        return tuple(np.asarray(r) for r in (results if isinstance(results, tuple) else (results,)))

    @classmethod
    def encode(cls, params: dict[str, Any]) -> dict[str, Attribute]:
        """Parameters as attributes."""
        return {name: cls.params[name].encode(value) for name, value in params.items()}

    @property
    def values(self) -> dict[str, Any]:
        """The parameters as Python values."""
        return {name: param.decode(self.attributes[name]) for name, param in self.params.items()}

    @property
    def operand_avals(self) -> tuple[Aval, ...]:
        return tuple(aval_of(o.type) for o in self._operands)

    @property
    def avals(self) -> tuple[Aval, ...]:
        """Avals of the results."""
        return tuple(aval_of(r.type) for r in self.results)

    def get_formula(self) -> Formula:
        """The formula of this very op."""
        return self.formula(self.operand_avals, self.avals, **self.values)

    def verify_(self) -> None:
        for name, param in self.params.items():
            if not isinstance(self.attributes.get(name), param.attribute):
                raise VerifyException(f"{self.name}: parameter '{name}' must be {param.description}")
        if self.arity is not None and len(self._operands) != self.arity:
            raise VerifyException(f"{self.name}: takes {self.arity} operands, found {len(self._operands)}")
        try:
            expected = self.result_avals(self.operand_avals, self.values)
        except FireboxError as error:
            raise VerifyException(str(error)) from error
        if expected != self.avals:
            wanted, found = (", ".join(map(str, a)) for a in (expected, self.avals))
            raise VerifyException(f"{self.name}: results must be ({wanted}), found ({found})")


# ---- the registry ------------------------------------------------------------------------------------------------

_OPS: dict[str, type[NdOp]] = {}
_ALWAYS = ("infer", "evaluate", "samples", "batch")
_BY_KIND = {
    Kind.MAP: ("formula",),
    Kind.REDUCE: ("formula",),
    Kind.CONTRACT: ("formula",),
    Kind.SCAN: ("formula",),
    Kind.RESHAPE: ("formula",),
    Kind.OPAQUE: (),
    Kind.COMPOSITE: ("decompose",),
    Kind.REGION: (),
}

OpT = TypeVar("OpT", bound=type[NdOp])


def register(cls: OpT) -> OpT:
    """Class decorator: define the op for xDSL and enter it into the registry by its full name.

    Raises:
        CompilerError: a part of the op is missing, or the name is taken.
    """
    missing = [part for part in _required(cls) if not _overrides(cls, part)]
    if missing:
        raise CompilerError("the op class is incomplete", op=cls.name, expected=f"definitions of {', '.join(missing)}")
    if cls.name in _OPS:
        raise CompilerError("an op of this name is registered already", op=cls.name)
    definition = OpDef.from_pyrdl(_irdl_view(cls))
    for name, accessor in get_accessors_from_op_def(definition, cls.verify_).items():
        setattr(cls, name, accessor)
    _OPS[cls.name] = cls
    return cls


@cache
def _irdl_view(cls: type) -> Any:
    """The class without its class variables, whose lower-case names xDSL refuses in an op definition."""
    if not issubclass(cls, NdOp):
        return cls
    annotations = [get_annotations(base) for base in cls.__mro__ if issubclass(base, NdOp)]
    constants = {name for names in annotations for name, a in names.items() if is_classvar(a)}
    fields = {n: v for n, v in cls.__dict__.items() if n not in constants and n not in _PER_CLASS}
    metaclass: Any = type(cls)
    return metaclass(cls.__name__, tuple(_irdl_view(base) for base in cls.__bases__), fields)


_PER_CLASS = ("__dict__", "__weakref__", "__annotations__", "__firstlineno__", "__static_attributes__")


def _required(cls: type[NdOp]) -> tuple[str, ...]:
    if cls.kind is Kind.REGION:
        return ()
    derivative = ("vjp",) if cls.differentiable else ()
    return _ALWAYS + _BY_KIND[cls.kind] + derivative


def _overrides(cls: type[NdOp], part: str) -> bool:
    return getattr(cls, part).__func__ is not getattr(NdOp, part).__func__


def lookup(name: str) -> type[NdOp]:
    """The op class of a full name such as ``nd.add``.

    Raises:
        CompilerError: no such op.
    """
    if name not in _OPS:
        raise CompilerError("no such op is registered", op=name, hint="import the package that defines it")
    return _OPS[name]


def registered() -> dict[str, type[NdOp]]:
    """All ops by full name, in order of registration."""
    return dict(_OPS)
