"""Control flow in traced code: `cond`, `while_loop`, `scan` and `fori_loop`.

Each traces its functions once and records one region op. What the functions use from outside, tensors and parameters,
comes in by itself; cells cannot be written inside.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.control import CondOp, ScanOp, WhileOp, stacked
from firebox.dims import DimLike
from firebox.errors import DTypeError, ShapeError, TraceError, UserError
from firebox.frontend import tree
from firebox.frontend.creation import arange
from firebox.frontend.functions.shape import concat, stack
from firebox.frontend.graph import Var
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import Trace
from firebox.frontend.traced import Traced, avals_of, check_callable, placeholder, region_results
from firebox.frontend.tree import TreeDef


class _Body(Trace):
    """The trace of a function that may run many times, or not at all."""

    def draw(self, generator: Any, blocks: int, device: Any) -> tuple[Var, int] | None:
        raise TraceError(
            "random numbers are drawn inside",
            op="control flow",
            found="numbers that would be the same in every step",
            hint="draw them outside and hand them in: to fb.scan as slices of xs",
        )


def _traced(op: str, function: Callable[..., Any], places: Sequence[Var], structure: TreeDef) -> Traced:
    """The function on placeholders; the structure is that of its arguments."""

    def run() -> Any:
        return function(*tree.unflatten(structure, [wrap(v) for v in places]))

    traced = Traced(run, places, op, _Body, whole=True)
    traced.forbid_writes()
    return traced


def _places(tensors: Sequence[Tensor]) -> list[Var]:
    return [placeholder(t.aval, t._var) for t in tensors]


def _tensors(value: Any) -> tuple[list[Tensor], TreeDef]:
    leaves, structure = tree.flatten(value)
    return [as_tensor(v) for v in leaves], structure


def _check_same(
    op: str,
    what: str,
    expected: Sequence[Aval],
    found: Sequence[Var],
    structure: TreeDef,
    found_structure: TreeDef,
    hint: str,
) -> None:
    """Raises where values do not come back as they went in; names the first that differs, by its place."""
    if found_structure != structure:
        raise UserError(f"{what} differ in structure", op=op, expected=_shown(structure), found=_shown(found_structure))
    for position, (wanted, value) in enumerate(zip(expected, found, strict=True)):
        if wanted != value.aval:
            kind = DTypeError if wanted.dtype != value.aval.dtype else ShapeError
            name = f", value {position} of {len(found)}" if len(found) > 1 else ""
            raise kind(f"{what} differ in type{name}", op=op, expected=wanted, found=value.aval, hint=hint)


def _shown(structure: TreeDef) -> str:
    if structure.kind is None:
        return "a tensor"
    names = [f"{k!r}: " for k in structure.keys] or [""] * len(structure.children)
    parts = ", ".join(n + _shown(c) for n, c in zip(names, structure.children, strict=True))
    return f"{structure.kind.__name__}({parts})"


def _predicate(op: str, value: Any) -> Tensor:
    found = as_tensor(value)
    if not found.dtype.is_bool or found.rank:
        hint = "reduce it with .any() or .all(), or choose element by element with fb.where"
        raise DTypeError("the condition is not one bool", op=op, expected="bool[]", found=found.aval, hint=hint)
    return found


# ---- cond --------------------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """``true_fn(*operands)`` where the condition holds, else ``false_fn(*operands)``; only one of them runs.

    Args:
        pred: one bool, known when the program runs.
        operands: nested tensors.

    The two results have the same structure, shapes and element types. Differentiable both ways. Under `vmap` with a
    condition that differs from slice to slice both run, and the results are selected.

    Raises:
        DTypeError: the condition is not one bool. ShapeError, DTypeError, UserError: the results differ in type.
        TraceError: a cell is written inside.
    """
    check_callable("cond", true_fn)
    check_callable("cond", false_fn)
    chosen = _predicate("cond", pred)
    given, structure = _tensors(operands)
    first, second = (_traced("cond", function, _places(given), structure) for function in (true_fn, false_fn))
    avals = avals_of(first.outputs)
    hint = "cast or reshape one of them"
    _check_same("cond", "the results of the branches", avals, second.outputs, first.structure, second.structure, hint)
    values = [chosen._var, *(t._var for t in given)]
    results = region_results(CondOp, values, {}, avals, first.region, second.region)
    return first.finish(results)


# ---- while -------------------------------------------------------------------------------------------------------


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """``value = init``, then ``value = body_fn(value)`` as long as ``cond_fn(value)`` holds; the last value.

    Differentiable forward (`jvp`), not backward: how many steps there are to go back is not known. For that, use
    `fori_loop` or `scan` with a number of steps that is. Under `vmap` it runs until all slices are done.

    Raises:
        DTypeError: the condition is not one bool. ShapeError, DTypeError, UserError: the body returns another type than
        it takes. TraceError: a cell is written inside.
    """
    check_callable("while_loop", cond_fn)
    check_callable("while_loop", body_fn)
    given, structure = _tensors((init,))
    condition = _traced("while_loop", lambda value: _predicate("while_loop", cond_fn(value)), _places(given), structure)
    body = _traced("while_loop", body_fn, _places(given), structure)
    avals = tuple(t.aval for t in given)
    what = "what the body takes and returns"
    _check_same("while_loop", what, avals, body.outputs, structure.children[0], body.structure, _CARRY)
    operands, params = [t._var for t in given], {"carry": len(given)}
    return body.finish(region_results(WhileOp, operands, params, avals, condition.region, body.region))


_CARRY = "cast or reshape the first value, or what the body returns"


# ---- scan --------------------------------------------------------------------------------------------------------


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: DimLike | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each slice x of ``xs`` along the first axis; the last carry, and the stacked ys.

    Args:
        f: returns the next carry, of the type of the carry it takes, and anything else, which is stacked.
        init: the first carry; nested tensors.
        xs: nested tensors of one size along their first axis; None for none.
        length: number of steps, needed without xs; may be symbolic.
        reverse: from the last slice to the first; the ys are stacked where their slices are.
        unroll: steps of ``f`` in one step of the loop: larger kernels, more to compile.

    Differentiable forward and backward. `fb.checkpoint` of ``f`` keeps nothing of a step but its carry.

    Raises:
        ShapeError: the xs differ in size. ShapeError, DTypeError, UserError: the carry comes back as another type.
        TraceError: a cell is written inside.
    """
    check_callable("scan", f)
    if not isinstance(unroll, int) or unroll < 1:
        raise UserError("not a number of steps", op="scan", expected="unroll of 1 or more", found=unroll)
    steps = _length(_tensors(xs)[0], length)
    if unroll > 1:
        return _unrolled(f, init, xs, steps, reverse, unroll)
    return _scan("scan", f, init, xs, steps, reverse)


def _scan(
    op: str, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, steps: DimLike, reverse: bool
) -> tuple[Any, Any]:
    """The op, recorded for a function of a name."""
    carry, carry_def = _tensors(init)
    slices, _ = _tensors(xs)
    places = _places(carry)
    places += [placeholder(Aval(x.dtype, x.shape[1:]), x._var) for x in slices]
    count = len(carry)
    both = tree.flatten((init, xs))[1]
    traced = _traced(op, lambda c, x: _pair(op, f(c, x)), places, both)
    inner, outer = traced.structure.children
    what = "what the body takes and returns" if op == "fori_loop" else "the carry that f takes and returns"
    carried = traced.outputs[: inner.size]
    _check_same(op, what, [t.aval for t in carry], carried, carry_def, inner, _CARRY)
    avals = avals_of(traced.outputs)
    params = {"carry": count, "slices": len(slices), "length": (steps,), "reverse": bool(reverse)}
    operands = [t._var for t in (*carry, *slices)]
    types = (*avals[:count], *(stacked(a, steps) for a in avals[count:]))
    results = [wrap(v) for v in region_results(ScanOp, operands, params, types, traced.region)]
    return tree.unflatten(inner, results[:count]), tree.unflatten(outer, results[count:])


def _pair(op: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise UserError("f returns no pair", op=op, expected="(carry, y)", found=repr(result)[:80])
    return result


def _length(slices: Sequence[Tensor], length: DimLike | None) -> DimLike:
    sizes = []
    for x in slices:
        if not x.rank:
            raise ShapeError("xs has no axis to go along", op="scan", expected="one axis or more", found=x.aval)
        sizes.append(x.shape[0])
    steps = length if length is not None else sizes[0] if sizes else None
    if steps is None:
        raise UserError("how many steps is not known", op="scan", expected="xs, or length", found="neither")
    if isinstance(steps, int) and steps < 0:
        raise ShapeError("a negative number of steps", op="scan", expected="0 or more", found=steps)
    for size, x in zip(sizes, slices, strict=True):
        if size != steps:
            raise ShapeError("not that many slices", op="scan", expected=f"{steps} along the first axis", found=x.aval)
    return steps


def _unrolled(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, steps: DimLike, reverse: bool, unroll: int
) -> tuple[Any, Any]:
    """A scan over chunks of ``unroll`` slices, and one step for what is left (the last slices, whatever the order)."""
    if not isinstance(steps, int):
        raise UserError("a symbolic number of steps", op="scan", expected="a number, to unroll", found=steps)
    chunks, rest = divmod(steps, unroll)
    parts: list[Any] = []
    carry = init
    pieces = [(0, chunks, unroll), (chunks * unroll, 1, rest)]
    for start, count, size in reversed(pieces) if reverse else pieces:
        if count * size:
            piece = tree.map_leaves(_chunk(start, count, size), xs)
            carry, ys = _scan("scan", _chunked(f, size, reverse), carry, piece, count, reverse)
            parts.append(tree.map_leaves(lambda y: y.reshape((y.shape[0] * y.shape[1], *y.shape[2:])), ys))
    if not parts:
        return _scan("scan", f, init, xs, steps, reverse)
    return carry, _joined(concat, parts[::-1] if reverse else parts)


def _joined(how: Callable[[list[Tensor]], Tensor], parts: Sequence[Any]) -> Any:
    """Nested tensors put together leaf by leaf."""
    leaves = [tree.flatten(part)[0] for part in parts]
    joined = [how([as_tensor(v) for v in column]) for column in zip(*leaves, strict=True)]
    return tree.unflatten(tree.flatten(parts[0])[1], joined)


def _chunk(start: int, count: int, size: int) -> Callable[[Any], Tensor]:
    """So many chunks of slices."""

    def cut(value: Any) -> Tensor:
        x = as_tensor(value)
        return x[start : start + count * size].reshape((count, size, *x.shape[1:]))

    return cut


def _chunked(f: Callable[[Any, Any], tuple[Any, Any]], size: int, reverse: bool) -> Callable[[Any, Any], Any]:
    """So many steps at once."""

    def steps(carry: Any, xs: Any) -> tuple[Any, Any]:
        rows: list[Any] = [None] * size
        for k in reversed(range(size)) if reverse else range(size):
            carry, rows[k] = _pair("scan", f(carry, tree.map_leaves(operator.itemgetter(k), xs)))
        return carry, _joined(stack, rows)

    return steps


# ---- fori --------------------------------------------------------------------------------------------------------


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """``value = body_fn(i, value)`` for i from ``lower`` to ``upper - 1``; the last value.

    With bounds that are known while tracing (numbers, or sizes of tensors) it is a `scan`, differentiable both ways;
    with tensors as bounds it is a `while_loop`.
    """
    check_callable("fori_loop", body_fn)
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        return _while_between(lower, upper, body_fn, init)
    first, last = (b if isinstance(b, dims.Dim) else operator.index(b) for b in (lower, upper))
    count = dims.maximum(last - first, 0)
    leaves = [v for v in tree.flatten(init)[0] if isinstance(v, Tensor)]
    numbers = arange(count, device=leaves[0].device if leaves else None) + first
    return _scan("fori_loop", lambda value, i: (body_fn(i, value), None), init, numbers, count, False)[0]


def _while_between(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    like = lower if isinstance(lower, Tensor) else upper
    first, last = (as_tensor(like.lift(b)).astype(like.dtype) for b in (lower, upper))
    for bound in (first, last):
        if bound.rank or not bound.dtype.is_int:
            raise DTypeError("not a bound", op="fori_loop", expected="one integer", found=bound.aval)

    def step(state: Any) -> Any:
        i, value = state
        return i + 1, body_fn(i, value)

    return while_loop(lambda state: state[0] < last, step, (first, init))[1]
