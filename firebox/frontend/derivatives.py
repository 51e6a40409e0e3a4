"""What tensors offer about derivatives: leaves and their gradients, `backward`, and Burn's names for the same."""

from typing import TYPE_CHECKING, Any, Self

from firebox.errors import UserError
from firebox.frontend import backward
from firebox.frontend.gradients import Gradients
from firebox.frontend.graph import LeafVar, Var
from firebox.frontend.slots import Slot, detached

if TYPE_CHECKING:
    from firebox.frontend.tensor import Tensor


class Derivatives:
    """The part of `Tensor` that is about derivatives."""

    __slots__ = ()

    _var: Var

    def _wrap(self, var: Var) -> "Tensor":
        """A tensor of a Var."""
        raise NotImplementedError

    def _cotangent(self, value: Any) -> Var:
        """What a backward starts from."""
        raise NotImplementedError

    # ---- facts ---------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether a derivative may flow through this value; `is_tracked` as PyTorch calls it."""
        return self._var.tracked

    @property
    def is_leaf(self) -> bool:
        """Whether gradients are taken by this value itself (or none at all)."""
        return type(self._var) is LeafVar or not self._var.tracked

    def is_tracked(self) -> bool:
        """Whether a derivative may flow through this value: it is a leaf, or computed from one."""
        return self._var.tracked

    def is_require_grad(self) -> bool:
        """Whether gradients are taken by this value itself, so that a backward keeps one for it."""
        return type(self._var) is LeafVar

    def is_autodiff(self) -> bool:
        """Whether gradients can be asked for by this value, which `without_autodiff` ends and `autodiff` restores.

        It says nothing of whether they have been; see `is_require_grad` and `is_tracked`. The mark is the value's own:
        a copy on another device keeps it, results of operations do not.
        """
        return not isinstance(self._var, backward.PlainVar)

    # ---- leaves --------------------------------------------------------------------------------------------------

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Take gradients by this tensor: they land in ``grad``. Returns the tensor itself.

        Raises:
            DTypeError: it is not floating. UserError: it is the result of something that has gradients, or comes from
                `without_autodiff`.
        """
        if not wanted:
            self._var = detached(self._var)  # type: ignore[misc]
        elif type(self._var) is not LeafVar:
            self._var = backward.make_leaf(self._var, "requires_grad_")  # type: ignore[misc]
        return self

    def require_grad(self) -> "Tensor":
        """The same value as a leaf, by which gradients are taken; this tensor stays as it is.

        Raises:
            DTypeError: it is not floating. UserError: it is the result of something that has gradients, or comes from
                `without_autodiff`.
        """
        return self.set_require_grad(True)

    def set_require_grad(self, wanted: bool) -> "Tensor":
        """As `require_grad`, or `detach` for False."""
        if not wanted:
            return self.detach()
        if type(self._var) is LeafVar:
            return self  # type: ignore[return-value]
        return self._wrap(backward.make_leaf(self._var, "require_grad"))

    def detach(self) -> "Tensor":
        """The same value without derivatives."""
        return self._wrap(detached(self._var)) if self._var.tracked else self  # type: ignore[return-value]

    def without_autodiff(self) -> "Tensor":
        """The same value without derivatives, by which no gradients can be asked for either (Burn's inner tensor)."""
        return self._wrap(backward.plain(self._var))

    def autodiff(self) -> "Tensor":
        """The value of a tensor `without_autodiff` as one that gradients can be asked for; any other tensor itself."""
        return self if self.is_autodiff() else self._wrap(backward.associated(self._var))  # type: ignore[return-value]

    # ---- gradients -----------------------------------------------------------------------------------------------

    @property
    def grad(self) -> "Tensor | None":
        """The accumulated gradient of a leaf, or None. That of one backward alone is in its `Gradients`."""
        slot = self._grad_slot()
        value = None if slot is None else slot.get()
        return None if value is None else self._wrap(value)

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        slot = self._grad_slot()
        if slot is None:
            raise UserError("only leaves have gradients", op="grad", hint="call requires_grad_() on the tensor first")
        slot.set(None if value is None else value._var)

    def _grad_slot(self) -> Slot | None:
        var = self._var
        return var.grad if type(var) is LeafVar else None

    def grad_remove(self, gradients: Gradients) -> "Tensor | None":
        """Take this leaf's gradient out of what a backward found; see `Gradients.remove`."""
        return gradients.remove(self)  # type: ignore[arg-type]

    def grad_replace(self, gradients: Gradients, gradient: "Tensor") -> None:
        """Put another gradient by this leaf in what a backward found; see `Gradients.replace`."""
        gradients.replace(self, gradient)  # type: ignore[arg-type]

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> Gradients:
        """Add the derivatives of this value to ``grad`` of every leaf behind it; see `backward.backward`.

        Returns:
            The derivatives of this value alone, by leaf: ``grads.get(leaf)``.
        """
        cotangent = None if gradient is None else self._cotangent(gradient)
        found = backward.backward(self._var, cotangent, retain_graph or create_graph, create_graph)
        return Gradients({leaf.grad: self._wrap(value) for leaf, value in found})
