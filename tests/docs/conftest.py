"""What the pages show is imported as a reader would: with the folder of the examples on the path."""

import os
import sys
import tomllib
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

if str(EXAMPLES) not in sys.path:
    sys.path.insert(0, str(EXAMPLES))


def environment(cache: Path, *folders: Path) -> dict[str, str]:
    """Variables for a process that sees these folders and keeps what Python compiles, so that the next one is quick."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(map(str, (*folders, EXAMPLES.parent)))
    return {**known, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(cache)}


def install_plugin(folder: Path) -> None:
    """Make a folder look as if the example's package were installed there, with the entry points that it declares."""
    project = tomllib.loads((EXAMPLES / "plugin_op" / "pyproject.toml").read_text())["project"]
    metadata = folder / f"plugin_op-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(head)
    groups = ((f"[{group}]", points) for group, points in project["entry-points"].items())
    lines = [line for head, points in groups for line in (head, *(f"{k} = {v}" for k, v in points.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "plugin_op").symlink_to(EXAMPLES / "plugin_op")
