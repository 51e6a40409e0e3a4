"""Cells, the only things that change: parameters, module buffers, optimizer state. Tensors are values.

A cell is used like the tensor that it holds. Inside a traced function reading and writing a cell is recorded, so that
cells become hidden inputs and outputs of the compiled program.
"""

from collections.abc import Sequence
from typing import Any

from firebox.errors import DTypeError, ShapeError
from firebox.frontend.graph import Var
from firebox.frontend.slots import ALIGNMENT, Slot, Storage
from firebox.frontend.tensor import Tensor, as_tensor, wrap


class Cell(Tensor):
    """A tensor whose value can be set: ``cell.value = new`` or ``cell.set(new)``.

    Args:
        value: the initial value; a tensor, or anything that makes one.
        name: for messages and for the inputs of compiled programs.
    """

    __slots__ = ("__dict__", "name", "slot")

    def __init__(self, value: Any, name: str = "") -> None:
        self.slot = Slot(as_tensor(value).detach()._var)
        self.name = name

    @property
    def _var(self) -> Var:  # type: ignore[override]
        value = self.slot.get()
        assert value is not None
        return value

    @property
    def value(self) -> Tensor:
        """The present value."""
        return wrap(self._var)

    @value.setter
    def value(self, new: Any) -> None:
        self.set(new)

    def set(self, new: Any) -> None:
        """Hold another value; a module buffer may change its shape, a parameter may not.

        Raises:
            ShapeError: a parameter's new value has another shape.
        """
        self.slot.set(as_tensor(new, self.device)._var)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __copy__(self) -> "Cell":
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> "Cell":
        copy = memo[id(self)] = self._copy()
        copy.__dict__.update(self.__dict__)
        return copy

    def _copy(self) -> "Cell":
        return type(self)(self.value, name=self.name)


class Buffer(Cell):
    """State of a module that no gradient is taken by, such as running statistics."""

    __slots__ = ()


class Param(Cell):
    """A trainable value. Gradients of a backward land in ``grad``.

    Args:
        value: the initial value.
        requires_grad: whether gradients are taken; the default is for floats only.

    Raises:
        DTypeError: gradients are asked for, but the value is not floating.
    """

    __slots__ = ("_grad",)

    def __init__(self, value: Any, requires_grad: bool | None = None, name: str = "") -> None:
        super().__init__(value, name)
        self._grad = Slot(tracks=True)
        self.requires_grad = self.dtype.is_float if requires_grad is None else requires_grad

    def set(self, new: Any) -> None:
        value = as_tensor(new, self.device)
        if value.shape != self.shape:
            hint = "make a new Param"
            op = self.name or "Param.set"
            raise ShapeError("a parameter keeps its shape", op=op, expected=self.shape, found=value.shape, hint=hint)
        self.slot.set(value._var)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are taken by this parameter."""
        return self.slot.grad is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and not self.dtype.is_float:
            expected = "a float type"
            raise DTypeError(
                "only floats have gradients", op=self.name or "Param", expected=expected, found=self.dtype.name
            )
        if wanted != self.requires_grad:
            value = self._var
            self.slot.grad = self._grad if wanted else None
            self.slot.set(value)

    def requires_grad_(self, wanted: bool = True) -> "Param":
        self.requires_grad = wanted
        return self

    def set_require_grad(self, wanted: bool) -> "Param":
        """As `requires_grad_`: a parameter is a place, and stays the same one."""
        return self.requires_grad_(wanted)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that has been accumulated, or None."""
        value = self._grad.get()
        return None if value is None else wrap(value)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._grad.set(None if value is None else value._var)

    def _copy(self) -> "Param":
        return Param(self.value, self.requires_grad, self.name)


class Flat:
    """Several cells of one element type and device in one flat tensor; each cell's value is from then on a view of it.

    Args:
        cells: the cells; their values move into the flat tensor.
        align: bytes between the starts of two cells' values.

    Attributes:
        offsets: first element of each cell's value.
        size: number of elements of the flat tensor; the gaps between cells hold 0 at first.

    Raises:
        UserError: no cells, one that is in flat storage already, several types or devices.
    """

    def __init__(self, cells: Sequence[Cell], align: int = ALIGNMENT) -> None:
        self.storage = Storage([cell.slot for cell in cells], align)
        self.offsets = self.storage.offsets
        self.size = self.storage.size

    @property
    def value(self) -> Tensor:
        """The flat tensor, with what was written to single cells since it was last read."""
        return wrap(self.storage.read())

    @value.setter
    def value(self, new: Tensor) -> None:
        self.storage.write(new._var)

    def pack(self, values: Sequence[Tensor]) -> Tensor:
        """Tensors of the cells' shapes (such as their gradients) laid out like the flat tensor; gaps hold 0."""
        return values[0].one("pack", *values, offsets=self.offsets, size=self.size)
