"""Brings results into the pages: rewrites what stands between markers in README.md and the pages on benchmarks.

    python -m benchmarks.publish out/benchmarks.json out/opencl.json

keeps the files as benchmarks/results.json and, for an OpenCL device, benchmarks/opencl_results.json. Without a file,
the pages are written from the results that are kept. A block is

    <!-- benchmarks: NAME -->
    <!-- end benchmarks -->

where NAME is ``machine``, a benchmark (all that it found), ``limits`` (all that the project demands of itself), or
``highlights`` (the cases that `HIGHLIGHTS` names); those of an OpenCL device begin with ``opencl``.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.results import Report, from_json, markdown

ROOT = Path(__file__).parents[1]
KEPT = {"": ROOT / "benchmarks" / "results.json", "opencl ": ROOT / "benchmarks" / "opencl_results.json"}
"""Where results are kept, by what the names of their blocks begin with."""
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "opencl-benchmarks.md")
HIGHLIGHTS = (
    "6 element-wise ops",
    "softmax, rows of 4096",
    "layer norm",
    "AdamW",
    "gelu(x @ w + b), 8192",
    "`fb.jit`",
)
"""Parts of the names of cases that the README shows of an OpenCL device."""

_BLOCK = re.compile(r"(<!-- benchmarks: ([\w ]+) -->\n).*?(<!-- end benchmarks -->)", re.DOTALL)


def page(machine: Mapping[str, str], reports: Sequence[Report]) -> str:
    """All results as Markdown."""
    parts = [_machine(machine), *(f"## {report.name}\n\n{markdown(report)}" for report in reports)]
    return "\n\n".join(parts) + "\n"


def _machine(machine: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in machine.items())])


def blocks(machine: Mapping[str, str], reports: Sequence[Report], prefix: str = "") -> dict[str, str]:
    """What may stand between markers, by name; those that are not a benchmark's begin with ``prefix``."""
    results = [result for report in reports for result in report.results]
    bounded = [result for result in results if result.limit is not None]
    shown = [replace(r, extra={}) for r in results if any(part in r.case for part in HIGHLIGHTS)]
    common = {
        "machine": _machine(machine),
        "limits": markdown(Report("limits", bounded)),
        "highlights": markdown(Report("highlights", shown)),
    }
    ours = {report.name: markdown(report) for report in reports}
    return {**{prefix + name: text for name, text in common.items()}, **ours}


def rewritten(text: str, found: Mapping[str, str]) -> str:
    """The page with every block as it should be; a block of a benchmark that was not run stays."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{found[match[2]]}\n\n{match[3]}" if match[2] in found else match[0]

    return _BLOCK.sub(block, text)


def main(argv: Sequence[str], say: Callable[[str], object] = print) -> None:
    """Keep the files, and rewrite the pages."""
    for given in argv:
        shutil.copyfile(given, KEPT[json.loads(Path(given).read_text()).get("prefix", "")])
    found: dict[str, str] = {}
    for prefix, kept in KEPT.items():
        if kept.exists():
            data = json.loads(kept.read_text())
            found |= blocks(data["machine"], [from_json(report) for report in data["reports"]], prefix)
    for path in PAGES:
        if path.exists():
            path.write_text(rewritten(path.read_text(), found))
            say(f"{path.relative_to(ROOT)}: {', '.join(m[1] for m in _BLOCK.findall(path.read_text())) or 'no block'}")


if __name__ == "__main__":
    main(sys.argv[1:])
