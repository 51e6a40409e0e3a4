"""A progress bar for training loops: rich's where it is installed and the output is a terminal, else plain lines."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

T = TypeVar("T")
_INTERVAL = 0.25  # seconds between two readings of the numbers


class Progress:
    """Shows how far a loop is and its latest numbers on stderr.

    Use as ``with Progress(total, "training") as bar: bar.advance(loss=loss)``. Numbers may be tensors of one element:
    they are read, which waits for them, only when they are shown, at most four times a second.

    Args:
        total: number of steps.
        title: what is shown before the bar.
        stream: where to write; default stderr.
        lines: about how many lines are written when there is no terminal.
    """

    def __init__(self, total: int, title: str = "", stream: TextIO | None = None, lines: int = 10) -> None:
        self.total = total
        self.title = title
        self.done = 0
        self.stream = stream if stream is not None else sys.stderr
        self._every = max(1, total // max(lines, 1))
        self._bar: Any = None
        self._task: Any = None
        self._start = 0.0
        self._next = 0.0

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        self._bar = _rich_bar(self.stream)
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int = 1, **numbers: object) -> None:
        """Count steps and show numbers, floats with four significant digits."""
        self.done += steps
        now = time.perf_counter()
        if self._bar is not None:
            shown = {"note": _note(numbers)} if now >= self._next or self.done == self.total else {}
            self._next = now + _INTERVAL if shown else self._next
            self._bar.update(self._task, advance=steps, **shown)
        elif self.done % self._every < steps or self.done == self.total:
            line = f"{self.title} {self.done}/{self.total}  {now - self._start:.1f} s  {_note(numbers)}"
            self.stream.write(f"{line.strip()}\n")
            self.stream.flush()


def track(items: Iterable[T], total: int | None = None, title: str = "") -> Iterator[T]:
    """The items, with a progress bar that advances after each; ``total`` defaults to their ``len``."""
    count = total if total is not None else len(items)  # type: ignore[arg-type]
    with Progress(count, title) as bar:
        for item in items:
            yield item
            bar.advance()


def _note(numbers: Mapping[str, object]) -> str:
    return "  ".join(f"{name} {_format(value)}" for name, value in numbers.items())


def _format(value: Any) -> str:
    number = value.item() if hasattr(value, "item") else value
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def _rich_bar(stream: TextIO) -> Any:
    """A rich progress bar, or None without a terminal or without rich."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console  # here, because it is optional (the extra "train")
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return RichProgress(*columns, TextColumn("{task.fields[note]}"), console=Console(file=stream))
