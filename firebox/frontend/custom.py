"""Functions that decide what their derivative keeps and how it is computed: `checkpoint` and `custom_vjp`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from firebox.dialects.nd.transform import CheckpointOp, CustomVjpOp
from firebox.errors import ShapeError, UserError
from firebox.frontend import tree
from firebox.frontend.creation import zeros_like
from firebox.frontend.graph import Var
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.traced import Traced, avals_of, check_callable, placeholder, region_results
from firebox.frontend.tree import TreeDef

F = TypeVar("F", bound=Callable[..., Any])


def checkpoint(function: F) -> F:
    """The same function, whose inside a derivative computes again instead of keeping it in memory."""
    check_callable("checkpoint", function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        where = [k for k, v in enumerate(leaves) if isinstance(v, Tensor)]
        operands = [as_tensor(leaves[k])._var for k in where]
        places = [placeholder(v.aval, v, v.tracked) for v in operands]
        filled = list(leaves)
        for k, var in zip(where, places, strict=True):
            filled[k] = wrap(var)
        traced = Traced(lambda: function(*tree.unflatten(structure, filled), **kwargs), places, "checkpoint")
        avals = avals_of(traced.region.outputs)
        return traced.finish(region_results(CheckpointOp, operands, {}, avals, traced.region))

    return wrapped  # type: ignore[return-value]


class custom_vjp:
    """A function with a derivative of its own: decorate it, then give the two parts with `defvjp`.

    ``forward(*args)`` returns the value and residuals; ``backward(residuals, cotangent)`` returns a cotangent for each
    argument (None for none).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the two parts."""
        self._forward, self._backward = forward, backward

    def __call__(self, *args: Any) -> Any:
        if self._forward is None or self._backward is None:
            raise UserError("no derivative is set", op="custom_vjp", hint="call f.defvjp(forward, backward)")
        leaves, structure = tree.flatten(args)
        where = [k for k, v in enumerate(leaves) if isinstance(v, Tensor)]
        operands = [as_tensor(leaves[k])._var for k in where]
        places = [placeholder(v.aval, v) for v in operands]
        filled = list(leaves)
        for k, var in zip(where, places, strict=True):
            filled[k] = wrap(var)
        traced = Traced(lambda: self._checked_forward(structure, filled), places, "custom_vjp")
        traced.forbid_writes()
        value_def, residual_def = traced.structure.children
        count = value_def.size
        values, residuals = traced.outputs[:count], traced.outputs[count:]
        cotangents = [placeholder(v.aval, v) for v in (*residuals, *values)]
        back = Traced(
            lambda: self._cotangents(residual_def, value_def, cotangents, leaves, where, structure),
            cotangents,
            "custom_vjp",
        )
        back.forbid_writes()
        results = region_results(
            CustomVjpOp, operands, {"results": count}, avals_of(values), traced.region, back.region
        )
        return tree.unflatten(value_def, [wrap(v) for v in results])

    def _checked_forward(self, structure: TreeDef, filled: Sequence[Any]) -> Any:
        assert self._forward is not None
        result = self._forward(*tree.unflatten(structure, filled))
        if not isinstance(result, tuple) or len(result) != 2:
            raise UserError(
                "forward must return a pair", op="custom_vjp", expected="(value, residuals)", found=type(result)
            )
        return result

    def _cotangents(
        self,
        residual_def: TreeDef,
        value_def: TreeDef,
        places: Sequence[Var],
        leaves: Sequence[Any],
        where: Sequence[int],
        structure: TreeDef,
    ) -> list[Tensor]:
        """What backward returns, one for each tensor among the arguments, of its type."""
        assert self._backward is not None
        tensors = [wrap(v) for v in places]
        split = residual_def.size
        residuals = tree.unflatten(residual_def, tensors[:split])
        returned = self._backward(residuals, tree.unflatten(value_def, tensors[split:]))
        parts = returned if isinstance(returned, tuple) else (returned,)
        if len(parts) != len(structure.children):
            expected = f"{len(structure.children)}, one for each argument"
            raise UserError("wrong number of cotangents", op="custom_vjp", expected=expected, found=len(parts))
        flat: list[Any] = []
        for part, child in zip(parts, structure.children, strict=True):
            flat.extend([None] * child.size if part is None else tree.flatten(part)[0])
        return [_cotangent(flat[k], as_tensor(leaves[k])) for k in where]


def _cotangent(value: Any, like: Tensor) -> Tensor:
    if value is None:
        return zeros_like(like)
    given = as_tensor(value).astype(like.dtype)
    if given.shape != like.shape:
        raise ShapeError("a cotangent does not fit its argument", op="custom_vjp", expected=like.aval, found=given.aval)
    return given
