"""Fits the polynomials of firebox/dialects/nd/ops/special_coefficients.py and prints that module's tables.

Method: interpolation at Chebyshev nodes in 60-digit arithmetic, of as few terms as keep the relative error below 1/8 of
a unit in the last place of the type. Needs mpmath, which Firebox itself does not use:

    python benchmarks/fit_special.py

With `record`, writes exact values of the functions for the tests, tests/golden/math/special.csv, instead.
"""

import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from mpmath import (
    besseli,
    chebyfit,
    digamma,
    erfc,
    erfinv,
    exp,
    linspace,
    log,
    loggamma,
    mp,
    mpf,
    pi,
    polygamma,
    polyval,
    sqrt,
)

mp.dps = 60
Function = Callable[[mpf], mpf]
NEAR = mpf(10) ** -40
"""Where a quotient has no value, the argument is moved by this much."""
ROOT = mpf("1.461632144968362341262659542325721328468196204006446351295988409")


def stirling(x: mpf) -> mpf:
    """log(Gamma(x)) without the leading terms of Stirling's series."""
    return loggamma(x) - ((x - 0.5) * log(x) - x + log(2 * pi) / 2)


def scaled_erfc(x: mpf) -> mpf:
    """(1 + 2x) exp(x^2) erfc(x)."""
    return (1 + 2 * x) * exp(x * x) * erfc(x)


def beyond(order: int, v: mpf) -> mpf:
    """sqrt(x) exp(-x) I(x) of the modified Bessel function at x = 16 / (v + 1)."""
    x = 16 / max(v + 1, mpf(10) ** -22)
    return sqrt(x) * exp(-x) * besseli(order, x)


def central(w: mpf) -> mpf:
    """erfinv(x) / x, where w = -log(1 - x^2)."""
    x = sqrt(-mp.expm1(-max(w, NEAR)))
    return erfinv(x) / x


def outer(s: mpf) -> mpf:
    """erfinv(x), where s = sqrt(-log(1 - x^2))."""
    return mp.findroot(lambda y: log(erfc(y) * (2 - erfc(y))) + s * s, s - mpf("0.3"))


FITS: dict[str, tuple[Function, mpf, mpf]] = {
    "LGAMMA_1": (lambda z: loggamma(1 + z + NEAR) / (z + NEAR), mpf("-0.25"), mpf("0.5")),
    "LGAMMA_2": (lambda z: loggamma(2 + z + NEAR) / (z + NEAR), mpf("-0.5"), mpf("1")),
    "STIRLING": (lambda u: stirling(1 / sqrt(u)) / sqrt(u), mpf("1e-9"), mpf(1) / 64),
    "DIGAMMA": (lambda d: digamma(ROOT + d + NEAR) / (d + NEAR), 1 - ROOT, 2 - ROOT),
    "DIGAMMA_FAR": (lambda u: (log(1 / sqrt(u)) - sqrt(u) / 2 - digamma(1 / sqrt(u))) / u, mpf("1e-9"), mpf(1) / 64),
    "ERFCX": (lambda t: scaled_erfc(4 * (1 + t) / (1 - min(t, 1 - mpf("1e-3")))), mpf(-1), mpf("0.9")),
    "I0": (lambda t: besseli(0, sqrt(t)), mpf(0), mpf(64)),
    "I1": (lambda t: besseli(1, sqrt(t + NEAR)) / sqrt(t + NEAR), mpf(0), mpf(64)),
    "I0_FAR": (lambda v: beyond(0, v), mpf(-1), mpf(1)),
    "I1_FAR": (lambda v: beyond(1, v), mpf(-1), mpf(1)),
}
GUESSES: dict[str, tuple[Function, mpf, mpf]] = {
    "ERFINV_NEAR": (central, mpf(0), mpf(5)),
    "ERFINV_FAR": (outer, mpf("2.2"), mpf("6.2")),
}

RECORDED: dict[str, tuple[Function, float, float, float]] = {
    "erfc": (erfc, -3.0, 9.0, 25.0),
    "erfinv": (erfinv, -1.0, 1.0, 0.0),
    "lgamma": (lambda x: loggamma(x).real, 0.0, 16.0, 1e8),
    "digamma": (digamma, 0.0, 16.0, 1e8),
    "i0": (lambda x: besseli(0, x), -20.0, 20.0, 700.0),
    "i0e": (lambda x: exp(-abs(x)) * besseli(0, x), -20.0, 20.0, 1e6),
    "i1": (lambda x: besseli(1, x), -20.0, 20.0, 700.0),
    "i1e": (lambda x: exp(-abs(x)) * besseli(1, x), -20.0, 20.0, 1e6),
    "polygamma1": (lambda x: polygamma(1, x), 0.0, 30.0, 1e6),
    "polygamma3": (lambda x: polygamma(3, x), 0.0, 30.0, 1e6),
}
"""Function, the common range of its arguments, and the largest of the wider range (0: those next to 1)."""


def rounded(value: mpf, single: bool) -> float:
    """The nearest number of the type."""
    return float(struct.unpack("f", struct.pack("f", float(value)))[0]) if single else float(value)


def fit(f: Function, low: mpf, high: mpf, bound: mpf) -> tuple[list[mpf], mpf]:
    """The shortest polynomial within the bound, highest power first, and its relative error."""
    grid = linspace(low, high, 97)
    values = [f(x) for x in grid]
    for count in range(2, 40):
        found = chebyfit(f, [low, high], count)
        worst = max(abs(polyval(found, x) / v - 1) for x, v in zip(grid, values, strict=True))
        if worst < bound:
            return found, worst
    raise SystemExit(f"no polynomial is good enough: {worst}")


def show(name: str, found: list[mpf], worst: mpf, single: bool) -> None:
    """One table, constant term first."""
    print(f"{name} = (  # {mp.nstr(worst, 2)}")
    for c in reversed(found):
        print(f"    {rounded(c, single)!r},")
    print(")")


def arguments(low: float, high: float, largest: float) -> list[float]:
    """Half of them numbers of f32: in the common range, small ones, and large ones or such that are close to 1."""
    chosen = [random.uniform(low, high) for _ in range(60)]
    chosen += [10.0 ** random.uniform(-12, 0) for _ in range(20)]
    chosen += [1 - 10.0 ** random.uniform(-7 if k % 2 else -15, 0) for k in range(40)] if largest == 0 else []
    chosen += [largest ** random.uniform(0.3, 1) for _ in range(20)] if largest else []
    return [rounded(mpf(x), True) if k % 2 else x for k, x in enumerate(chosen)]


def record() -> None:
    """Write exact values."""
    random.seed(0)
    lines = ["function,x,value"]
    for name, (f, *limits) in RECORDED.items():
        lines += [f"{name},{x!r},{mp.nstr(f(mpf(x)), 25)}" for x in arguments(*limits) if abs(x) != 1]
    path = Path(__file__).parents[1] / "tests" / "golden" / "math" / "special.csv"
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print all tables."""
    for name, (f, low, high) in FITS.items():
        for bits in (32, 64):
            bound = mpf(2) ** (-27 if bits == 32 else -56)
            show(f"{name}_{bits}", *fit(f, low, high, bound), bits == 32)
    for name, (f, low, high) in GUESSES.items():
        show(name, *fit(f, low, high, mpf("2e-6")), False)


if __name__ == "__main__":
    record() if sys.argv[1:] == ["record"] else main()
