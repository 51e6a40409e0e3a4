"""JAX as an oracle of transforms: vmap, jvp and hessian of functions that both have, in f64.

    python -m benchmarks.jax_oracle out/jax.csv [--only NAME..] [--verbose]

needs JAX, which Firebox itself does not. Each function takes vectors or small matrices. `vmap` maps over a leading
axis of all arguments, `jvp` moves all of them at once, and `hessian` is that of the result times random factors, by the
first argument. The rows are kept as benchmarks/jax_oracle.csv, from which docs/oracles.md shows them.
"""

import argparse
import csv
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import firebox as fb
from benchmarks.jax_functions import FUNCTIONS, Pair

FIELDS = ("function", "vmap", "jvp", "hessian", "reason")
_NEAR = {"vmap": 1e-10, "jvp": 1e-9, "hessian": 1e-8}
Array = np.ndarray[Any, Any]


def drawn(rng: np.random.Generator, spec: str, batch: tuple[int, ...] = ()) -> Array:
    """An argument: a kind of numbers and a shape, such as ``positive 3 4``."""
    kind, *sizes = spec.split()
    shape = (*batch, *map(int, sizes))
    if kind == "positive":
        return rng.uniform(0.3, 3.0, shape)
    if kind == "unit":
        return rng.uniform(-0.9, 0.9, shape)
    if kind == "above":
        return rng.uniform(1.2, 4.0, shape)
    if kind == "index":
        return rng.integers(0, 3, shape)
    return rng.standard_normal(shape) * 1.5


def apart(mine: Any, theirs: Any, near: float) -> str:
    """How two results differ; "" if they agree."""
    ours, others = (jax.tree_util.tree_leaves(v) for v in (mine, theirs))
    if len(ours) != len(others):
        return f"{len(ours)} results for {len(others)}"
    for a, b in zip((np.asarray(v) for v in ours), (np.asarray(v) for v in others), strict=True):
        if a.shape != b.shape:
            return f"shape {a.shape} for {b.shape}"
        if not np.allclose(a, b, rtol=near, atol=near, equal_nan=True):
            return f"apart by {np.nanmax(np.abs(a - b)):.1e}"
    return ""


def tensors(arrays: Sequence[Array]) -> list[fb.Tensor]:
    return [fb.tensor(a) for a in arrays]


def check_vmap(pair: Pair, rng: np.random.Generator) -> str:
    arrays = [drawn(rng, spec, (3,)) for spec in pair.arguments]
    mine = fb.vmap(pair.ours)(*tensors(arrays))
    return apart(plain(mine), jax.vmap(pair.theirs)(*arrays), _NEAR["vmap"])


def check_jvp(pair: Pair, rng: np.random.Generator) -> str:
    arrays = [drawn(rng, spec) for spec in pair.arguments]
    floats = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    moves = [rng.standard_normal(arrays[k].shape) for k in floats]
    ours, theirs = (
        with_fixed(f, arrays, floats, make) for f, make in ((pair.ours, fb.tensor), (pair.theirs, jnp.asarray))
    )
    mine = fb.jvp(ours, tensors([arrays[k] for k in floats]), tensors(moves))
    return apart(plain(mine), jax.jvp(theirs, [arrays[k] for k in floats], moves), _NEAR["jvp"])


def check_hessian(pair: Pair, rng: np.random.Generator) -> str:
    arrays = [drawn(rng, spec) for spec in pair.arguments]
    others = [jnp.asarray(a) for a in arrays]
    factors = [rng.standard_normal(np.shape(v)) for v in jax.tree_util.tree_leaves(pair.theirs(*others))]

    def ours(x: fb.Tensor) -> Any:
        results = jax.tree_util.tree_leaves(pair.ours(x, *tensors(arrays[1:])))
        return sum((r * fb.tensor(f)).sum() for r, f in zip(results, factors, strict=True))

    def theirs(x: Any) -> Any:
        results = jax.tree_util.tree_leaves(pair.theirs(x, *others[1:]))
        return sum((r * f).sum() for r, f in zip(results, factors, strict=True))

    return apart(plain(fb.hessian(ours)(fb.tensor(arrays[0]))), jax.hessian(theirs)(others[0]), _NEAR["hessian"])


def with_fixed(function: Callable[..., Any], arrays: Sequence[Array], moving: Sequence[int], make: Any) -> Any:
    """The function of its float arguments alone."""

    def of_floats(*values: Any) -> Any:
        given = dict(zip(moving, values, strict=True))
        return function(*(given[k] if k in given else make(a) for k, a in enumerate(arrays)))

    return of_floats


def plain(value: Any) -> Any:
    """Results as NumPy's arrays."""
    return jax.tree_util.tree_map(lambda v: v.numpy() if isinstance(v, fb.Tensor) else np.asarray(v), value)


CHECKS = {"vmap": check_vmap, "jvp": check_jvp, "hessian": check_hessian}


def examine(name: str, pair: Pair) -> list[str]:
    """The row of one function."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    cells, reasons = [], []
    for check, run in CHECKS.items():
        if check in pair.without:
            cells.append("")
            reasons.append(f"{check}: {pair.why}")
            continue
        try:
            far = run(pair, rng)
        except Exception as error:  # whatever goes wrong on our side is a finding
            far = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        cells.append("no" if far else "yes")
        reasons += [f"{check}: {far}"] * bool(far)
    return [name, *cells, "; ".join(dict.fromkeys(reasons))]


def main(argv: Sequence[str]) -> None:
    """Examine all functions, or those that are named, and write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name, pair in FUNCTIONS.items():
            if options.only and name not in options.only:
                continue
            began = time.perf_counter()
            row = examine(name, pair)
            writer.writerow(row)
            file.flush()
            if options.verbose:
                print(f"{time.perf_counter() - began:6.2f} s", ", ".join(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
