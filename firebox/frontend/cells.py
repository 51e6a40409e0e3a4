"""Cells, the only things that change: parameters, module buffers, optimizer state. Tensors are values.

A cell is used like the tensor that it holds. Inside a traced function reading and writing a cell is recorded, so that cells
become hidden inputs and outputs of the compiled program.
"""

import weakref
from collections.abc import Sequence
from typing import Any

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend import trace
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import STATE, LeafVar, Var

_ALIGNMENT = 256  # bytes between the starts of tensors in flat storage


class Slot:
    """The place of one changeable value. Identity matters: traces know what they read and write by it.

    Attributes:
        tensor: the value outside of all traces; None where there is none (a gradient).
        grad: the slot where gradients by this value land; None for values that take none.
        flat: the flat storage that holds the value, if any, and `position` its number there.
    """

    __slots__ = ("__weakref__", "flat", "grad", "position", "tensor")

    def __init__(self, tensor: Tensor | None = None, grad: "Slot | None" = None) -> None:
        self.grad = grad
        self.flat: Flat | None = None
        self.position = 0
        self.tensor = self.as_leaf(tensor)

    def get(self) -> Tensor | None:
        """The value, as the current trace sees it."""
        current = STATE.trace
        if current is not None:
            found: Tensor | None = current.read(self)
            return found
        return self.tensor if self.flat is None else self.flat.part(self)

    def set(self, value: Tensor | None) -> None:
        """A new value, inside of the current trace if there is one."""
        leaf = self.as_leaf(value)
        current = STATE.trace
        if current is not None:
            current.writes[self] = leaf
            return
        self.tensor = leaf
        if self.flat is not None:
            self.flat.note_write(self)

    def as_leaf(self, value: Tensor | None) -> Tensor | None:
        """The value as one that gradients are taken by, if this slot wants them."""
        if value is None or self.grad is None:
            return value
        var = value._var
        if type(var) is LeafVar and var.grad is self.grad:
            return value
        return wrap(LeafVar(var, self.grad))


class Cell(Tensor):
    """A tensor whose value can be set: ``cell.value = new`` or ``cell.set(new)``.

    Args:
        value: the initial value; a tensor, or anything that makes one.
        name: for messages and for the inputs of compiled programs.
    """

    __slots__ = ("__dict__", "name", "slot")

    def __init__(self, value: Any, name: str = "") -> None:
        self.slot = Slot(as_tensor(value))
        self.name = name

    @property
    def _var(self) -> Var:  # type: ignore[override]
        value = self.slot.get()
        assert value is not None
        return value._var

    @property
    def value(self) -> Tensor:
        """The present value."""
        value = self.slot.get()
        assert value is not None
        return value

    @value.setter
    def value(self, new: Any) -> None:
        self.set(new)

    def set(self, new: Any) -> None:
        """Hold another value; a module buffer may change its shape, a parameter may not.

        Raises:
            ShapeError: a parameter's new value has another shape.
        """
        self.slot.set(as_tensor(new, self.device))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Cell":
        copy = type(self)(self.value.detach(), name=self.name)
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        return copy


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
        tensor = as_tensor(value).detach()
        super().__init__(tensor, name)
        self._grad = Slot()
        self.requires_grad = tensor.dtype.is_float if requires_grad is None else requires_grad

    def set(self, new: Any) -> None:
        value = as_tensor(new, self.device)
        if value.shape != self.shape:
            raise ShapeError(
                "a parameter keeps its shape",
                op=self.name or "Param.set",
                expected=Aval(self.dtype, self.shape),
                found=value.aval,
                hint="make a new Param",
            )
        self.slot.set(value)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are taken by this parameter."""
        return self.slot.grad is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and not self.dtype.is_float:
            raise DTypeError(
                "only floats have gradients", op=self.name or "Param", expected="a float type", found=self.dtype.name
            )
        value = self.value
        self.slot.grad = self._grad if wanted else None
        self.slot.set(value if wanted else value.detach())

    @property
    def grad(self) -> Tensor | None:
        """The gradient that has been accumulated, or None."""
        return self._grad.get()

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._grad.set(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Param":
        copy = Param(self.value.detach(), self.requires_grad, self.name)
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        return copy


class Flat:
    """Several cells of one element type and device in one flat tensor; each cell's value is then a view of it.

    Args:
        cells: the cells; their values move into the flat tensor.
        align: bytes between the starts of two cells' values.

    Attributes:
        cell: holds the flat tensor. Reading ``value`` first takes in what was written to single cells.
        offsets: first element of each cell's value.
        size: number of elements.

    Raises:
        UserError: no cells, a cell that is in flat storage already, cells of several types or devices.
    """

    def __init__(self, cells: Sequence[Cell], align: int = _ALIGNMENT) -> None:
        self.slots = [cell.slot for cell in cells]
        self._check(cells)
        self.avals = [cell.aval for cell in cells]
        step = max(1, align // cells[0].dtype.itemsize)
        offsets, end = [], 0
        for aval in self.avals:
            offsets.append(end)
            end += -(-dims.evaluate(aval.size, {}) // step) * step
        self.offsets = tuple(offsets)
        self.size = max(end, 1)
        self._written: set[Slot] = set()
        self._parts: dict[Slot, Tensor] = {}
        self.cell = Cell(self._packed([cell.value for cell in cells]), name="flat")
        for position, slot in enumerate(self.slots):
            slot.flat, slot.position, slot.tensor = self, position, None

    def _check(self, cells: Sequence[Cell]) -> None:
        if not cells:
            raise UserError("flat storage needs at least one cell", op="Flat")
        if any(slot.flat is not None for slot in self.slots):
            raise UserError("a cell is in flat storage already", op="Flat")
        kinds = {(cell.dtype.name, cell.device.name): None for cell in cells}
        if len(kinds) > 1:
            raise UserError("cells of one element type and device only", op="Flat", found=list(kinds))

    def _packed(self, values: Sequence[Tensor]) -> Tensor:
        first = values[0]
        return first.one("pack", *values, offsets=self.offsets, size=self.size).detach()

    @property
    def value(self) -> Tensor:
        """The flat tensor."""
        if self._written:
            self.cell.value = self._packed([self.part(slot) for slot in self.slots])
            self._written.clear()
        return self.cell.value

    @value.setter
    def value(self, new: Tensor) -> None:
        self._written.clear()
        self.cell.value = new

    def part(self, slot: Slot, flat: Tensor | None = None) -> Tensor:
        """The value of one cell: what was written to it, else its view of the flat tensor."""
        if slot in self._written and flat is None:
            assert slot.tensor is not None
            return slot.tensor
        source = self.cell.value if flat is None else flat
        known = self._parts.get(slot)
        if known is not None and _base(known) is source._var:
            return known
        offset, aval = self.offsets[slot.position], self.avals[slot.position]
        part = slot.as_leaf(source.one("view", source, offset=(offset,), shape=aval.shape))
        assert part is not None
        if STATE.trace is None:
            self._parts[slot] = part
        return part

    def note_write(self, slot: Slot) -> None:
        """A single cell was written: the flat tensor takes it in when it is read next."""
        self._written.add(slot)


def _base(view: Tensor) -> Var | None:
    node = view._var.node
    return node.operands[0] if node is not None else None
