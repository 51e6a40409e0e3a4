"""What `firebox opt` shows while passes run: IR dumps under MLIR's headers, one file per pass, a table of times."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class DumpOptions:
    """Which dumps are wanted, by mlir-opt's option names.

    Attributes:
        before: names of passes; None means all.
        after: likewise.
        only_changed: leave out dumps that equal the one before.
        directory: write numbered files there instead of to stderr.
    """

    before: frozenset[str] | None = frozenset()
    after: frozenset[str] | None = frozenset()
    only_changed: bool = False
    directory: Path | None = None


@dataclass
class Instrument:
    """Told of every pass before and after it runs; dumps go to stderr, as the result goes to stdout."""

    options: DumpOptions
    show: Callable[[ModuleOp], str]
    times: list[tuple[str, float]] = field(default_factory=list)
    _start: float = 0.0
    _last: str = ""
    _count: int = 0

    def before(self, module: ModuleOp, passed: ModulePass) -> None:
        if self.options.only_changed and not self._last:
            self._last = self.show(module)
        if _is_wanted(self.options.before, passed):
            self._dump("Before", module, passed)
        self._start = time.perf_counter()

    def after(self, module: ModuleOp, passed: ModulePass) -> None:
        self.times.append((str(passed), time.perf_counter() - self._start))
        if _is_wanted(self.options.after, passed):
            self._dump("After", module, passed)

    def failed(self, module: ModuleOp, passed: ModulePass) -> None:
        """Show what a failing pass left behind, when its dumps are wanted."""
        if _is_wanted(self.options.after, passed):
            self._dump("After Failed", module, passed)

    def table(self) -> str:
        """Passes by time, as ``--mlir-timing`` prints them."""
        total = sum(seconds for _, seconds in self.times) or 1e-9
        rows = sorted(self.times, key=lambda row: -row[1])
        lines = [f"  {seconds:8.4f} ({100 * seconds / total:5.1f}%)  {name}" for name, seconds in rows]
        head = ["===" + "-" * 73 + "===", "... Execution time report ...".center(79).rstrip()]
        head += [f"  Total Execution Time: {total:.4f} seconds", "", "  ----Wall Time----  ----Name----"]
        return "\n".join(head + lines)

    def _dump(self, when: str, module: ModuleOp, passed: ModulePass) -> None:
        text = self.show(module)
        if self.options.only_changed and when == "After" and text == self._last:
            return
        self._last = text
        header = f"// -----// IR Dump {when} {type(passed).__name__}: {passed} ('builtin.module' operation) //----- //"
        if self.options.directory is None:
            print(header, text, sep="\n", file=sys.stderr)
            return
        self._count += 1
        self.options.directory.mkdir(parents=True, exist_ok=True)
        name = f"{self._count:03d}_{when.lower().replace(' ', '_')}_{passed.name}.mlir"
        (self.options.directory / name).write_text(f"{header}\n{text}\n")


def _is_wanted(names: frozenset[str] | None, passed: ModulePass) -> bool:
    return names is None or passed.name in names
