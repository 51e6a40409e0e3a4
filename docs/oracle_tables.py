"""Tables of docs/oracles.md, from the rows that the oracles of `benchmarks` wrote."""

import csv
from collections.abc import Callable
from pathlib import Path

from docs.tables import markdown


def oracle(name: str) -> list[dict[str, str]]:
    """The kept rows of an oracle, each by the names of its columns."""
    with (Path(__file__).parents[1] / "benchmarks" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def oracle_counts() -> list[str]:
    """How many ops and functions agree with the oracles."""
    ops, functions = oracle("opinfo"), oracle("jax_oracle")
    tried = [r for r in ops if r["samples"] != "0"]
    differentiated = [r for r in tried if r["gradients tried"] != "0"]
    rows: list[tuple[str, int, int]] = [
        ("PyTorch, values", sum(r["values"] == r["samples"] for r in tried), len(tried)),
        (
            "PyTorch, gradients",
            sum(r["gradients"] == r["gradients tried"] for r in differentiated),
            len(differentiated),
        ),
        *((f"JAX, {c}", sum(r[c] == "yes" for r in functions), len(functions)) for c in ("vmap", "jvp", "hessian")),
    ]
    return markdown(("oracle", "agree", "tried"), ((what, str(agree), str(all_)) for what, agree, all_ in rows))


def opinfo_tried() -> list[str]:
    """Every op of PyTorch that was tried: samples, and how many agree."""
    rows = [r for r in oracle("opinfo") if r["samples"] != "0"]
    head = ("op", "samples", "values", "gradients", "left out", "remarks")
    cells = (
        (
            f"`{r['op']}`",
            r["samples"],
            r["values"],
            _share(r),
            "" if r["left out"] == "0" else r["left out"],
            r["reason"],
        )
        for r in rows
    )
    return markdown(head, cells)


def _share(row: dict[str, str]) -> str:
    tried, agree = row["gradients tried"], row["gradients"]
    return "" if tried == "0" else agree if tried == agree else f"{agree} of {tried}"


def opinfo_not_tried() -> list[str]:
    """The ops of PyTorch that were not tried, by the reason."""
    found: dict[str, list[str]] = {}
    for row in oracle("opinfo"):
        if row["samples"] == "0":
            found.setdefault(row["reason"], []).append(f"`{row['op']}`")
    return markdown(("reason", "ops"), ((reason, ", ".join(names)) for reason, names in found.items()))


def jax_functions() -> list[str]:
    """Every function that was tried against JAX."""
    rows = oracle("jax_oracle")
    head = ("function", "vmap", "jvp", "hessian", "remarks")
    return markdown(head, ((f"`{r['function']}`", r["vmap"], r["jvp"], r["hessian"], r["reason"]) for r in rows))


def math_oracle() -> list[str]:
    """Every math function that was tried against mpmath: its largest distance, and where that is."""
    head = ("function", "f32", "f64", "at (f32)", "at (f64)")
    return markdown(head, ([f"`{r['function']}`", *(r[c] for c in head[1:])] for r in oracle("math_oracle")))


ORACLES: dict[str, Callable[[], list[str]]] = {
    "oracle counts": oracle_counts,
    "opinfo tried": opinfo_tried,
    "opinfo not tried": opinfo_not_tried,
    "jax functions": jax_functions,
    "math oracle": math_oracle,
}
"""By name: the lines of each table."""
