"""`backward`: one gradient op over the recorded slice from the leaves to a value; gradients land in the leaves.

The slice becomes the region of an ``nd.grad``; values in it that are held elsewhere (the loss, the logits) come out as
extra results of that op. So forward, backward and the update are one program, and nothing in it is computed twice.
A slice that goes from device to device becomes several such ops (see `crossing`).
"""

import weakref
from collections.abc import Sequence

from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.transform import GradOp
from firebox.errors import DTypeError, ShapeError, TraceError, UserError
from firebox.frontend.crossing import Pull, crosses
from firebox.frontend.graph import CutVar, LeafVar, Node, Region, RegionNode, Var, scalar_var
from firebox.frontend.slots import Slot, detached
from firebox.frontend.stats import COUNTERS
from firebox.frontend.trace import STATE, record, record_region


class PlainVar(CutVar):
    """A value that no gradients can be asked for; see `plain`."""

    __slots__ = ()


def plain(var: Var) -> PlainVar:
    """The same value without derivatives, that is refused as a leaf."""
    known = detached(var)
    if known.buffer is None and known.node is None:  # a placeholder, which is known by its identity
        known = record(lookup("nd.stop_gradient"), (known,), {})[0]
    return PlainVar(known.aval, known.device, known.node, known.index, False, known.buffer)


def associated(var: Var) -> CutVar:
    """The value of a `plain` one as one that may be a leaf."""
    return CutVar(var.aval, var.device, var.node, var.index, False, var.buffer)


def make_leaf(var: Var, op: str) -> LeafVar:
    """The value as one that gradients are taken by.

    Raises:
        DTypeError: it is not floating. UserError: it has derivatives by something else, or is a `plain` one.
    """
    if not var.aval.dtype.is_float:
        raise DTypeError("only floats have gradients", op=op, expected="a float type", found=var.aval.dtype.name)
    if var.tracked:
        hint = "detach() it first"
        raise UserError("this is a result with derivatives of its own, not a leaf", op=op, hint=hint)
    if isinstance(var, PlainVar):
        raise UserError("this value is without autodiff", op=op, found=var.aval, hint="call autodiff() on it first")
    return LeafVar(var, Slot(tracks=True))


def backward(var: Var, cotangent: Var | None, retain_graph: bool, create_graph: bool) -> list[tuple[LeafVar, Var]]:
    """Add the derivatives of ``var`` by every leaf behind it to the leaves' gradients; and give them, by leaf.

    Args:
        cotangent: what to multiply the derivative with; needed when ``var`` has more than one element.
        retain_graph: keep the recorded slice for another backward.
        create_graph: record derivatives of the gradients too.

    Raises:
        TraceError: a backward has used up the slice already. ShapeError: ``cotangent`` is missing or does not fit.
        UserError: nothing behind ``var`` takes gradients. DTypeError: ``var`` is not floating.
    """
    seed = _seed(var, cotangent)
    leaves = _leaves(var)
    region = Region(leaves, (var,))
    tracked = create_graph and STATE.grad
    if crosses(region):
        pull = Pull(region, (seed,), tracked)
        gradients, parts = pull.results, pull.parts
    else:
        gradients, parts = _whole(region, leaves, var, seed, tracked)
    for node, part in parts:
        _take_over(node, part, retain_graph)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        known = leaf.grad.get()
        leaf.grad.set(gradient if known is None else record(lookup("nd.add"), (known, gradient), {})[0])
    return list(zip(leaves, gradients, strict=True))


def _whole(
    region: Region, leaves: Sequence[LeafVar], var: Var, seed: Var, tracked: bool
) -> tuple[list[Var], list[tuple[RegionNode, Region]]]:
    """The gradients by one op that holds the whole slice."""
    params = {"wrt": len(leaves), "seeds": 1}
    results = (*(v.aval for v in leaves), var.aval)
    node = RegionNode(GradOp, (*leaves, seed), params, results, (region,), tracked)
    return record_region(node, var.device)[: len(leaves)], [(node, region)]


def _take_over(node: RegionNode, region: Region, retain_graph: bool) -> None:
    """The gradient op gives the values of what is in its region to those who hold them."""
    owner = weakref.ref(node)
    for inner in region.nodes:
        if inner.owner is None or inner.owner() is None:
            inner.owner = owner
        inner.consumed = inner.consumed or not retain_graph
        COUNTERS.nodes_recomputed += inner.ran


def _seed(var: Var, cotangent: Var | None) -> Var:
    aval = var.aval
    if not aval.dtype.is_float:
        raise DTypeError("only floats have derivatives", op="backward", expected="a float type", found=aval)
    if cotangent is None:
        if aval.size != 1:
            hint = "reduce it first (loss.mean()), or pass gradient="
            raise ShapeError("backward starts from one number", op="backward", expected="a loss", found=aval, hint=hint)
        one = scalar_var(1.0, aval.dtype)
        return one if aval.shape == () else record(lookup("nd.broadcast_to"), (one,), {"shape": aval.shape})[0]
    if cotangent.aval.shape != aval.shape:
        raise ShapeError("the gradient does not fit", op="backward", expected=aval, found=cotangent.aval)
    if cotangent.aval.dtype is not aval.dtype:
        return record(lookup("nd.cast"), (cotangent,), {"dtype": aval.dtype})[0]
    return cotangent


def _leaves(var: Var) -> list[LeafVar]:
    """The leaves that ``var`` depends on through values with derivatives, in a fixed order."""
    if not var.tracked:
        raise UserError(
            "nothing behind this value takes gradients",
            op="backward",
            hint="use Param or tensor(..., requires_grad=True), and compute outside of no_grad()",
        )
    found: dict[LeafVar, None] = {}
    seen: set[Node] = set()
    stack = [var]
    while stack:
        current = stack.pop()
        if isinstance(current, LeafVar):
            found.setdefault(current)
            continue
        node = current.node
        if node is None:
            if current.buffer is not None:
                raise _consumed()
            continue  # the argument of a function that is being traced: its derivative is not this backward's
        if node in seen:
            continue
        if node.consumed:
            raise _consumed()
        seen.add(node)
        stack.extend(v for v in reversed(node.inputs()) if v.tracked)
    if not found:
        raise UserError("no leaf is behind this value", op="backward", hint="inside fb.grad use its result instead")
    return list(found)


def _consumed() -> TraceError:
    return TraceError(
        "an earlier backward has used up what was recorded",
        op="backward",
        expected="one backward for each computed value",
        hint="pass retain_graph=True to the earlier one, or compute the value again",
    )
