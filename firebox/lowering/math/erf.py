"""The error function: x + x p(x^2) near 0, and 1 - exp(t q(t) - t) beyond, where q is fitted to log(erfc(t)) / t + 1.

The form of the second part is due to N. Juffa: its relative error shrinks with erfc, so one polynomial does.
"""

from firebox.lowering.math import coefficients as c
from firebox.lowering.math.exp import exp_moderate
from firebox.lowering.math.lanewise import Lanewise

_SPLIT = {"float": 0.925, "double": 1.0}
_END = {"float": 3.95, "double": 5.95}
"""From here on erf rounds to 1."""
_NEAR = {"float": c.ERF_32, "double": c.ERF_64}
_FAR = {"float": c.ERFC_32, "double": c.ERFC_64}


def erf(v: Lanewise, x: str) -> str:
    """The error function."""
    magnitude = v.abs(x)
    small = v.fma(v.estrin(v.mul(x, x), _NEAR[v.element]), x, x)
    end = v.f(_END[v.element])
    t = v.select(v.cmp("olt", end, magnitude), end, magnitude)
    exponent = v.fma(v.estrin(t, _FAR[v.element]), t, v.neg(t))
    large = v.sub(v.f(1.0), exp_moderate(v, exponent))
    return v.copysign(v.select(v.cmp("olt", magnitude, v.f(_SPLIT[v.element])), small, large), x)
