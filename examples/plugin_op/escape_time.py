"""`special.escape_time`: an op with a loop of its own in every element, and the template that writes its kernel."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import firebox as fb
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd import ArrayLike, Aval, Kind, NdOp, Sample, Schedule, register
from firebox.dialects.nd.base import Array, Rng
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import batch_size, check_dtype, check_same_dtype, spread
from firebox.dialects.nd.params import INT
from firebox.dtypes import f32, f64, i32
from firebox.errors import ShapeError
from firebox.lowering.generate.frame import Frame, grain_of
from firebox.lowering.generate.templates import Kernels, Launch, Template, register_template
from firebox.runtime.target import Target


@register
class EscapeTime(NdOp):
    """Steps z -> z*z + c from z = 0 until |z| > 2, at most ``limit``, for each c = x + iy; i32."""

    name = "special.escape_time"
    kind = Kind.OPAQUE
    arity = 2
    params = {"limit": INT}
    differentiable = False

    @classmethod
    def infer(cls, x: Aval, y: Aval, limit: int) -> Aval:
        check_same_dtype(cls, x, y)
        check_dtype(cls, x, frozenset((f32, f64)))
        if x.shape != y.shape:
            raise ShapeError("operands differ in shape", op="escape_time", expected=x.shape, found=y.shape)
        return Aval(i32, x.shape)

    @classmethod
    def evaluate(cls, x: Array, y: Array, limit: int) -> Array:
        re, im, steps = np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, np.int32)
        for _ in range(limit):
            inside = re * re + im * im <= 4.0
            re, im = np.where(inside, re * re - im * im + x, re), np.where(inside, 2.0 * re * im + y, im)
            steps += inside
        return steps

    @classmethod
    def batch(cls, operands: Sequence[ArrayLike], batched: Sequence[bool], limit: int) -> ArrayLike:
        size = batch_size(operands, batched)
        full = [spread(o, b, size) for o, b in zip(operands, batched, strict=True)]
        return full[0].apply(cls, full, {"limit": limit})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in (f32, f64):
            for shape in ((), (7,), (0, 3), (5, 6)):
                x, y = (cases.values(rng, dtype, shape, (-2.0, 2.0)) for _ in range(2))
                yield Sample((x, y), {"limit": 20})


def _schedule(group: GroupOp, target: Target) -> Schedule:
    (op,) = group.members
    return Schedule("escape_time", grain=grain_of(4 * op.values["limit"]))


def _launch(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """One unit of work for each element."""
    (op,) = group.members
    return (Launch(op.avals[0].size, schedule.grain),)


def _generate(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    frame = Frame.of(group, dim_order, op_ids)
    k, limit = frame.k, frame.op.values["limit"]
    (steps,) = frame.outputs.values()

    def element(at: Val, _: list[Val]) -> None:
        x, y = k.load(frame.operand(0), at), k.load(frame.operand(1), at)

        def inside(z: list[Val]) -> Val:
            re, im, n = z
            return k.and_(k.le(k.add(k.mul(re, re), k.mul(im, im)), 4.0), k.lt(n, limit))

        def step(z: list[Val]) -> list[Val]:
            re, im, n = z
            real = k.add(k.sub(k.mul(re, re), k.mul(im, im)), x)
            return [real, k.add(k.mul(k.mul(re, 2.0), im), y), k.add(n, 1)]

        zero = k.const(0.0, x.dtype)
        k.store(steps, at, k.while_([zero, zero, k.const(0, i32)], inside, step)[2])

    k.loop(k.begin, k.end, 1, [], element)
    return Kernels((k.finish(),))


register_template(EscapeTime.name, Template("escape_time", _schedule, _generate, _launch))


def escape_time(x: Any, y: Any, limit: int = 256) -> fb.Tensor:
    """How long z -> z*z + c stays within |z| <= 2, for c = x + iy: the picture of the Mandelbrot set.

    Raises:
        ShapeError, DTypeError: operands that are not f32 or f64 of one type and shape.
    """
    steps: fb.Tensor = fb.apply(EscapeTime, x, y, limit=limit)
    return steps
