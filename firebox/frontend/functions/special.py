"""Special functions, element by element: of floats, within 4 units of the last place unless said otherwise."""

import math
from typing import Any

from firebox.frontend.functions.mathematics import both
from firebox.frontend.functions.support import A, equals, require_float


def erfc(x: A) -> A:
    """1 - erf(x), accurate where that is small."""
    return x.one("erfc", x)


def erfinv(x: A) -> A:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    return x.one("erfinv", x)


def lgamma(x: A) -> A:
    """log |Gamma(x)|, infinite at 0 and the negative integers; less accurate close to its zeros below 0."""
    return x.one("lgamma", x)


def digamma(x: A) -> A:
    """The derivative of log(Gamma(x)), NaN at the negative integers; less accurate close to its zeros below 0."""
    return x.one("digamma", x)


def polygamma(n: int, x: A) -> A:
    """The derivative of order ``n`` of digamma, 0 to 8; within n + 2 units of the last place above 0.

    Raises:
        UserError: another order.
    """
    return x.one("digamma", x) if n == 0 else x.one("polygamma", x, order=n)


def betaln(a: A, b: Any) -> A:
    """log |B(a, b)|: lgamma(a) + lgamma(b) - lgamma(a + b)."""
    a, b = both("betaln", a, b)
    result: A = lgamma(a) + lgamma(b) - lgamma(a + b)
    return result


def i0(x: A) -> A:
    """The modified Bessel function of the first kind of order 0."""
    return x.one("i0", x)


def i0e(x: A) -> A:
    """exp(-abs(x)) * i0(x), which does not overflow."""
    return x.one("i0e", x)


def i1(x: A) -> A:
    """The modified Bessel function of the first kind of order 1."""
    return x.one("i1", x)


def i1e(x: A) -> A:
    """exp(-abs(x)) * i1(x), which does not overflow."""
    return x.one("i1e", x)


def logit(x: A, eps: float | None = None) -> A:
    """log(x / (1 - x)), the inverse of sigmoid; with ``eps`` of x between eps and 1 - eps."""
    require_float("logit", x)
    if eps is not None:
        x = x.clip(eps, 1.0 - eps)
    return x.log() - (-x).log1p()


def xlog1py(x: A, y: Any) -> A:
    """x * log1p(y), and 0 where x is 0 and y is not NaN."""
    x, y = both("xlog1py", x, y)
    require_float("xlog1py", x)
    unused = equals(x, 0.0) & ~y.isnan()
    result: A = x * unused.where(0.0, y).log1p()
    return result


def entr(x: A) -> A:
    """-x log(x): 0 at 0, -inf below."""
    require_float("entr", x)
    inside = x > 0
    outside: Any = equals(x, 0.0).where(0.0, x.isnan().where(x, float("-inf")))
    result: A = inside.where(-x * inside.where(x, 1.0).log(), outside)
    return result


def ndtr(x: A) -> A:
    """The probability that a normal number is below x."""
    require_float("ndtr", x)
    return erfc(x * -math.sqrt(0.5)) * 0.5
