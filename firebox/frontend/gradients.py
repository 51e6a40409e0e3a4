"""`Gradients`: what one backward found, by leaf."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.graph import LeafVar
from firebox.frontend.slots import Slot

if TYPE_CHECKING:
    from firebox.frontend.tensor import Tensor


class Gradients:
    """The gradients of one `backward`, by the leaf that they are taken by; nothing is added up here.

    ``grads = loss.backward()``, then ``grads.get(weight)``. A leaf is known by its identity: a parameter after an
    update is the same leaf, an equal tensor is not. Gradients that nobody reads are not computed for this container's
    sake once it is dropped.
    """

    __slots__ = ("_found",)

    def __init__(self, found: "Mapping[Slot, Tensor]") -> None:
        self._found = dict(found)

    def get(self, tensor: "Tensor") -> "Tensor | None":
        """The gradient by a leaf; None where the value does not depend on it, and for what takes no gradients.

        Raises:
            UserError: a result of other tensors: gradients by those are not kept.
        """
        slot = _slot_of(tensor, "Gradients.get")
        return None if slot is None else self._found.get(slot)

    def remove(self, tensor: "Tensor") -> "Tensor | None":
        """As `get`; afterwards this container has it no more."""
        slot = _slot_of(tensor, "Gradients.remove")
        return None if slot is None else self._found.pop(slot, None)

    def replace(self, tensor: "Tensor", gradient: "Tensor") -> None:
        """Hold another gradient by a leaf, such as a clipped one.

        Raises:
            UserError: the tensor is no leaf. ShapeError, DTypeError: the gradient does not fit it.
        """
        slot = _slot_of(tensor, "Gradients.replace")
        if slot is None:
            hint = "call require_grad() on the tensor first"
            raise UserError("only leaves have gradients", op="Gradients.replace", found=tensor.aval, hint=hint)
        if gradient.shape != tensor.shape:
            raise ShapeError("does not fit", op="Gradients.replace", expected=tensor.shape, found=gradient.shape)
        if gradient.dtype is not tensor.dtype:
            hint = f"cast it with astype({str(tensor.dtype.name)!r})"
            op, expected = "Gradients.replace", tensor.dtype.name
            raise DTypeError("does not fit", op=op, expected=expected, found=gradient.dtype.name, hint=hint)
        self._found[slot] = gradient

    def __contains__(self, tensor: "Tensor") -> bool:
        return _slot_of(tensor, "Gradients") in self._found

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Gradients(of {len(self._found)} leaves)"


def _slot_of(tensor: Any, op: str) -> Slot | None:
    """Where the gradient by a leaf lands, which is what the leaf is known by; None for what takes no gradients."""
    var = tensor._var
    if type(var) is LeafVar:
        return var.grad
    if var.tracked:
        raise UserError(
            "gradients by results of other tensors are not kept",
            op=op,
            expected="a leaf",
            found=f"{var.aval}, a result with derivatives of its own",
            hint="make it an argument: fb.grad(f)(x), or cut there with x.detach().require_grad()",
        )
    return None
