"""Ops with operand types and parameters, checked once: what recording an op again looks up."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import firebox.dialects.nd.ops  # noqa: F401  (registers the primitive ops)
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.params import FLOAT
from firebox.errors import DTypeError, FireboxError, ShapeError

if TYPE_CHECKING:
    from firebox.frontend.plan import Plan

_MAX_ENTRIES = 1 << 16
_uids = itertools.count()


class HasAval(Protocol):
    """An operand, as far as its type goes."""

    aval: Aval


_avals: dict[Aval, Aval] = {}


def intern(aval: Aval) -> Aval:
    """The one object of an aval, so that identity decides equality on the hot paths."""
    return _avals.setdefault(aval, aval)


class Entry:
    """An op with its operand types and parameters, checked once: what `infer` says about it.

    Attributes:
        uid: number of this entry; equal only for the same op, operand types and parameters.
        results: avals of the results.
        floats: which results can carry a derivative.
        is_view: the op is a view of flat memory.
        body: what is put in place of a call of a function that was traced once; None for an op.
    """

    __slots__ = ("body", "floats", "is_view", "op", "operands", "params", "results", "uid")

    def __init__(
        self,
        op: type[NdOp],
        operands: tuple[Aval, ...],
        params: dict[str, Any],
        results: Sequence[Aval],
        body: "Plan | None" = None,
    ) -> None:
        self.uid = next(_uids)
        self.body = body
        self.op = op
        self.operands = operands
        self.params = params
        self.results = tuple(intern(a) for a in results)
        self.is_view = op.name == "nd.view"
        self.floats = tuple(op.differentiable and a.dtype.is_float for a in self.results)


_entries: dict[tuple[Any, ...], Entry] = {}


def entry_of(op: type[NdOp], operands: Sequence[HasAval], params: dict[str, Any]) -> Entry:
    """The entry of an op on these operands; infers the result types when it is new.

    Raises:
        UserError: the op does not take such operands.
    """
    if params:
        key = (op, tuple(params.items()), *[id(v.aval) for v in operands])
    else:
        key = (op, *[id(v.aval) for v in operands])
    try:
        entry = _entries.get(key)
    except TypeError:  # a parameter that is no hashable value, such as a list of axes
        return entry_of(op, operands, {name: _hashable(value) for name, value in params.items()})
    if entry is None or entry.op in _WITH_FLOATS:
        entry = _infer(op, operands, params, key)
    return entry


_WITH_FLOATS: set[type[NdOp]] = set()
"""Ops with float parameters: 0.0 and -0.0 are equal keys but different parameters."""


def _infer(op: type[NdOp], operands: Sequence[HasAval], params: dict[str, Any], key: tuple[Any, ...]) -> Entry:
    if any(p is FLOAT for p in op.params.values()):
        _WITH_FLOATS.add(op)
        key = (key, *[repr(value) for value in params.values() if isinstance(value, float)])
        known = _entries.get(key)
        if known is not None:
            return known
    avals = tuple(v.aval for v in operands)
    try:
        _check_params(op, params)
        results = op.result_avals(avals, params)
        _check_sizes(results)
    except FireboxError as error:
        error.op = error.op or op.name.partition(".")[2]
        raise
    if len(_entries) >= _MAX_ENTRIES:
        _entries.clear()
    entry = _entries[key] = Entry(op, avals, params, results)
    return entry


_regions: dict[tuple[Any, ...], tuple[Entry, tuple[Aval, ...]]] = {}


def region_entry(op: type[NdOp], operands: Sequence[HasAval], params: dict[str, Any], results: Sequence[Aval]) -> Entry:
    """The entry of a region op; its result types are known from the trace of its region."""
    given = tuple(results)
    key = (op, tuple(params.items()), tuple([id(v.aval) for v in operands]), tuple(map(id, given)))
    known = _regions.get(key)
    if known is None:
        if len(_regions) >= _MAX_ENTRIES:
            _regions.clear()
        entry = Entry(op, tuple(v.aval for v in operands), params, given)
        known = _regions[key] = (entry, given)  # kept, as the key has their identities
    return known[0]


def _check_params(op: type[NdOp], params: dict[str, Any]) -> None:
    for name, value in params.items():
        param = op.params.get(name)
        if param is not None and not param.accepts(value):
            raise DTypeError(f"not a value of the parameter '{name}'", expected=param.description, found=repr(value))


def _check_sizes(results: Sequence[Aval]) -> None:
    for aval in results:
        if any(isinstance(size, int) and size < 0 for size in aval.shape):
            raise ShapeError("a size is negative", expected="sizes of 0 or more", found=str(aval))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, list | tuple) else value
