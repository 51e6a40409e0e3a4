"""PyTorch's own samples of its ops (OpInfo) as an oracle: values in f32, and gradients with random cotangents.

    python -m benchmarks.opinfo out/opinfo.csv [--samples 6] [--only NAME..] [--verbose]

needs PyTorch, which Firebox itself does not. The tables beside this module say which function is which;
`opinfo_reasons` says why an op has none. The rows are kept as benchmarks/opinfo.csv, from which docs/oracles.md shows
them.
"""

import argparse
import copy
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import firebox as fb
from benchmarks.opinfo_arrays import ARRAYS
from benchmarks.opinfo_differences import DIFFERENCES, Difference
from benchmarks.opinfo_elementwise import ELEMENTWISE
from benchmarks.opinfo_layers import LAYERS
from benchmarks.opinfo_linear import LINEAR
from benchmarks.opinfo_reasons import reason
from benchmarks.opinfo_support import Function, NotTried

TABLE: dict[str, Function] = {**ELEMENTWISE, **ARRAYS, **LINEAR, **LAYERS}
RENAMED = {"dim": "axis", "keepdim": "keepdims"}
DROPPED = ("device", "layout", "requires_grad", "memory_format", "pin_memory", "out")
FIELDS = ("op", "samples", "left out", "values", "gradients tried", "gradients", "reason")
_NEAR = 1e-5
Array = np.ndarray[Any, Any]
Chosen = Callable[[Any], Any]
_TYPES = {
    getattr(torch, d.long): d
    for d in (fb.bool, fb.int8, fb.int16, fb.int32, fb.int64, fb.uint8, fb.float16, fb.bfloat16, fb.float32, fb.float64)
}


@dataclass
class Row:
    """What was found of one op: how many samples were tried and left out, how many agree; and why not."""

    op: str
    samples: int = 0
    left_out: int = 0
    values: int = 0
    tried: int = 0
    gradients: int = 0
    reasons: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.reasons:
            self.reasons.append(text)

    def cells(self) -> list[str]:
        counts = (self.samples, self.left_out, self.values, self.tried, self.gradients)
        return [self.op, *map(str, counts), "; ".join(self.reasons)]


# ---- from PyTorch to Firebox -------------------------------------------------------------------------------------


def ours(value: Any) -> Any:
    """An argument of PyTorch's as one of ours."""
    if isinstance(value, torch.Tensor):
        return to_tensor(value)
    if isinstance(value, torch.dtype):
        return _TYPES[value]
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, list | tuple):
        return type(value)(ours(v) for v in value)
    return value


def to_tensor(value: torch.Tensor) -> fb.Tensor:
    plain = value.detach().resolve_conj().resolve_neg()
    wide = plain.to(torch.float32) if plain.dtype is torch.bfloat16 else plain
    return fb.tensor(np.array(wide.numpy(force=True))).astype(_TYPES[value.dtype])


def leaves(value: Any) -> Iterator[Any]:
    """Tensors and numbers inside of tuples, lists and dicts, in order."""
    if isinstance(value, list | tuple):
        for v in value:
            yield from leaves(v)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    elif isinstance(value, torch.Tensor) and value.is_complex():
        yield from (value.real, value.imag)
    elif value is not None:
        yield value


def keywords(given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments under our names, without those that say where and how PyTorch keeps a tensor."""
    return {RENAMED.get(name, name): value for name, value in given.items() if name not in DROPPED}


def function_of(entry: Function) -> Callable[..., Any] | None:
    """The function of a row of the tables; None if Firebox does not have it."""
    if not isinstance(entry, str):
        return entry
    return getattr(fb, entry, None) or getattr(fb.nn.functional, entry, None)


# ---- comparison --------------------------------------------------------------------------------------------------


def as_array(value: Any) -> Array:
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        return (value.to(torch.float32) if value.dtype is torch.bfloat16 else value).numpy(force=True)
    array = value.numpy() if isinstance(value, fb.Tensor) else np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def apart(found: Any, expected: Any, exact: Callable[[], Any], near: float = _NEAR) -> str:
    """How two results differ; "" if they agree: in number, shape, type and value.

    Sums in another order differ by more than the tolerance. Then PyTorch's result in f64 is the judge: ours is right if
    it is not further from that than twice the largest error of PyTorch's own in f32.
    """
    mine, theirs = list(leaves(found)), list(leaves(expected))
    if len(mine) != len(theirs):
        return f"{len(mine)} results for {len(theirs)}"
    for k, (a, b) in enumerate(zip(map(as_array, mine), map(as_array, theirs), strict=True)):
        if a.shape != b.shape:
            return f"shape {a.shape} for {b.shape}"
        if a.dtype != b.dtype:
            return f"{a.dtype} for {b.dtype}"
        if b.dtype.kind != "f":
            if not np.array_equal(a, b):
                return f"{int((a != b).sum())} of {b.size} {b.dtype} differ"
        elif not close(a, b, near) and not as_exact(a, b, as_array(list(leaves(exact()))[k]), near):
            return f"apart by {np.nanmax(np.abs(a - b)):.2e}"
    return ""


def close(a: Array, b: Array, near: float) -> bool:
    return np.allclose(a, b, rtol=near, atol=near, equal_nan=True)


def as_exact(mine: Array, theirs: Array, exact: Array, near: float) -> bool:
    """Whether our error is the usual one, or at most twice the largest of the other; infinities and NaN stand alike."""
    usual = np.isfinite(exact) & np.isfinite(theirs)
    if not np.array_equal(mine[~usual], theirs[~usual], equal_nan=True):
        return False
    error, other = (np.abs(v[usual].astype(np.float64) - exact[usual]) for v in (mine, theirs))
    return bool((error <= np.maximum(near * (1 + np.abs(exact[usual])), 2 * other.max(initial=0.0))).all())


# ---- one sample --------------------------------------------------------------------------------------------------


class Trial:
    """One sample of an op, on both sides."""

    def __init__(self, op: Any, sample: Any, function: Callable[..., Any]) -> None:
        self.op, self.sample, self.function = op, sample, function
        self.given = (sample.input, *sample.args)
        self.named = dict(sample.kwargs)

    def expected(self) -> Any:
        return self.op(*self.given, **self.named)

    def exact(self) -> "Trial":
        """The same in f64."""
        wide = copy.copy(self)
        known: dict[int, Any] = {}
        wide.given, wide.named = widened(self.given, known), widened(self.named, known)
        return wide

    def found(self) -> Any:
        return self.function(*ours(self.given), **keywords(ours_of(self.named)))

    def wrt(self) -> list[torch.Tensor]:
        """The tensors that PyTorch differentiates by."""
        every = [v for v in leaves([self.given, self.named]) if isinstance(v, torch.Tensor) and v.requires_grad]
        return list({id(v): v for v in every}.values())

    def places(self, results: Sequence[Any]) -> list[int]:
        """Which of the results PyTorch differentiates."""
        return [k for k, v in enumerate(results) if isinstance(v, torch.Tensor) and v.requires_grad]

    def theirs(self, results: Sequence[Any], seeds: Sequence[Array]) -> list[torch.Tensor]:
        """PyTorch's gradients of some results."""
        wrt = self.wrt()
        cotangents = [torch.tensor(s).to(v.dtype) for s, v in zip(seeds, results, strict=True)]
        found = torch.autograd.grad(results, wrt, cotangents, allow_unused=True)
        return [torch.zeros_like(w) if g is None else g for w, g in zip(wrt, found, strict=True)]

    def mine(self, places: Sequence[int], seeds: Sequence[Any], chosen: Chosen) -> list[fb.Tensor]:
        """Our gradients of the results at these places."""
        wrt = self.wrt()

        def of_leaves(*values: fb.Tensor) -> list[Any]:
            by_id = {id(w): v for w, v in zip(wrt, values, strict=True)}
            made = self.function(*swapped(self.given, by_id), **keywords(swapped(self.named, by_id)))
            results = list(leaves(chosen(made)))
            return [results[k] for k in places]

        _, pullback = fb.vjp(of_leaves, *(to_tensor(w) for w in wrt))
        return list(pullback([to_tensor(s) for s in seeds]))

    def gradients_apart(self, expected: Any, seed: int, chosen: Chosen, near: float) -> str | None:
        """How the gradients differ; "" if they do not, None if there is nothing to be differentiated."""
        results = list(leaves(chosen(expected)))
        places = self.places(results)
        if not self.wrt() or not places:
            return None
        outputs = [results[k] for k in places]
        rng = np.random.default_rng(seed)
        seeds = [rng.standard_normal(o.shape) for o in outputs]
        mine = self.mine(places, [torch.tensor(s).to(o.dtype) for s, o in zip(seeds, outputs, strict=True)], chosen)

        def exact() -> list[torch.Tensor]:
            wide = self.exact()
            every = list(leaves(chosen(wide.expected())))
            return wide.theirs([every[k] for k in places], seeds)

        return apart(mine, self.theirs(outputs, seeds), exact, near)


def widened(value: Any, known: dict[int, Any]) -> Any:
    """Arguments with tensors of f64 in the place of those of f32; equal ones stay the same tensor."""
    if isinstance(value, torch.Tensor):
        if value.dtype is not torch.float32:
            return value
        return known.setdefault(id(value), value.detach().double().requires_grad_(value.requires_grad))
    if value is torch.float32:
        return torch.float64
    if isinstance(value, dict):
        return {name: widened(v, known) for name, v in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(widened(v, known) for v in value)
    return value


def ours_of(named: dict[str, Any]) -> dict[str, Any]:
    return {name: ours(value) for name, value in named.items()}


def swapped(value: Any, by_id: dict[int, Any]) -> Any:
    """Arguments with tensors of ours in the place of those that are differentiated by."""
    if id(value) in by_id:
        return by_id[id(value)]
    if isinstance(value, dict):
        return {name: swapped(v, by_id) for name, v in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(swapped(v, by_id) for v in value)
    return ours(value)


# ---- ops ---------------------------------------------------------------------------------------------------------


def samples_of(op: Any, limit: int) -> list[Any]:
    """Some of an op's samples, spread evenly over all of them."""
    torch.manual_seed(0)
    grad = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
    every = []
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=grad):
        every.append(sample)
        if len(every) == 300:
            break
    picked = np.unique(np.linspace(0, len(every) - 1, min(limit, len(every))).round().astype(int)) if every else []
    return [every[k] for k in picked]


def names_axis_of_scalar(sample: Any, error: Exception) -> bool:
    """PyTorch lets 0-d tensors have an axis 0; here, as in NumPy, they have none."""
    return isinstance(error, IndexError) and getattr(sample.input, "ndim", 1) == 0


def examine(op: Any, limit: int) -> Row:
    """All that is to be said of one op."""
    key = f"{op.name} {op.variant_test_name}".strip()
    row = Row(key)
    entry = TABLE.get(key)
    function = None if entry is None else function_of(entry)
    if function is None:
        row.note(reason(key))
        return row
    difference = DIFFERENCES.get(key, Difference(""))
    for number, sample in enumerate(samples_of(op, limit)):
        try_sample(row, Trial(op, sample, function), difference, number)
    if difference.reason:
        row.note(difference.reason)
    return row


def try_sample(row: Row, trial: Trial, difference: Difference, number: int) -> None:
    expected, chosen = trial.expected(), difference.values
    try:
        found = trial.found()
        row.samples += 1
        far = apart(chosen(found), chosen(expected), lambda: chosen(trial.exact().expected()), difference.near)
    except NotTried as why:
        row.left_out += 1
        return row.note(str(why))
    except Exception as error:  # whatever goes wrong on our side is a finding
        if names_axis_of_scalar(trial.sample, error):
            row.left_out += 1
            return row.note("a 0-d array has no axis")
        row.samples += 1
        return row.note(f"values: {short(error)}")
    row.values += not far
    if far:
        row.note(f"values: {far}")
    return try_gradients(row, trial, expected, difference, number) if difference.gradients else None


def try_gradients(row: Row, trial: Trial, expected: Any, difference: Difference, number: int) -> None:
    try:
        far = trial.gradients_apart(expected, number, difference.values, difference.near)
    except Exception as error:  # whatever goes wrong on our side is a finding
        far = short(error)
    if far is None:
        return None
    row.tried += 1
    row.gradients += not far
    return row.note(f"gradients: {far}") if far else None


def short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


def main(argv: Sequence[str]) -> None:
    """Examine all ops, or those that are named, and write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    chosen = [op for op in op_db if torch.float32 in op.supported_dtypes("cpu")]
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for op in chosen:
            if options.only and op.name not in options.only:
                continue
            began = time.perf_counter()
            row = examine(op, options.samples)
            writer.writerow(row.cells())
            file.flush()
            if options.verbose:
                print(f"{time.perf_counter() - began:6.2f} s", ", ".join(row.cells()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
