"""Update rules: pure functions of one flat array of parameters, its gradient and its state; formulas are PyTorch's.

A rule sees numbers that may change (learning rate, step count) as 0-d tensors and all others as Python numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from firebox.errors import UserError
from firebox.frontend.tensor import Tensor

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Rule:
    """How an optimizer changes parameters.

    ``slots`` names the state, one array like the parameters for each name, zeros at first.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    @property
    def state_names(self) -> tuple[str, ...]:
        """The slots that these settings need."""
        return self.slots

    def update(self, value: Tensor, grad: Tensor, state: State, lr: Tensor, step: Tensor) -> tuple[Tensor, State]:
        """New parameters and new state.

        Args:
            lr: learning rate, 0-d.
            step: number of this step as a float, 0-d, from 1.
        """
        raise NotImplementedError


def check(name: str, value: float, low: float = 0.0, high: float = math.inf) -> None:
    """Raises UserError unless ``low <= value < high``."""
    if not isinstance(value, Real) or not low <= value < high:
        raise UserError(f"bad {name}", op="optimizer", expected=f"{low} <= {name} < {high}", found=value)


@dataclass(frozen=True)
class SGDRule(Rule):
    """g += weight_decay * p;  v = momentum * v + (1 - dampening) * g  (v = g at the first step);  p -= lr * v.

    With Nesterov p -= lr * (g + momentum * v).
    """

    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check("momentum", self.momentum)
        check("weight_decay", self.weight_decay)
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            raise UserError("Nesterov momentum needs momentum > 0 and dampening 0", op="SGD")

    @property
    def state_names(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def update(self, value: Tensor, grad: Tensor, state: State, lr: Tensor, step: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay:
            grad = grad + value * self.weight_decay
        if not self.momentum:
            return value - grad * lr, {}
        fresh = grad if self.dampening == 0 else (step == 1.0).where(grad, grad * (1.0 - self.dampening))
        velocity = state["momentum"] * self.momentum + fresh
        direction = grad + velocity * self.momentum if self.nesterov else velocity
        return value - direction * lr, {"momentum": velocity}


@dataclass(frozen=True)
class AdamRule(Rule):
    """Adam (Kingma, Ba 2015); with ``decoupled`` weight decay AdamW (Loshchilov, Hutter 2019).

    m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;
    p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
    """

    slots = ("exp_avg", "exp_avg_sq")

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def __post_init__(self) -> None:
        check("beta1", self.beta1, 0.0, 1.0)
        check("beta2", self.beta2, 0.0, 1.0)
        check("eps", self.eps)
        check("weight_decay", self.weight_decay)

    def update(self, value: Tensor, grad: Tensor, state: State, lr: Tensor, step: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay and not self.decoupled:
            grad = grad + value * self.weight_decay
        if self.weight_decay and self.decoupled:
            value = value * (1.0 - lr * self.weight_decay)
        mean = state["exp_avg"] * self.beta1 + grad * (1.0 - self.beta1)
        square = state["exp_avg_sq"] * self.beta2 + grad * grad * (1.0 - self.beta2)
        rate = lr / _bias_correction(self.beta1, step)
        root = square.sqrt() * _bias_correction(self.beta2, step).rsqrt()
        return value - mean * rate / (root + self.eps), {"exp_avg": mean, "exp_avg_sq": square}


def _bias_correction(beta: float, step: Tensor) -> Tensor:
    """1 - beta^step, without cancellation."""
    return -(step * math.log(beta)).expm1() if beta else step * 0.0 + 1.0


@dataclass(frozen=True)
class RMSpropRule(Rule):
    """v = alpha * v + (1 - alpha) * g^2;  p -= lr * g / (sqrt(v) + eps).

    With ``momentum`` the change goes through a momentum buffer; with ``centered`` v is lowered by the square of the
    mean gradient.
    """

    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        check("alpha", self.alpha)
        check("eps", self.eps)
        check("weight_decay", self.weight_decay)
        check("momentum", self.momentum)

    @property
    def state_names(self) -> tuple[str, ...]:
        names = ["square_avg"] + ["momentum_buffer"] * bool(self.momentum) + ["grad_avg"] * self.centered
        return tuple(names)

    def update(self, value: Tensor, grad: Tensor, state: State, lr: Tensor, step: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay:
            grad = grad + value * self.weight_decay
        square = state["square_avg"] * self.alpha + grad * grad * (1.0 - self.alpha)
        new = {"square_avg": square}
        spread = square
        if self.centered:
            new["grad_avg"] = state["grad_avg"] * self.alpha + grad * (1.0 - self.alpha)
            spread = square - new["grad_avg"] * new["grad_avg"]
        direction = grad / (spread.sqrt() + self.eps)
        if self.momentum:
            direction = new["momentum_buffer"] = state["momentum_buffer"] * self.momentum + direction
        return value - direction * lr, new
