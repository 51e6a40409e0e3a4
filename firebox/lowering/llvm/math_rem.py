"""The exact remainder of floats: r - trunc(r / b) b by fused multiply-add is exact, and is repeated until |r| < b.

A quotient of up to 2^53 takes one step; each further step takes another 53 bits. f32 computes in f64. The rounded
quotient may be one too large, which leaves a negative r that is above -b and is put right at the end. Without the
instruction, f64 above 2^1023 gives NaN where q b rounds to infinity.
"""

from firebox.lowering.llvm.lanewise import Lanewise

_INF = float("inf")


def remainder(v: Lanewise, x: str, y: str) -> str:
    """C's fmod: the sign of x; NaN for infinite x or y = 0; x for infinite y."""
    w = v if v.element == "double" else Lanewise(v.fn, "double", v.lanes)
    a, b = (v.abs(value) for value in (x, y))
    if w is not v:
        a, b = (v.fn.op(f"fpext {v.type} {value} to {w.type}") for value in (a, b))
    finite = w.cmp("olt", a, w.f(_INF))
    proper = w.both(w.both(finite, w.cmp("ogt", b, w.f(0.0))), w.cmp("olt", b, w.f(_INF)))
    rest = _reduce(v, w, w.select(proper, a, w.f(0.0)), w.select(proper, b, w.f(1.0)))
    unchanged = w.both(finite, w.cmp("oeq", b, w.f(_INF)))
    rest = w.select(proper, rest, w.select(unchanged, a, w.f(float("nan"))))
    if w is not v:
        rest = v.fn.op(f"fptrunc {w.type} {rest} to {v.type}")
    return v.copysign(rest, x)


def _reduce(v: Lanewise, w: Lanewise, a: str, b: str) -> str:
    """The loop, for a >= 0 and b > 0, both finite."""
    f = w.fn
    body, done, before = f.new_label("rem"), f.new_label("left"), f.label
    f.branch(body)
    f.block(body)
    place, rest = f.reserve(), f.fresh()
    divisor = b if w is not v else _fitting(w, rest, b)
    quotient = w.round("trunc", w.div(rest, divisor))
    following = w.fma(w.neg(quotient), divisor, rest)
    again = w.any(w.cmp("oge", w.abs(following), b))
    latch = f.label
    f.branch_if(again, body, done)
    f.fill(place, [f"{rest} = phi {w.type} [ {a}, %{before} ], [ {following}, %{latch} ]"])
    f.block(done)
    return w.select(w.cmp("olt", following, w.f(0.0)), w.add(following, b), following)


def _fitting(w: Lanewise, rest: str, b: str) -> str:
    """b, or b 2^1000 or b 2^2000 where the quotient would overflow: a multiple of b reduces as well."""
    divisor = b
    size = w.abs(rest)
    for _ in range(2):
        b = w.mul(b, w.f(2.0**1000))
        divisor = w.select(w.cmp("ogt", size, b), b, divisor)
    return divisor
