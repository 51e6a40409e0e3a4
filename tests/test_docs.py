"""The documentation shows code and tables of the tree, its links lead somewhere, and its commands work."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import include
from docs.tables import FOLDERS
from firebox.frontend.cli.main import COMMANDS
from firebox.lowering.pipeline import PHASES
from firebox.runtime.target import PRESET_NAMES
from tests.docs.conftest import environment, install_plugin

ROOT = Path(__file__).parents[1]
PAGES = include.pages()
DOCS = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
RUN = re.compile(r"<!-- run -->\n```sh\n(.*?)```", re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_what_a_page_includes_is_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert include.render(text) == text, "run python -m docs.include"


# ---- links -------------------------------------------------------------------------------------------------------


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        place = page.parent / name if name else page
        if not place.exists() or (anchor and anchor not in _anchors(place)):
            dead.append(target)
    assert dead == []


def _prose(page: Path) -> str:
    """The page without what stands in fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The names that headings get, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", index.read_text())}
    assert [str(page) for page in DOCS if page != index and page not in linked] == []


# ---- names -------------------------------------------------------------------------------------------------------


def test_the_layout_names_existing_files() -> None:
    folder = ROOT / "firebox"
    for cell in re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE):
        for name in re.findall(r"`([\w./]+)`", cell):
            places = (ROOT / name, folder / name, folder / "runtime" / name)
            assert any(place.exists() for place in places), name
            folder = (ROOT / name).parent if name.startswith("firebox/") and name.endswith(".py") else folder


def test_the_modules_of_every_folder_are_listed() -> None:
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "firebox").rglob("*.py")}
    assert folders == set(FOLDERS)


@each_page
def test_paths_in_the_text_exist(page: Path) -> None:
    """What looks like a path of the tree in prose is one."""
    named = re.findall(r"`((?:firebox|tests|docs|examples|benchmarks)/[\w./-]+)`", _prose(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("word", [*COMMANDS, *PHASES, *PRESET_NAMES, "--emit", "--compile-to"])
def test_the_command_line_is_documented(word: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", (ROOT / "docs" / "cli.md").read_text())


def test_the_targets_of_make_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", (ROOT / "README.md").read_text()):
        assert f"\n{target}:" in makefile, target


# ---- commands ----------------------------------------------------------------------------------------------------


def commands() -> Iterator[object]:
    """The blocks marked as run."""
    for page in PAGES:
        for number, match in enumerate(RUN.finditer(page.read_text())):
            yield pytest.param(match[1], id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize("script", list(commands()))
def test_commands_marked_as_run_work(script: str, tmp_path: Path) -> None:
    """In a folder with links to the examples and tests, where `firebox` and the example's package are installed."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    tools, site = tmp_path / ".bin", tmp_path / ".site"
    tools.mkdir()
    install_plugin(site)
    for name, arguments in (("firebox", "-m firebox "), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        (tools / name).chmod(0o755)
    variables = environment(tmp_path.parent / "pycache", site)
    variables["PATH"] = f"{tools}{os.pathsep}{variables['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", script]
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


# ---- the mechanism -----------------------------------------------------------------------------------------------

SOURCE = '''"""A file."""

LIMIT = 3


@decorate
class A:
    """Holds things."""

    def first(self) -> int:
        return 1

    def second(self) -> int:
        return 2
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", SOURCE.strip()),
        (" #A.second", "def second(self) -> int:\n    return 2"),
        (" #LIMIT", "LIMIT = 3"),
        (' #"@decorate" .. "Holds", "second" .. "2"', None),
        (' #"LIMIT"', "LIMIT = 3"),
    ],
)
def test_a_marker_gets_its_block(tree: Path, selector: str, expected: str | None) -> None:
    parts = '@decorate\nclass A:\n    """Holds things."""\n    # ...\n    def second(self) -> int:\n        return 2'
    marker = f"<!-- include: a.py{selector} -->"
    page = f"# Title\n\n{marker}\n```python\nold\n```\n\nText.\n"
    once = include.render(page, tree)
    assert once == f"# Title\n\n{marker}\n```python\n{parts if expected is None else expected}\n```\n\nText.\n"
    assert include.render(once, tree) == once
    assert include.render(f"{marker}\nText.\n", tree).endswith("```\nText.\n")


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("<!-- include: b.py -->", "no file b.py"),
        ("<!-- include: a.py #A.third -->", "no definition A.third"),
        ('<!-- include: a.py #"nowhere" -->', "no line holds 'nowhere'"),
        ('<!-- include: a.py #"LIMIT" .. -->', "malformed"),
        ("<!-- table: none -->", "no table 'none'"),
    ],
)
def test_a_marker_that_asks_for_nothing_is_an_error(tree: Path, marker: str, words: str) -> None:
    with pytest.raises(include.IncludeError, match=words):
        include.render(f"{marker}\n", tree)


def test_a_table_is_replaced() -> None:
    page = "<!-- table: plan -->\n| old |\n|---|\n\nText.\n"
    rendered = include.render(page)
    assert "| `plan.launch` |" in rendered and "| old |" not in rendered and rendered.endswith("|\n\nText.\n")
