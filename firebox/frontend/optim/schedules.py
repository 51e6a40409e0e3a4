"""Learning-rate schedules: a factor of each group's first learning rate, as a function of the number of steps."""

import math

from firebox.errors import UserError
from firebox.frontend.optim.optimizer import Optimizer


class Schedule:
    """Sets the learning rates of an optimizer to ``base * factor(t)``: at once for t = 0, then at each `step`.

    Call ``schedule.step()`` after ``optimizer.step()``. Subclasses define `factor`.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base = [group.lr for group in optimizer.groups]
        self.count = 0
        self._set()

    def factor(self, t: int) -> float:
        """What the base learning rates are multiplied by after ``t`` steps."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on to the next learning rate."""
        self.count += 1
        self._set()

    def _set(self) -> None:
        factor = self.factor(self.count)
        for group, base in zip(self.optimizer.groups, self.base, strict=True):
            group.lr = base * factor

    def state_dict(self) -> dict[str, float]:
        """The number of steps, and the base of each group."""
        return {"count": self.count, **{f"base.{k}": base for k, base in enumerate(self.base)}}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from what `state_dict` gave."""
        self.count = int(state["count"])
        self.base = [float(state[f"base.{k}"]) for k in range(len(self.base))]
        self._set()


class ConstantSchedule(Schedule):
    """The base learning rate."""

    def factor(self, t: int) -> float:
        return 1.0


class StepSchedule(Schedule):
    """Multiplied by ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        _at_least("step_size", step_size, 1)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        return float(self.gamma ** (t // self.step_size))


class CosineSchedule(Schedule):
    """Linear warm-up to the base, then half a cosine down to ``final`` times the base (Loshchilov, Hutter 2017).

    During warm-up the factor is (t + 1) / warmup_steps; from ``total_steps`` on it stays at ``final``.
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, warmup_steps: int = 0, final: float = 0.0) -> None:
        _at_least("total_steps", total_steps, 1)
        if not 0 <= warmup_steps <= total_steps:
            expected = f"0 to {total_steps}"
            raise UserError("bad warmup_steps", op="CosineSchedule", expected=expected, found=warmup_steps)
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.final = final
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        if t < self.warmup_steps:
            return (t + 1) / self.warmup_steps
        left = self.total_steps - self.warmup_steps
        progress = min((t - self.warmup_steps) / left, 1.0) if left else 1.0
        return self.final + (1.0 - self.final) * 0.5 * (1.0 + math.cos(math.pi * progress))


class LinearSchedule(Schedule):
    """From ``start`` to ``end`` times the base in ``total_steps`` steps, then constant."""

    def __init__(self, optimizer: Optimizer, total_steps: int, start: float = 1.0, end: float = 0.0) -> None:
        _at_least("total_steps", total_steps, 1)
        self.total_steps = total_steps
        self.start = start
        self.end = end
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        return self.start + (self.end - self.start) * min(t / self.total_steps, 1.0)


class ExponentialSchedule(Schedule):
    """Multiplied by ``gamma`` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        return float(self.gamma**t)


def _at_least(name: str, value: int, low: int) -> None:
    if value < low:
        raise UserError(f"bad {name}", op="schedule", expected=f"at least {low}", found=value)
