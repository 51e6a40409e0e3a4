"""`Optimizer`, and the optimizers: a rule applied to flat groups of parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from firebox.errors import InputError, ShapeError
from firebox.frontend import execute
from firebox.frontend.cells import Param
from firebox.frontend.nn.state import like, listed, shape_of
from firebox.frontend.optim.groups import Unit, make_groups
from firebox.frontend.optim.rules import AdamRule, RMSpropRule, Rule, SGDRule, check
from firebox.frontend.tensor import Tensor
from firebox.frontend.trace import STATE

_EPSILON = 1e-6  # PyTorch's, in clip_grad_norm_


class Optimizer:
    """Changes parameters by their gradients.

    The parameters of one element type and device of a group move into one flat array, and so does each part of the
    state; a step is a few ops on these, however many parameters there are. Learning rate and step count are cells:
    neither a schedule nor the next step compiles anything anew.

    `step` consumes the gradients: afterwards every ``param.grad`` is None. A parameter without a gradient, or one that
    is frozen, keeps its value and its state; the step count is that of its group.

    Args:
        params: a module, parameters, (path, parameter) pairs, or dicts with ``params`` and settings of a group.
        rule: how parameters are updated.
        lr: learning rate.
        max_norm: limit of the norm of all gradients together; larger ones are scaled down to it.
    """

    def __init__(self, params: Any, rule: Rule, lr: float, max_norm: float | None = None) -> None:
        check("lr", lr)
        self.groups = make_groups(params, rule, lr)
        self.max_norm = max_norm
        self.grad_norm: Tensor | None = None
        """Norm of all gradients of the last step before clipping; only with ``max_norm``."""

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it sets that of every group."""
        return self.groups[0].lr

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.groups:
            group.lr = value

    def params(self) -> list[Param]:
        """Every parameter, group by group."""
        return [param for group in self.groups for _, param in group.named]

    def zero_grad(self) -> None:
        """Forget all gradients. `step` does so itself."""
        for param in self.params():
            param.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient, forget the gradients, and launch the work without waiting."""
        self._update()
        self.zero_grad()
        if STATE.trace is None:
            execute.flush()

    def _update(self) -> None:
        active = {unit: unit.active() for group in self.groups for unit in group.units}
        grads = {unit: unit.gradient(params) for unit, params in active.items() if params}
        if self.max_norm is not None and grads:
            grads = self._clipped(grads, self.max_norm)
        for group in self.groups:
            units = [unit for unit in group.units if unit in grads]
            if not units:
                continue
            step = group.step.value + 1.0
            group.step.value = step
            for unit in units:
                unit.update(group.rule, active[unit], grads[unit], group.lr_cell.value, step)

    def _clipped(self, grads: Mapping[Unit, Tensor], max_norm: float) -> dict[Unit, Tensor]:
        squares = [(grad * grad).sum() for grad in grads.values()]
        total = squares[0]
        for other in squares[1:]:
            total = total + other.to(total.device)
        self.grad_norm = total.sqrt()
        scale = (max_norm / (self.grad_norm + _EPSILON)).minimum(1.0)
        return {unit: grad * scale.to(grad.device).astype(grad.dtype) for unit, grad in grads.items()}

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """State by parameter path (``blocks.0.weight.exp_avg``), and ``group.0.step``, ``group.0.lr`` of each group."""
        result: dict[str, Tensor] = {}
        for position, group in enumerate(self.groups):
            result[f"group.{position}.step"] = group.step.value
            result[f"group.{position}.lr"] = group.lr_cell.value
            for unit in group.units:
                for path, param in unit.named:
                    for slot, cell in unit.state.items():
                        result[f"{path}.{slot}"] = unit.part(cell.value, param)
        return result

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, from tensors or NumPy arrays; on an error nothing is changed.

        Raises:
            InputError: entries are missing or there are others. ShapeError: an entry has another shape.
        """
        _check_state(self.state_dict(), state)
        for position, group in enumerate(self.groups):
            group.step.value = group.scalar(_number(state[f"group.{position}.step"]))
            group.lr = _number(state[f"group.{position}.lr"])
            for unit in group.units:
                _load_unit(unit, state)


def _check_state(expected: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    missing = [key for key in expected if key not in state]
    unexpected = [key for key in state if key not in expected]
    if missing or unexpected:
        kinds = (("missing", missing), ("unexpected", unexpected))
        found = "; ".join(f"{kind}: {listed(keys)}" for kind, keys in kinds if keys)
        raise InputError("the state does not fit the optimizer; nothing was loaded", op="load_state_dict", found=found)
    for key, tensor in expected.items():
        shape = shape_of(state[key])
        if shape != tensor.shape:
            raise ShapeError(f"'{key}' has another shape", op="load_state_dict", expected=tensor.shape, found=shape)


def _number(value: Any) -> float:
    return float(np.asarray(value).item())


def _load_unit(unit: Unit, state: Mapping[str, Any]) -> None:
    params = [param for _, param in unit.named]
    for slot, cell in unit.state.items():
        values = [like(cell, state[f"{path}.{slot}"]) for path, _ in unit.named]
        cell.value = unit.pack(values, params)


class SGD(Optimizer):
    """Stochastic gradient descent; see `SGDRule` for the formula and `Optimizer` for the rest."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, SGDRule(momentum, dampening, weight_decay, nesterov), lr, max_norm)


class Adam(Optimizer):
    """Adam with L2 weight decay (added to the gradient); see `AdamRule`."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, AdamRule(*betas, eps, weight_decay), lr, max_norm)


class AdamW(Optimizer):
    """Adam with decoupled weight decay; see `AdamRule`."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, AdamRule(*betas, eps, weight_decay, decoupled=True), lr, max_norm)


class RMSprop(Optimizer):
    """Gradients divided by the root of their mean square; see `RMSpropRule`."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, RMSpropRule(alpha, eps, weight_decay, momentum, centered), lr, max_norm)
