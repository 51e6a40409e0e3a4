"""`apply`: any registered op by its class or full name, such as one that another package defines."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.base import Kind, NdOp, lookup, registered
from firebox.errors import UserError
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import record


def apply(op: type[NdOp] | str, *operands: Any, **params: Any) -> Any:
    """Apply an op to tensors: ``fb.apply("nd.add", x, y)``.

    Args:
        op: a registered op class, or the full name of one.
        operands: tensors, or what makes tensors; a Python number beside a tensor takes the tensor's element type.
        params: the op's parameters, all of them.

    Returns:
        A tensor; a tuple of tensors if the op has several results.

    Raises:
        UserError: no such op, one with regions, another number of operands or other parameters than the op has.
        ShapeError, DTypeError: the op does not take such operands.
    """
    cls = _find(op) if isinstance(op, str) else op
    if not (isinstance(cls, type) and issubclass(cls, NdOp)):
        raise UserError("not an op", op="apply", expected="the full name or the class of an op", found=repr(op))
    _check(cls, operands, params)
    results = tuple(wrap(v) for v in record(cls, [t._var for t in _as_tensors(operands)], params))
    return results[0] if len(results) == 1 else results


def _find(name: str) -> type[NdOp]:
    if name not in registered():
        raise UserError("no such op is registered", op=name, hint="import the package that defines it")
    return lookup(name)


def _check(op: type[NdOp], operands: Sequence[Any], params: dict[str, Any]) -> None:
    if op.kind is Kind.REGION:
        raise UserError("an op with regions is not applied to tensors", op=op.name, hint="use fb.grad, fb.vmap, ...")
    if op.arity is not None and len(operands) != op.arity:
        raise UserError("wrong number of operands", op=op.name, expected=op.arity, found=len(operands))
    if params.keys() != op.params.keys():
        expected, found = (", ".join(sorted(names)) or "none" for names in (op.params, params))
        raise UserError("other parameters than the op has", op=op.name, expected=expected, found=found)


def _as_tensors(operands: Sequence[Any]) -> list[Tensor]:
    like = next((o for o in operands if isinstance(o, Tensor)), None)
    return [like.lift(o) if like is not None and isinstance(o, bool | int | float) else as_tensor(o) for o in operands]
