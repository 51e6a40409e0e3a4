"""Fits the polynomials of firebox/lowering/math and prints their coefficients.

Method: Remez exchange in 60-digit arithmetic on the weighted error, for a linear basis of powers. Coefficients are then
rounded one after the other, from the lowest power up, to the width they are stored in, and the rest is fitted again, so
that each rounding is compensated by the coefficients after it. Needs mpmath, which Firebox itself does not use:

    python benchmarks/fit_math.py [name ...]
"""

import struct
import sys
from collections.abc import Callable, Sequence

from mpmath import cos, erf, erfc, exp, expm1, linspace, log, log1p, lu_solve, matrix, mp, mpf, pi, sin, sqrt, tan, tanh

mp.dps = 60
Function = Callable[[mpf], mpf]


def as_float(value: mpf, single: bool) -> mpf:
    """The nearest f32 or f64."""
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0]) if single else mpf(float(value))


def remez(f: Function, signed: Function, powers: Sequence[int], low: mpf, high: mpf) -> tuple[list[mpf], mpf]:
    """Coefficients c with min max |weight (f - sum c_k x^k)| on [low, high], and that maximum."""
    count = len(powers)

    def weight(x: mpf) -> mpf:
        return abs(signed(x))  # a weight that changes its sign would spoil the alternation

    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * k / count) for k in range(count + 1)]
    coefficients: list[mpf] = []
    worst = mpf(0)
    grid = linspace(low, high, 60 * (count + 1))
    for _ in range(25):
        system = matrix(count + 1, count + 1)
        right = matrix(count + 1, 1)
        for row, x in enumerate(points):
            for column, power in enumerate(powers):
                system[row, column] = weight(x) * x**power
            system[row, count] = (-1) ** row
            right[row] = weight(x) * f(x)
        solution = lu_solve(system, right)
        coefficients = [solution[k] for k in range(count)]

        def error(x: mpf, known: tuple[mpf, ...] = tuple(coefficients)) -> mpf:
            return weight(x) * (f(x) - sum(c * x**p for c, p in zip(known, powers, strict=True)))

        values = [error(x) for x in grid]
        points = _alternation(grid, values, count + 1)
        peaks = [abs(error(x)) for x in points]
        worst = max(abs(v) for v in values)
        if worst <= min(peaks) * (1 + mpf(10) ** -4):
            break
    return coefficients, worst


def _alternation(grid: Sequence[mpf], values: Sequence[mpf], count: int) -> list[mpf]:
    """The largest error of each run of one sign; the smaller ends are dropped when there are too many."""
    runs: list[tuple[mpf, mpf]] = []
    for x, v in zip(grid, values, strict=True):
        if runs and (runs[-1][1] > 0) == (v > 0):
            if abs(v) > abs(runs[-1][1]):
                runs[-1] = (x, v)
        else:
            runs.append((x, v))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    if len(runs) < count:  # the error is at the level of the arithmetic; keep a spread of points
        step = (grid[-1] - grid[0]) / (count - 1)
        return [grid[0] + step * k for k in range(count)]
    return [x for x, _ in runs]


def neighbours(value: mpf, single: bool) -> list[mpf]:
    """The two f32 around a number; the nearest f64."""
    near = as_float(value, single)
    if not single or near == value:
        return [near]
    pattern = struct.unpack("i", struct.pack("f", float(near)))[0]
    step = 1 if (near < value) == (near > 0) else -1
    return [near, mpf(struct.unpack("f", struct.pack("i", pattern + step))[0])]


def rounded(
    f: Function, weight: Function, powers: Sequence[int], low: mpf, high: mpf, single: bool
) -> tuple[list[float], float]:
    """Stored coefficients and their largest weighted error.

    An f32 is chosen among the two neighbours by what the rest can still reach; of f64 the first three are refitted for.
    """
    fixed: list[mpf] = []

    def rest_of(known: Sequence[mpf]) -> Function:
        return lambda x: f(x) - sum((c * x**p for c, p in zip(known, powers, strict=False)), mpf(0))

    while len(fixed) < len(powers):
        rest = powers[len(fixed) :]
        coefficients, _ = remez(rest_of(fixed), weight, rest, low, high)
        if not single and len(fixed) == 3:
            fixed += [as_float(c, single) for c in coefficients]
            break
        choices = [[*fixed, c] for c in neighbours(coefficients[0], single)]
        if len(choices) > 1 and len(rest) > 1:
            choices.sort(key=lambda known: remez(rest_of(known), weight, rest[1:], low, high)[1])
        fixed = choices[0]
    error = rest_of(fixed)
    worst = max(abs(weight(x) * error(x)) for x in linspace(low, high, 2001))
    return [float(c) for c in fixed], float(worst)


def series(f: Function, x: mpf, near: Sequence[mpf]) -> mpf:
    """`f(x)`, or its Taylor series `near` around 0 where f is 0/0."""
    return f(x) if abs(x) > mpf("1e-12") else sum((c * x**k for k, c in enumerate(near)), mpf(0))


def exp_tail(x: mpf) -> mpf:
    """(exp(x) - 1 - x) / x^2."""
    return series(lambda y: (expm1(y) - y) / y**2, x, [mpf(1) / 2, mpf(1) / 6])


def exp2_slope(x: mpf) -> mpf:
    """(2^x - 1) / x."""
    two = log(mpf(2))
    return series(lambda y: expm1(y * two) / y, x, [two, two**2 / 2])


def log_tail(x: mpf) -> mpf:
    """(log(1 + x) - x + x^2 / 2) / x^3."""
    return series(lambda y: (log1p(y) - y + y**2 / 2) / y**3, x, [mpf(1) / 3, -mpf(1) / 4])


def log2_tail(x: mpf) -> mpf:
    """(log2(1 + x) - x / log(2)) / x^2."""
    two = log(mpf(2))
    return series(lambda y: (log1p(y) - y) / two / y**2, x, [-1 / two / 2, 1 / two / 3])


def atanh_tail(z: mpf) -> mpf:
    """(log((1 + s) / (1 - s)) / s - 2) / s^2 in z = s^2."""
    return series(lambda y: (log((1 + sqrt(y)) / (1 - sqrt(y))) / sqrt(y) - 2) / y, z, [mpf(2) / 3, mpf(2) / 5])


def atanh_tail2(z: mpf) -> mpf:
    """(log((1 + s) / (1 - s)) / s - 2 - 2 s^2 / 3) / s^4 in z = s^2."""
    return series(lambda y: (atanh_tail(y) - mpf(2) / 3) / y, z, [mpf(2) / 5, mpf(2) / 7])


def tanh_tail(z: mpf) -> mpf:
    """(tanh(x) / x - 1) / x^2 in z = x^2."""
    return series(lambda y: (tanh(sqrt(y)) / sqrt(y) - 1) / y, z, [-mpf(1) / 3, mpf(2) / 15])


def erf_slope(z: mpf) -> mpf:
    """erf(x) / x - 1 in z = x^2."""
    unit = 2 / sqrt(pi)
    return series(lambda y: erf(sqrt(y)) / sqrt(y) - 1, z, [unit - 1, -unit / 3])


def erfc_log(t: mpf) -> mpf:
    """log(erfc(t)) / t + 1."""
    return log(erfc(t)) / t + 1


def sin_tail(z: mpf) -> mpf:
    """(sin(x) / x - 1) / x^2 in z = x^2."""
    return series(lambda y: (sin(sqrt(y)) / sqrt(y) - 1) / y, z, [-mpf(1) / 6, mpf(1) / 120])


def cos_tail(z: mpf) -> mpf:
    """(cos(x) - 1 + x^2 / 2) / x^4 in z = x^2."""
    return series(lambda y: (cos(sqrt(y)) - 1 + y / 2) / y**2, z, [mpf(1) / 24, -mpf(1) / 720])


def tan_tail(z: mpf) -> mpf:
    """(tan(x) / x - 1) / x^2 in z = x^2."""
    return series(lambda y: (tan(sqrt(y)) / sqrt(y) - 1) / y, z, [mpf(1) / 3, mpf(2) / 15])


HALF_LOG2 = log(mpf(2)) / 2 * mpf("1.002")
ROOT = sqrt(mpf(2))
S_MAX = (ROOT - 1) / (ROOT + 1)
QUARTER = (pi / 4) ** 2 * mpf("1.002")


def or_one(f: Function, x: mpf, limit: mpf) -> mpf:
    """`f(x)`, or its limit at 0."""
    return f(x) if abs(x) > mpf("1e-12") else limit


Fit = tuple[Function, Function, int, mpf, mpf]
FITS: dict[str, Fit] = {  # function, weight of its absolute error in the result's relative error, terms, interval
    "EXP_32": (exp_tail, lambda x: x**2 * exp(-x), 5, -HALF_LOG2, HALF_LOG2),
    "EXP_64": (exp_tail, lambda x: x**2 * exp(-x), 10, -HALF_LOG2, HALF_LOG2),
    "EXPM1_32": (exp_tail, lambda x: or_one(lambda y: y**2 / expm1(y), x, mpf(0)), 5, -HALF_LOG2, HALF_LOG2),
    "EXPM1_64": (exp_tail, lambda x: or_one(lambda y: y**2 / expm1(y), x, mpf(0)), 11, -HALF_LOG2, HALF_LOG2),
    "EXP2_32": (exp2_slope, lambda x: x * 2**-x, 6, mpf("-0.501"), mpf("0.501")),
    "EXP2_64": (exp2_slope, lambda x: x * 2**-x, 11, mpf("-0.501"), mpf("0.501")),
    "EXP2_POW": (exp2_slope, lambda x: x * 2**-x, 8, mpf("-0.501"), mpf("0.501")),
    "LOG_32": (log_tail, lambda x: or_one(lambda y: y**3 / log1p(y), x, mpf(0)), 9, 1 / ROOT - 1, ROOT - 1),
    "LOG2_32": (log2_tail, lambda x: or_one(lambda y: y**2 / log1p(y), x, mpf(0)), 10, 1 / ROOT - 1, ROOT - 1),
    "LOG2_POW": (log2_tail, lambda x: or_one(lambda y: y**2 / log1p(y), x, mpf(0)), 14, 1 / ROOT - 1, ROOT - 1),
    "LOG_64": (atanh_tail, lambda z: z / 2, 7, mpf(0), S_MAX**2),
    "LOG_POW_64": (atanh_tail2, lambda z: z**2 / 2, 8, mpf(0), S_MAX**2),
    "TANH_32": (tanh_tail, lambda z: z / or_one(lambda y: tanh(sqrt(y)) / sqrt(y), z, mpf(1)), 6, mpf(0), mpf("0.41")),
    "TANH_64": (tanh_tail, lambda z: z / or_one(lambda y: tanh(sqrt(y)) / sqrt(y), z, mpf(1)), 11, mpf(0), mpf("0.41")),
    "ERF_32": (erf_slope, lambda z: 1 / (1 + erf_slope(z)), 7, mpf(0), mpf("0.87")),
    "ERF_64": (erf_slope, lambda z: 1 / (1 + erf_slope(z)), 12, mpf(0), mpf("1.01")),
    "ERFC_32": (erfc_log, lambda t: t * erfc(t) / erf(t), 7, mpf("0.92"), mpf("3.95")),
    "ERFC_64": (erfc_log, lambda t: t * erfc(t) / erf(t), 18, mpf("0.99"), mpf("5.95")),
    "SIN_32": (sin_tail, lambda z: z / (1 + z * sin_tail(z)), 3, mpf(0), QUARTER),
    "SIN_64": (sin_tail, lambda z: z / (1 + z * sin_tail(z)), 6, mpf(0), QUARTER),
    "COS_32": (cos_tail, lambda z: z**2 / (1 - z / 2), 3, mpf(0), QUARTER),
    "COS_64": (cos_tail, lambda z: z**2 / (1 - z / 2), 6, mpf(0), QUARTER),
    "TAN_32": (tan_tail, lambda z: z / (1 + z * tan_tail(z)), 7, mpf(0), QUARTER),
    "TAN_64": (tan_tail, lambda z: z / (1 + z * tan_tail(z)), 15, mpf(0), QUARTER),
}


def main(names: Sequence[str]) -> None:
    """Print the named tables, or all, with their largest relative error in units of 2^-24 or 2^-53."""
    for name in names or FITS:
        f, weight, terms, low, high = FITS[name]
        single = name.endswith("_32")
        coefficients, worst = rounded(f, weight, range(terms), low, high, single)
        unit = 2.0**24 if single else 2.0**53
        print(f"\n{name} = (  # {worst * unit:.3f}")
        for c in coefficients:
            print(f"    {c!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
