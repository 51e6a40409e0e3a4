"""Derivatives of functions, and functions over batches. Each records one region op that holds the traced function."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.transform import GradOp, JvpOp, VmapOp
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend import tree
from firebox.frontend.creation import eye, zeros_like
from firebox.frontend.crossing import Pull, batch, crosses, push
from firebox.frontend.graph import CallNode, Region, Var, scalar_var
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import STATE, record, record_region
from firebox.frontend.traced import (
    Arguments,
    Traced,
    avals_of,
    check_callable,
    device_of,
    flows_through,
    placeholder,
    region_results,
)
from firebox.frontend.tree import TreeDef
from firebox.frontend.values import static_shape

# ---- reverse mode ------------------------------------------------------------------------------------------------


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the value of ``function`` and its derivatives by some of its arguments.

    Args:
        function: returns a float of one element, or with ``has_aux`` a pair of that and anything else.
        argnums: which positional arguments: nested tensors, or a module (then the derivatives are a dict by path).

    Raises:
        DTypeError: by or of something that is not floating. ShapeError: the value has more than one element.
    """
    check_callable("grad", function)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = Arguments(args, numbers, "grad")
        given.check_floats()
        leaves = [t._var for t in given.leaves]
        places = [placeholder(v.aval, v) for v in leaves]

        def call() -> Any:
            result = given.call(function, places, kwargs)
            if has_aux and not (isinstance(result, tuple) and len(result) == 2):
                raise UserError("no pair", op="grad", expected="(value, aux), as has_aux says", found=repr(result)[:80])
            loss, aux = result if has_aux else (result, None)
            return _scalar(loss), aux

        traced = Traced(call, places, "grad")
        loss = traced.outputs[0]
        seed = scalar_var(1.0, loss.aval.dtype)
        results = _pulled(traced, leaves, [_ones(seed, loss)])
        value, aux = traced.finish(results[len(leaves) :])
        grads = given.unflatten([wrap(v) for v in results[: len(leaves)]])
        gradient = grads[0] if isinstance(argnums, int) else tuple(grads)
        return ((value, aux) if has_aux else value), gradient

    return wrapped


def _pulled(traced: Traced, leaves: Sequence[Var], seeds: Sequence[Var]) -> list[Var]:
    """Cotangents of the leaves for those of the first outputs; then all outputs."""
    region = traced.region
    if not crosses(region):
        params = {"wrt": len(leaves), "seeds": len(seeds)}
        avals = (*avals_of(leaves), *avals_of(region.outputs))
        return region_results(GradOp, [*leaves, *seeds], params, avals, region)
    traced.bind(leaves)
    flows = flows_through([*leaves, *seeds], region) and STATE.grad
    return [*Pull(region, seeds, flows).results, *traced.values(flows)]


def _scalar(loss: Any) -> Tensor:
    value = as_tensor(loss)
    if not value.dtype.is_float:
        raise DTypeError("only floats have derivatives", op="grad", expected="a float", found=value.aval)
    if value.aval.size != 1:
        hint = "reduce it (mean, sum), or use fb.vjp or fb.jacobian"
        raise ShapeError(
            "the function must return one number", op="grad", expected="one element", found=value.aval, hint=hint
        )
    return value


def _ones(one: Var, like: Var) -> Var:
    if like.aval.shape == ():
        return one
    return record(lookup("nd.broadcast_to"), (one,), {"shape": like.aval.shape}, like.device)[0]


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the derivatives of ``function`` by some of its arguments; ``has_aux``: and the aux."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value at ``primals``, and the function from cotangents of the value to a tuple of those of the primals."""
    given = Arguments(primals, range(len(primals)), "vjp")
    given.check_floats()
    leaves = [t._var for t in given.leaves]
    places = [placeholder(v.aval, v) for v in leaves]
    traced = Traced(lambda: given.call(function, places, {}), places, "vjp")
    traced.forbid_writes()
    for output in traced.outputs:
        if not output.aval.dtype.is_float:
            raise DTypeError("only floats have derivatives", op="vjp", expected="float results", found=output.aval)
    value = tree.unflatten(traced.structure, [wrap(v) for v in _called(traced, leaves)])

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        seeds = _fitting(cotangents, traced, "vjp")
        results = _pulled(traced, leaves, seeds)
        return tuple(given.unflatten([wrap(v) for v in results[: len(leaves)]]))

    return value, pullback


def _called(traced: Traced, leaves: Sequence[Var]) -> list[Var]:
    """The outputs for the leaves."""
    flows = STATE.grad and flows_through(leaves, traced.region)
    if crosses(traced.region):
        traced.bind(leaves)
        return traced.values(flows)
    call = CallNode(leaves, traced.region, avals_of(traced.outputs), flows)
    return record_region(call, device_of(leaves, (traced.region,)))


def _fitting(values: Any, traced: Traced, op: str) -> list[Var]:
    """Cotangents in the structure of the outputs, cast to their types."""
    leaves, structure = tree.flatten(values)
    if structure != traced.structure:
        raise UserError("the cotangents differ in structure from the results", op=op, found=values)
    found = []
    for leaf, output in zip(leaves, traced.outputs, strict=True):
        value = as_tensor(leaf).astype(output.aval.dtype)
        if value.shape != output.aval.shape:
            raise ShapeError("a cotangent does not fit its result", op=op, expected=output.aval, found=value.aval)
        found.append(value._var)
    return found


# ---- forward mode ------------------------------------------------------------------------------------------------


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value at ``primals`` and its derivative in the direction ``tangents``.

    Results that are no floats have tangent 0.
    """
    given = Arguments(primals, range(len(primals)), "jvp")
    given.check_floats()
    directions = Arguments(tangents, range(len(tangents)), "jvp")
    leaves = [t._var for t in given.leaves]
    if directions.structures != given.structures:
        raise UserError("the tangents differ in structure from the primals", op="jvp")
    moves = [t.astype(v.aval.dtype)._var for t, v in zip(directions.leaves, leaves, strict=True)]
    for move, leaf in zip(moves, leaves, strict=True):
        if move.aval.shape != leaf.aval.shape:
            raise ShapeError("a tangent does not fit its primal", op="jvp", expected=leaf.aval, found=move.aval)
    places = [placeholder(v.aval, v) for v in leaves]
    traced = Traced(lambda: given.call(function, places, {}), places, "jvp")
    if crosses(traced.region):
        return _pushed(traced, leaves, moves)
    outputs = traced.region.outputs
    order = sorted(range(len(traced.outputs)), key=lambda k: not outputs[k].aval.dtype.is_float)
    order += range(len(traced.outputs), len(outputs))
    seeds = sum(v.aval.dtype.is_float for v in traced.outputs)
    region = Region(places, [outputs[k] for k in order])
    avals = avals_of(region.outputs)
    params = {"wrt": len(leaves), "seeds": seeds}
    results = region_results(JvpOp, [*leaves, *moves], params, (*avals, *avals[:seeds]), region)
    by_position = dict(zip(order, results, strict=False))
    values = [by_position[k] for k in range(len(outputs))]
    moved = dict(zip(order[:seeds], results[len(avals) :], strict=True))
    derivative = [wrap(moved[k]) if k in moved else zeros_like(wrap(values[k])) for k in range(len(traced.outputs))]
    return traced.finish(values), tree.unflatten(traced.structure, derivative)


def _pushed(traced: Traced, leaves: Sequence[Var], moves: Sequence[Var]) -> tuple[Any, Any]:
    """Value and derivative of a function that goes from device to device."""
    traced.bind(leaves)
    flows = flows_through([*leaves, *moves], traced.region) and STATE.grad
    values = traced.values(flows)
    found = push(traced.region, moves, flows)[: len(traced.outputs)]
    derivative = [zeros_like(wrap(v)) if d is None else wrap(d) for v, d in zip(values, found, strict=False)]
    return traced.finish(values), tree.unflatten(traced.structure, derivative)


# ---- batching ----------------------------------------------------------------------------------------------------


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """``function`` for every slice of its arguments at once.

    Args:
        in_axes: which axis of the arguments is mapped; None for an argument that is the same for all. One value for all
            arguments, or a tuple with one for each, which may be nested like the argument.
        out_axes: where the mapped axis goes in the results.

    Random numbers drawn inside are the same for every slice. Cells cannot be written inside.

    Raises:
        ShapeError: the mapped axes differ in size, or there is no such axis. UserError: nothing is mapped.
    """
    check_callable("vmap", function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        prefix = in_axes if isinstance(in_axes, list | tuple) else (in_axes,) * len(args)
        axes = tree.broadcast_prefix(tuple(prefix), structure, "in_axes")
        mapped = [(as_tensor(v), a) for v, a in zip(leaves, axes, strict=True) if a is not None]
        if not mapped:
            raise UserError(
                "nothing is mapped over", op="vmap", expected="an axis for at least one argument", found=in_axes
            )
        normal = [_axis(t, a) for t, a in mapped]
        size = mapped[0][0].shape[normal[0]]
        for (value, _), axis in zip(mapped, normal, strict=True):
            if value.shape[axis] != size:
                found = f"{value.aval} along axis {axis}"
                raise ShapeError("the mapped axes differ in size", op="vmap", expected=f"size {size}", found=found)
        operands = [t._var for t, _ in mapped]
        places = [placeholder(_without(v.aval, k), v, v.tracked) for v, k in zip(operands, normal, strict=True)]
        inner = iter([wrap(v) for v in places])
        filled = [leaf if axis is None else next(inner) for leaf, axis in zip(leaves, axes, strict=True)]
        traced = Traced(lambda: function(*tree.unflatten(structure, filled), **kwargs), places, "vmap")
        traced.forbid_writes()
        positions = tree.broadcast_prefix(out_axes, traced.structure, "out_axes")
        outs = [_place(v.aval, a) for a, v in zip(positions, traced.outputs, strict=True)]
        avals = [_with(v.aval, k, size) for v, k in zip(traced.outputs, outs, strict=True)]
        if crosses(traced.region):
            flows = flows_through(operands, traced.region) and STATE.grad
            results = batch(traced.region, operands, normal, size, flows)
            return traced.finish([_moved_to(v, k) for v, k in zip(results, outs, strict=True)])
        params = {"in_axes": tuple(normal), "out_axes": tuple(outs), "size": (size,)}
        return traced.finish(region_results(VmapOp, operands, params, avals, traced.region))

    return wrapped


def _moved_to(var: Var, axis: int) -> Var:
    """The first axis in another place."""
    order = list(range(1, var.aval.rank))
    order.insert(axis, 0)
    return wrap(var).permute(*order)._var


def _place(aval: Aval, axis: Any) -> int:
    """Where the mapped axis goes in a result."""
    rank = aval.rank + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ShapeError("no such place", op="vmap", expected=f"out_axes from -{rank} to {rank - 1}", found=repr(axis))
    return axis % rank


def _axis(value: Tensor, axis: Any) -> int:
    if not isinstance(axis, int) or not -value.rank <= axis < value.rank:
        expected = f"an axis of {value.aval}"
        raise ShapeError(
            "no such axis to map over", op="vmap", expected=expected, found=axis, hint="in_axes=None for it"
        )
    return axis % value.rank


def _without(aval: Aval, axis: int) -> Aval:
    return Aval(aval.dtype, aval.shape[:axis] + aval.shape[axis + 1 :])


def _with(aval: Aval, axis: int, size: Any) -> Aval:
    return Aval(aval.dtype, (*aval.shape[:axis], size, *aval.shape[axis:]))


def jacobian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The derivatives of every element of the result by every element of one argument.

    Their shape is ``result.shape + argument.shape``; nested results and arguments give nested ones (results outside).
    One backward, batched over the elements of the result.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def of_one(value: Any) -> Any:
            return function(*args[:argnums], value, *args[argnums + 1 :], **kwargs)

        value, pullback = vjp(of_one, args[argnums])
        outputs, structure = tree.flatten(value)
        rows = [_rows(pullback, outputs, structure, k) for k in range(len(outputs))]
        return tree.unflatten(structure, rows)

    return wrapped


def _rows(pullback: Callable[[Any], tuple[Any, ...]], outputs: Sequence[Tensor], structure: TreeDef, k: int) -> Any:
    """The derivatives of output ``k``: a pullback of each of its unit vectors."""
    shape = static_shape(outputs[k].aval)
    size = outputs[k].size
    assert isinstance(size, int)

    def of_unit(unit: Tensor) -> Any:
        seeds = [unit.reshape(shape) if j == k else zeros_like(o) for j, o in enumerate(outputs)]
        return pullback(tree.unflatten(structure, seeds))[0]

    units = eye(size, dtype=outputs[k].dtype, device=outputs[k].device)
    return tree.map_leaves(lambda rows: rows.reshape((*shape, *rows.shape[1:])), vmap(of_unit)(units))


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The matrix of second derivatives of a function with one number as its result."""
    return jacobian(grad(function, argnums), argnums)


def stop_gradient(value: Any) -> Any:
    """The same tensors without derivatives."""
    return tree.map_leaves(lambda v: v.detach() if isinstance(v, Tensor) else v, value)
