"""Brings results into the pages: rewrites what stands between markers in README.md and docs/benchmarks.md.

    python -m benchmarks.publish out/benchmarks.json

keeps the file as benchmarks/results.json. Without a file, the pages are written from the results that are kept. A
block is

    <!-- benchmarks: NAME -->
    <!-- end benchmarks -->

where NAME is ``machine``, a benchmark (all that it found), or ``limits`` (all that the project demands of itself).
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.results import Report, from_json, markdown

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "results.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")

_BLOCK = re.compile(r"(<!-- benchmarks: ([\w ]+) -->\n).*?(<!-- end benchmarks -->)", re.DOTALL)


def page(machine: Mapping[str, str], reports: Sequence[Report]) -> str:
    """All results as Markdown."""
    parts = [_machine(machine), *(f"## {report.name}\n\n{markdown(report)}" for report in reports)]
    return "\n\n".join(parts) + "\n"


def _machine(machine: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in machine.items())])


def blocks(machine: Mapping[str, str], reports: Sequence[Report]) -> dict[str, str]:
    """What may stand between markers, by name."""
    bounded = [result for report in reports for result in report.results if result.limit is not None]
    ours = {report.name: markdown(report) for report in reports}
    return {"machine": _machine(machine), "limits": markdown(Report("limits", bounded)), **ours}


def rewritten(text: str, found: Mapping[str, str]) -> str:
    """The page with every block as it should be; a block of a benchmark that was not run stays."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{found[match[2]]}\n\n{match[3]}" if match[2] in found else match[0]

    return _BLOCK.sub(block, text)


def main(argv: Sequence[str], say: Callable[[str], object] = print) -> None:
    """Rewrite the pages."""
    if argv:
        shutil.copyfile(argv[0], KEPT)
    data = json.loads(KEPT.read_text())
    found = blocks(data["machine"], [from_json(report) for report in data["reports"]])
    for path in PAGES:
        if path.exists():
            path.write_text(rewritten(path.read_text(), found))
            say(f"{path.relative_to(ROOT)}: {', '.join(m[1] for m in _BLOCK.findall(path.read_text())) or 'no block'}")


if __name__ == "__main__":
    main(sys.argv[1:])
