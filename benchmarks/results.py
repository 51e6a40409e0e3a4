"""What a benchmark found: results of cases, kept as JSON and shown as Markdown tables."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

OURS = "firebox"
Number = float | int | str


@dataclass(frozen=True)
class Result:
    """One case.

    Attributes:
        case: what was timed.
        threads: threads that each contender might use.
        seconds: median seconds per call of each contender; ours is called ``firebox``.
        least: the fastest sample.
        calm: share of the samples in which no thread waited for a processor.
        limit: seconds that ours shall not exceed, if the project has set itself such a limit.
        ratios: each peer's time over ours, from the process that timed both. Above 1 we are faster.
        extra: what else is known of our run, by the name of a column.
    """

    case: str
    threads: int
    seconds: Mapping[str, float]
    least: Mapping[str, float] = field(default_factory=dict)
    calm: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ours = self.seconds.get(OURS)
        if ours and not self.ratios:
            found = {peer: seconds / ours for peer, seconds in self.seconds.items() if peer != OURS}
            object.__setattr__(self, "ratios", found)

    def of(self, case: str, ours: str, others: Iterable[str]) -> "Result":
        """The same measurement seen from one of our contenders: it is ``firebox`` in the result."""
        names = {ours: OURS, **{name: name for name in others}}
        parts = [
            {names[old]: value for old, value in part.items() if old in names}
            for part in (self.seconds, self.least, self.calm)
        ]
        return Result(case, self.threads, parts[0], parts[1], parts[2])


@dataclass(frozen=True)
class Report:
    """Results of one benchmark, and what else it found, by name."""

    name: str
    results: list[Result]
    facts: dict[str, Number] = field(default_factory=dict)


def merged(reports: Sequence[Report]) -> Report:
    """One report of several processes that ran the same benchmark with other threads or peers.

    Our own time is the median of what the processes found; a peer's ratio stays that of its own process.
    """
    groups: dict[tuple[str, int], list[Result]] = {}
    for report in reports:
        for result in report.results:
            groups.setdefault((result.case, result.threads), []).append(result)
    facts = {key: value for report in reversed(reports) for key, value in report.facts.items()}
    return Report(reports[0].name, [_joined(group) for group in groups.values()], facts)


def _joined(group: Sequence[Result]) -> Result:
    return replace(
        group[0],
        seconds=_medians(result.seconds for result in group),
        least=_medians(result.least for result in group),
        calm=_medians(result.calm for result in group),
        ratios={peer: ratio for result in group for peer, ratio in result.ratios.items()},
    )


def _medians(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for part in parts:
        for contender, value in part.items():
            found.setdefault(contender, []).append(value)
    return {contender: statistics.median(values) for contender, values in found.items()}


# ---- as text -----------------------------------------------------------------------------------------------------


def to_json(report: Report) -> str:
    """The report as JSON; `from_json` reads it."""
    return json.dumps(asdict(report), indent=1)


def from_json(data: Mapping[str, Any]) -> Report:
    """A report from what JSON holds."""
    return Report(data["name"], [Result(**row) for row in data["results"]], dict(data["facts"]))


def markdown(report: Report) -> str:
    """Two tables: cases with a column for each contender; and what else was found."""
    blocks = [_cases(report.results)] if report.results else []
    if report.facts:
        rows = [f"| {name} | {_plain(value)} |" for name, value in report.facts.items()]
        blocks.append("\n".join(["| what | |", "|---|---|", *rows]))
    return "\n\n".join(blocks)


def _cases(results: Sequence[Result]) -> str:
    columns = list(dict.fromkeys(c for result in results for c in result.seconds))
    columns.sort(key=lambda column: column != OURS)
    threads = len({result.threads for result in results}) > 1
    limits = any(result.limit is not None for result in results)
    extra = list(dict.fromkeys(name for result in results for name in result.extra))
    head = ["case", *["threads"] * threads, *columns, *["limit"] * limits, *extra]
    rows = []
    for result in results:
        row = [result.case, *[str(result.threads)] * threads, *(_cell(result, column) for column in columns)]
        row += [_seconds(result.limit) if result.limit is not None else ""] * limits
        row += [_plain(result.extra.get(name, "")) for name in extra]
        rows.append("| " + " | ".join(row) + " |")
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows])


def _cell(result: Result, contender: str) -> str:
    """A time, for peers with its ratio to ours."""
    if contender not in result.seconds:
        return ""
    ratio = f" ({result.ratios[contender]:.2f}x)" if contender in result.ratios else ""
    return _seconds(result.seconds[contender]) + ratio


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value * 1e9)} ns"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _plain(value: Number) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value
