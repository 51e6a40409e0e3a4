"""Public functions take what makes a tensor (arrays, lists, numbers) where the package itself passes tensors."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from firebox.dialects.nd.array import ArrayLike
from firebox.errors import DTypeError
from firebox.frontend.functions.support import A
from firebox.frontend.tensor import Tensor, as_tensor

_ONE, _OPTIONAL, _SEVERAL = "one", "optional", "several"
_KINDS: tuple[tuple[Any, str], ...] = (
    (A, _ONE),
    (Tensor, _ONE),
    (ArrayLike, _ONE),
    (Tensor | None, _OPTIONAL),
    (ArrayLike | None, _OPTIONAL),
    (A | None, _OPTIONAL),
    (Sequence[A], _SEVERAL),  # type: ignore[valid-type]
)


def accepting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its array arguments made tensors: those of the parameters of type ``A``.

    A call may raise DTypeError for an argument that makes no tensor.
    """
    parameters = inspect.signature(function).parameters
    by_name = {name: kind for name, p in parameters.items() for wanted, kind in _KINDS if p.annotation == wanted}
    by_position = [by_name.get(name) for name in parameters]
    repeats = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    last = sum(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters.values()) - 1
    plain = tuple(k for k, kind in enumerate(by_position) if kind is not None and kind is not _SEVERAL)
    simple = _SEVERAL not in by_position and not repeats

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        if simple and not kwargs:
            for position in plain:
                if position < count and not isinstance(args[position], ArrayLike):
                    break
            else:
                return function(*args)
        like = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        kinds = [by_position[min(k, last)] for k in range(count)]
        made = [_made(function, value, kind, like) for value, kind in zip(args, kinds, strict=True)]
        return function(*made, **{n: _made(function, v, by_name.get(n), like) for n, v in kwargs.items()})

    return public


def _made(function: Callable[..., Any], value: Any, kind: str | None, like: Tensor | None) -> Any:
    """An argument as the function takes it."""
    if kind is _SEVERAL:
        if isinstance(value, str) or not isinstance(value, ArrayLike | Sequence):
            found = type(value).__name__
            raise DTypeError("not a list of arrays", op=function.__name__, expected="tensors or arrays", found=found)
        items: Any = value
        return [_made(function, item, _ONE, like) for item in items]
    if kind is None or isinstance(value, ArrayLike) or (kind is _OPTIONAL and value is None):
        return value
    if value is None or isinstance(value, str):
        raise DTypeError("not an array", op=function.__name__, expected="a tensor or an array", found=repr(value))
    return as_tensor(value, None if like is None else like.device)
