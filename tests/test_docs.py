"""The documentation names things that exist."""

import re
from pathlib import Path

import pytest

from firebox.frontend.cli.main import COMMANDS
from firebox.lowering.pipeline import PHASES
from firebox.runtime.target import PRESET_NAMES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if page.name != "README.md" and f"({page.name})" not in index] == []


def test_the_layout_names_existing_files() -> None:
    folder = ROOT / "firebox"
    for cell in re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE):
        for name in re.findall(r"`([\w./]+)`", cell):
            places = (ROOT / name, folder / name, folder / "runtime" / name)
            assert any(place.exists() for place in places), name
            folder = (ROOT / name).parent if name.startswith("firebox/") and name.endswith(".py") else folder


@pytest.mark.parametrize("word", [*COMMANDS, *PHASES, *PRESET_NAMES, "--emit", "--compile-to"])
def test_the_command_line_is_documented(word: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", (ROOT / "docs" / "cli.md").read_text())


def test_the_targets_of_make_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", (ROOT / "README.md").read_text()):
        assert f"\n{target}:" in makefile, target
