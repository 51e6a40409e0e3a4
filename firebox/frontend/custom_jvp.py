"""`custom_jvp`: a function with a forward derivative of its own, from which backward follows.

A tangent is linear in the tangents of the arguments, so the pullback of a cotangent is the derivative of that linear
map, taken at tangents of 0. That makes a `custom_vjp` of the rule, which all transforms know.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend import tree
from firebox.frontend.creation import zeros_like
from firebox.frontend.custom import custom_vjp
from firebox.frontend.tensor import Tensor, as_tensor
from firebox.frontend.traced import check_callable
from firebox.frontend.transform import vjp
from firebox.frontend.tree import TreeDef

R = TypeVar("R", bound=Callable[..., Any])
MAX_DEPTH = 3
"""How often a rule may meet itself through the function that it belongs to."""


class _Inside(threading.local):
    """How many calls of its own rule a function is in."""

    def __init__(self) -> None:
        self.depth = 0


class custom_jvp:
    """A function with a derivative of its own: decorate it, then give the derivative with `defjvp`.

    ``rule(primals, tangents)`` gets two tuples like the arguments and returns the value and its tangent. The tangent is
    linear in the tangents; those of what is no float tensor are None. All derivatives follow from it: `jvp`, `grad`,
    `backward`, and those of derivatives. A rule may call the function itself; derivatives of that call follow the rule
    up to the third order, beyond it those of what the function computes.

    Raises:
        DTypeError: not a function. UserError, ShapeError: at a call, there is no rule, or what it returns does not fit.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        check_callable("custom_jvp", function)
        self.function = function
        self._rule: Callable[..., Any] | None = None
        self._inside = _Inside()
        functools.update_wrapper(self, function)

    def defjvp(self, rule: R) -> R:
        """Set the rule; also a decorator."""
        check_callable("defjvp", rule)
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if self._rule is None:
            raise UserError("no derivative is set", op="custom_jvp", hint="call f.defjvp(rule)")
        if self._inside.depth >= MAX_DEPTH:
            return self.function(*args)
        given = _Given(*tree.flatten(args))
        through = custom_vjp(self.function)
        through.defvjp(
            lambda *tensors: (self.function(*given.filled(tensors)), list(tensors)),
            lambda tensors, cotangent: given.pulled(self._ruled, tensors, cotangent),
        )
        return through(*given.tensors)

    def _ruled(self, primals: Any, tangents: Any) -> Any:
        assert self._rule is not None
        self._inside.depth += 1
        try:
            return self._rule(primals, tangents)
        finally:
            self._inside.depth -= 1


class _Given:
    """The arguments of one call.

    Attributes:
        tensors: the leaves that are tensors.
    """

    def __init__(self, leaves: Sequence[Any], structure: TreeDef) -> None:
        self._leaves = leaves
        self._structure = structure
        self._where = [k for k, v in enumerate(leaves) if isinstance(v, Tensor)]
        self.tensors = [as_tensor(leaves[k]) for k in self._where]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """The arguments with other tensors in place of theirs."""
        leaves = list(self._leaves)
        for k, tensor in zip(self._where, tensors, strict=True):
            leaves[k] = tensor
        return tree.unflatten(self._structure, leaves)

    def pulled(self, rule: Callable[..., Any], tensors: Sequence[Tensor], cotangent: Any) -> tuple[Any, ...]:
        """A cotangent for each tensor: the tangent as a function of the tangents, differentiated where those are 0."""
        floats = [k for k, t in enumerate(tensors) if t.dtype.is_float]
        seeds, result = tree.flatten(cotangent)
        kept = [k for k, seed in enumerate(seeds) if seed.dtype.is_float]

        def tangent(*moves: Tensor) -> list[Tensor]:
            found = self._tangent(rule, tensors, dict(zip(floats, moves, strict=True)), result)
            return [_fitting(found[k], seeds[k]) for k in kept]

        _, pullback = vjp(tangent, *[zeros_like(tensors[k]) for k in floats])
        cotangents = dict(zip(floats, pullback([seeds[k] for k in kept]), strict=True))
        return tuple(cotangents.get(k) for k in range(len(tensors)))

    def _tangent(
        self, rule: Callable[..., Any], tensors: Sequence[Tensor], moves: dict[int, Tensor], result: TreeDef
    ) -> list[Any]:
        """What the rule says the result's leaves move by."""
        directions: list[Any] = [None] * len(self._leaves)
        for number, k in enumerate(self._where):
            directions[k] = moves.get(number)
        returned = rule(self.filled(tensors), tree.unflatten(self._structure, directions))
        if not isinstance(returned, tuple) or len(returned) != 2:
            expected = "(value, tangent)"
            raise UserError("the rule must return a pair", op="custom_jvp", expected=expected, found=type(returned))
        leaves, structure = tree.flatten(returned[1])
        if structure != result:
            raise UserError("the tangent differs in structure from the value", op="custom_jvp", found=returned[1])
        return leaves


def _fitting(tangent: Any, like: Tensor) -> Tensor:
    given = as_tensor(tangent, like.device)
    if given.shape != like.shape:
        raise ShapeError("a tangent does not fit its value", op="custom_jvp", expected=like.aval, found=given.aval)
    if not given.dtype.is_float:
        raise DTypeError("a tangent is a float", op="custom_jvp", expected=like.aval, found=given.aval)
    return given.astype(like.dtype)
