"""Whether derivatives are recorded: `no_grad` and `enable_grad`."""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from firebox.frontend.trace import STATE

P = ParamSpec("P")
R = TypeVar("R")


class _GradMode:
    """A context, and a decorator."""

    enabled: bool

    def __init__(self) -> None:
        self._outer: list[bool] = []

    def __enter__(self) -> None:
        self._outer.append(STATE.grad)
        STATE.grad = self.enabled

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STATE.grad = self._outer.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_GradMode):
    """Inside, results have no derivatives: ``with no_grad(): ...`` or ``@no_grad()``."""

    enabled = False


class enable_grad(_GradMode):
    """Inside, results have derivatives again."""

    enabled = True


def is_grad_enabled() -> bool:
    """Whether results of operations have derivatives now."""
    return STATE.grad
