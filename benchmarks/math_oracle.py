"""mpmath as an oracle of math functions: the largest distance from the exact value, in units in the last place.

    python -m benchmarks.math_oracle out/math.csv [--numbers 2000] [--only NAME..] [--verbose]

needs mpmath, which Firebox itself does not. Arguments are random: half of them of all magnitudes of the function's
range, half of its common range. The rows are kept as benchmarks/math_oracle.csv, from which docs/oracles.md shows them.
"""

import argparse
import csv
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import firebox as fb

Array = np.ndarray[Any, Any]
DTYPES = {"f32": np.float32, "f64": np.float64}
FIELDS = ("function", "f32", "f64", "at (f32)", "at (f64)")
BITS = 160


@dataclass(frozen=True)
class Exact:
    """A function and what it is exactly.

    Attributes:
        low, high: the common range of each argument.
        signed: whether arguments of all magnitudes may be negative.
        magnitudes: powers of two between which they lie.
    """

    ours: Callable[..., Any]
    exact: Callable[..., Any]
    low: float = -10.0
    high: float = 10.0
    signed: bool = True
    magnitudes: tuple[float, float] = (-20.0, 20.0)
    arguments: int = 1


def positive(ours: Any, exact: Any, high: float = 10.0, magnitudes: tuple[float, float] = (-60.0, 60.0)) -> Exact:
    return Exact(ours, exact, 1e-3, high, False, magnitudes)


def unit(ours: Any, exact: Any) -> Exact:
    return Exact(ours, exact, -1.0, 1.0, True, (-40.0, 0.0))


def small(ours: Any, exact: Any, high: float = 80.0) -> Exact:
    """Of functions that overflow."""
    return Exact(ours, exact, -high, high, True, (-40.0, 6.0))


FUNCTIONS: dict[str, Exact] = {
    "exp": small(fb.exp, mpmath.exp),
    "exp2": small(fb.exp2, lambda x: mpmath.power(2, x)),
    "expm1": small(fb.expm1, mpmath.expm1),
    "log": positive(fb.log, mpmath.log),
    "log2": positive(fb.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "log10": positive(fb.log10, mpmath.log10),
    "log1p": Exact(fb.log1p, mpmath.log1p, -0.99, 10.0, False, (-60.0, 60.0)),
    "sqrt": positive(fb.sqrt, mpmath.sqrt),
    "rsqrt": positive(fb.rsqrt, lambda x: 1 / mpmath.sqrt(x)),
    "cbrt": positive(fb.cbrt, mpmath.cbrt),
    "sin": Exact(fb.sin, mpmath.sin),
    "cos": Exact(fb.cos, mpmath.cos),
    "tan": Exact(fb.tan, mpmath.tan),
    "asin": unit(fb.asin, mpmath.asin),
    "acos": unit(fb.acos, mpmath.acos),
    "atan": Exact(fb.atan, mpmath.atan),
    "sinh": small(fb.sinh, mpmath.sinh),
    "cosh": small(fb.cosh, mpmath.cosh),
    "tanh": small(fb.tanh, mpmath.tanh, 12.0),
    "asinh": Exact(fb.asinh, mpmath.asinh),
    "acosh": Exact(fb.acosh, mpmath.acosh, 1.0, 10.0, False, (0.0, 60.0)),
    "atanh": unit(fb.atanh, mpmath.atanh),
    "sigmoid": small(fb.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "erf": small(fb.erf, mpmath.erf, 5.0),
    "erfc": Exact(fb.erfc, mpmath.erfc, -5.0, 9.0, True, (-40.0, 2.0)),
    "erfinv": unit(fb.erfinv, mpmath.erfinv),
    "lgamma": positive(fb.lgamma, mpmath.loggamma, 40.0, (-40.0, 40.0)),
    "digamma": positive(fb.digamma, mpmath.digamma, 40.0, (-40.0, 40.0)),
    "i0": small(fb.i0, lambda x: mpmath.besseli(0, x), 40.0),
    "i0e": small(fb.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), 40.0),
    "i1": small(fb.i1, lambda x: mpmath.besseli(1, x), 40.0),
    "i1e": small(fb.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), 40.0),
    "pow": Exact(fb.power, mpmath.power, 0.01, 8.0, False, (-10.0, 4.0), 2),
    "atan2": Exact(fb.atan2, mpmath.atan2, arguments=2),
    "hypot": Exact(fb.hypot, mpmath.hypot, arguments=2),
}


def numbers(rng: np.random.Generator, function: Exact, count: int, dtype: Any) -> Array:
    """Random arguments of one type."""
    sizes = np.exp2(rng.uniform(*function.magnitudes, count // 2))
    signs = rng.choice([-1.0, 1.0], sizes.shape) if function.signed else 1.0
    common = rng.uniform(function.low, function.high, count - count // 2)
    found = np.concatenate([sizes * signs, common]).astype(dtype)
    return rng.permutation(found)


def distances(found: Array, arguments: Sequence[Array], exact: Callable[..., Any]) -> Iterator[float]:
    """From the exact value, in units in the last place; of results that the type cannot hold, nothing."""
    for value, *given in zip(found, *arguments, strict=True):
        true = mpmath.re(exact(*(mpmath.mpf(float(v)) for v in given)))
        rounded = found.dtype.type(float(true))
        least = np.finfo(found.dtype).tiny
        if not np.isfinite(rounded) or abs(rounded) < least:
            yield 0.0
            continue
        yield float(abs(mpmath.mpf(float(value)) - true) / mpmath.mpf(float(np.spacing(abs(rounded)))))


def examine(name: str, function: Exact, count: int) -> list[str]:
    """The row of one function: its largest distance for each type, and where that is."""
    worst, places = [], []
    for dtype in DTYPES.values():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        arguments = [numbers(rng, function, count, dtype) for _ in range(function.arguments)]
        found = function.ours(*map(fb.tensor, arguments)).numpy()
        apart = np.array(list(distances(found, arguments, function.exact)))
        at = int(apart.argmax())
        worst.append(f"{apart[at]:.2f}")
        places.append(", ".join(repr(float(a[at])) for a in arguments))
    return [name, *worst, *places]


def main(argv: Sequence[str]) -> None:
    """Measure all functions, or those that are named, and write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--numbers", type=int, default=2000)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(argv)
    mpmath.mp.prec = BITS
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name, function in FUNCTIONS.items():
            if options.only and name not in options.only:
                continue
            began = time.perf_counter()
            row = examine(name, function, options.numbers)
            writer.writerow(row)
            file.flush()
            if options.verbose:
                print(f"{time.perf_counter() - began:6.2f} s", ", ".join(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
