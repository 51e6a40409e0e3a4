"""`Module`, the base of layers and models: any object with fields; what is inside is found by walking them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from firebox import dims
from firebox.errors import UserError
from firebox.frontend.cells import Cell, Param
from firebox.frontend.nn import tree
from firebox.frontend.nn.state import load_into
from firebox.frontend.tensor import Tensor, device_or_dtype
from firebox.frontend.trace import Mode


def value_of(cell: Cell | None) -> Tensor | None:
    """What a cell holds; None where there is no cell, such as a bias that was switched off."""
    return None if cell is None else cell.value


class Module(tree.Node):
    """A layer or model. Subclasses set fields in ``__init__`` and define ``forward``; calling the module runs it.

    Any field is allowed. Parameters (`Param`) and buffers (other cells) are found in attributes, lists, tuples, dicts
    and dataclasses, at any depth; their paths are dotted, such as ``blocks.0.attention.weight``. A parameter held in
    two places is one parameter, known by its first path. Nothing is registered, and ``super().__init__()`` may be left
    out.
    """

    training = Mode(True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; subclasses define it with arguments of their own."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # ---- what is inside ------------------------------------------------------------------------------------------

    def named_modules(self) -> Iterator[tuple[str, "Module"]]:
        """This module (path ``""``) and every module below it, each once."""
        return ((path, part) for path, part in tree.walk(self) if isinstance(part, Module))

    def modules(self) -> Iterator["Module"]:
        return (module for _, module in self.named_modules())

    def named_cells(self) -> Iterator[tuple[str, Cell]]:
        """Every parameter and buffer with its path, each once."""
        return ((path, part) for path, part in tree.walk(self) if isinstance(part, Cell))

    def named_parameters(self) -> Iterator[tuple[str, Param]]:
        """Every parameter with its path, each once, frozen ones included."""
        return ((path, cell) for path, cell in self.named_cells() if isinstance(cell, Param))

    def parameters(self) -> Iterator[Param]:
        return (param for _, param in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Cell]]:
        """Cells that are no parameters, such as running statistics."""
        return ((path, cell) for path, cell in self.named_cells() if not isinstance(cell, Param))

    def buffers(self) -> Iterator[Cell]:
        return (buffer for _, buffer in self.named_buffers())

    @property
    def num_params(self) -> int:
        """Number of elements of all parameters."""
        return sum(dims.evaluate(p.value.size, {}) for p in self.parameters())

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """The values of all parameters and buffers by path, in order of definition."""
        return {path: cell.value for path, cell in self.named_cells()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Set parameters and buffers by path, from tensors or NumPy arrays; each keeps its own type and device.

        Either everything is loaded or, on an error, nothing. A shared parameter may stand under any of its paths.

        Args:
            strict: whether every path must be there and none besides; shapes must fit in any case.

        Raises:
            ShapeError: a value of another shape. InputError: missing or unexpected paths (strict).
        """
        load_into(self, state, strict)

    # ---- mode ----------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Training behaviour (dropout drops, batch norm uses its batch) on or off, here and below."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Inference behaviour, here and below."""
        return self.train(False)

    def requires_grad_(self, value: bool = True) -> Self:
        """Whether the floating parameters take gradients."""
        for param in self.parameters():
            if param.dtype.is_float:
                param.requires_grad = value
        return self

    def freeze(self) -> Self:
        """No gradients for the parameters: `backward` skips them and optimizers leave them as they are."""
        return self.requires_grad_(False)

    def unfreeze(self) -> Self:
        """Gradients for the parameters again."""
        return self.requires_grad_(True)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for param in self.parameters():
            param.grad = None

    # ---- changing everything -------------------------------------------------------------------------------------

    def apply(self, function: Callable[["Module"], Any]) -> Self:
        """Call ``function`` on every module, inner ones first."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def map(self, function: Callable[[str, Cell], Tensor]) -> Self:
        """Set every cell to ``function(path, cell)``."""
        for path, cell in list(self.named_cells()):
            cell.value = function(path, cell)
        return self

    def to(self, target: object = None, *, device: object = None, dtype: object = None) -> Self:
        """Move everything to a device and/or cast what is floating to an element type, in place.

        ``target`` is either of them: ``model.to("opencl:0")``, ``model.to(fb.bfloat16)``.

        Raises:
            UserError: an optimizer has the parameters in flat storage of one type and device.
        """
        if target is not None:
            device, dtype = device_or_dtype(target, device, dtype)
        moved = [(path, cell, _moved(cell.value, device, dtype)) for path, cell in self.named_cells()]
        for path, cell, value in moved:
            if cell.slot.storage is not None and (value.dtype is not cell.dtype or value.device is not cell.device):
                hint = "move the model first, then make the optimizer"
                raise UserError("an optimizer holds this parameter", op="Module.to", found=path, hint=hint)
        for _, cell, value in moved:
            cell.value = value
            if isinstance(cell, Param) and cell.grad is not None:
                cell.grad = _moved(cell.grad, device, dtype)
        return self

    # ---- text ----------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the brackets of this module's line."""
        return ""

    def __repr__(self) -> str:
        parts = [f"({name}): {_indent(repr(part))}" for name, part in self._shown()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return f"{head})" if not parts else "\n  ".join([head, *parts]) + "\n)"

    def _shown(self) -> Iterator[tuple[str, "Module"]]:
        """Direct sub-modules, also those in lists, tuples and dicts."""
        below: list[str] = []
        for path, module in self.named_modules():
            if path and not any(path.startswith(f"{p}.") for p in below):
                below.append(path)
                yield path, module


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _moved(value: Tensor, device: object, dtype: object) -> Tensor:
    plain = value.detach()
    cast = plain.astype(dtype) if dtype is not None and plain.dtype.is_float else plain
    return cast.to(device=device)
