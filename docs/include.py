"""Keeps the pages' code and tables equal to the tree: rewrites each block that follows a marker.

    python -m docs.include           # rewrite all pages
    python -m docs.include --check   # say which blocks differ, exit code 1 if any does

A marker is a line of its own; what follows it is replaced:

    <!-- include: path -->                                  the file, as a fenced block
    <!-- include: path #Class.method -->                    a definition of a Python file
    <!-- include: path #"first" .. "last", "other" -->      from the line that holds one text to the line that holds the
                                                            next; parts are joined by a line of dots
    <!-- table: name -->                                    a table of `docs.tables`
"""

import argparse
import ast
import difflib
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.oracle_tables import ORACLES
from docs.tables import TABLES

ROOT = Path(__file__).parents[1]
LANGUAGES = {
    ".py": "python",
    ".mlir": "mlir",
    ".ll": "llvm",
    ".cl": "c",
    ".toml": "toml",
    ".sh": "sh",
    ".txt": "text",
    ".md": "text",
}
DOTS = {"python": "# ...", "mlir": "// ...", "llvm": "; ...", "c": "// ..."}

_INCLUDE = re.compile(r"<!-- include: (\S+)(?: #(.+?))? -->\s*")
_TABLE = re.compile(r"<!-- table: (.+?) -->\s*")
_SPAN = re.compile(r'\s*"([^"]+)"(?:\s*\.\.\s*"([^"]+)")?\s*(?:,|$)')


class IncludeError(Exception):
    """A marker that asks for something that is not there."""


def pages(root: Path = ROOT) -> list[Path]:
    """The Markdown files that are read by people, in order."""
    return [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]


def render(text: str, root: Path = ROOT) -> str:
    """The page with every block as it should be.

    Raises:
        IncludeError: no such file, definition, text or table; names the marker.
    """
    lines = iter(text.split("\n"))
    return "\n".join(_rendered(lines, root))


def _rendered(lines: Iterator[str], root: Path) -> Iterator[str]:
    pending: list[str] = []
    while (line := pending.pop() if pending else next(lines, None)) is not None:
        yield line
        if match := _INCLUDE.fullmatch(line):
            pending = _skip_block(lines)
            yield from block(match[1], match[2] or "", root)
        elif match := _TABLE.fullmatch(line):
            pending = _skip_table(lines)
            yield from table(match[1])


def _skip_block(lines: Iterator[str]) -> list[str]:
    """Drop the fenced block that comes next; gives back a line that begins something else."""
    line = next(lines, None)
    if line is None or not line.startswith("```"):
        return [] if line is None else [line]
    for inner in lines:
        if inner == "```":
            break
    return []


def _skip_table(lines: Iterator[str]) -> list[str]:
    for line in lines:
        if not line.startswith("|"):
            return [line]
    return []


def table(name: str) -> list[str]:
    """The lines of a table.

    Raises:
        IncludeError: no such table.
    """
    known = TABLES | ORACLES
    if name not in known:
        raise IncludeError(f"no table {name!r}; there are {', '.join(known)}")
    return known[name]()


def block(name: str, selector: str, root: Path = ROOT) -> list[str]:
    """A fenced block with a file, or with a part of it.

    Raises:
        IncludeError: no such file, or nothing in it that the selector names.
    """
    path = root / name
    if not path.is_file():
        raise IncludeError(f"no file {name}")
    language = LANGUAGES.get(path.suffix, "text")
    lines = path.read_text().rstrip("\n").split("\n")
    if selector:
        lines = _selected(lines, selector, DOTS.get(language, "..."), name)
    return [f"```{language}", *textwrap.dedent("\n".join(lines)).split("\n"), "```"]


def _selected(lines: Sequence[str], selector: str, dots: str, name: str) -> list[str]:
    if '"' not in selector:
        return definition(lines, selector.strip(), name)
    found: list[str] = []
    position = 0
    end = -1
    while position < len(selector):
        match = _SPAN.match(selector, position)
        if match is None:
            raise IncludeError(f"{name}: malformed selector {selector!r}")
        start = _find(lines, match[1], max(end + 1, 0), name)
        if found and start > end + 1:
            found.append(re.match(r"\s*", lines[start])[0] + dots)  # type: ignore[index]
        end = _find(lines, match[2], start, name) if match[2] else start
        found += lines[start : end + 1]
        position = match.end()
    return found


def _find(lines: Sequence[str], text: str, start: int, name: str) -> int:
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    raise IncludeError(f"{name}: no line holds {text!r} after line {start}")


def definition(lines: Sequence[str], qualified: str, name: str) -> list[str]:
    """The lines of a class, function or assigned name, with decorators, by its dotted name.

    Raises:
        IncludeError: there is none.
    """
    node: ast.AST = ast.parse("\n".join(lines))
    for part in qualified.split("."):
        node = _member(node, part, f"{name}: no definition {qualified}")
    assert isinstance(node, ast.stmt)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return list(lines[first - 1 : node.end_lineno])


def _member(node: ast.AST, part: str, message: str) -> ast.stmt:
    for child in getattr(node, "body", []):
        if getattr(child, "name", None) == part or part in _assigned(child):
            assert isinstance(child, ast.stmt)
            return child
    raise IncludeError(message)


def _assigned(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m docs.include", description="Bring included code up to date.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 where something differs")
    check = parser.parse_args(argv).check
    stale = 0
    for path in pages():
        old = path.read_text()
        try:
            new = render(old)
        except IncludeError as error:
            print(f"{path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        if old != new:
            stale += 1
            if check:
                print("\n".join(difflib.unified_diff(old.split("\n"), new.split("\n"), str(path), "as it should be")))
            else:
                path.write_text(new)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
