"""Values that move between blocks: variables of C that loops and branches assign."""

import re
from collections.abc import Sequence

from firebox.lowering.opencl.function import FunctionText, Value
from firebox.lowering.opencl.text import Expr

_WORDS = re.compile(r"[A-Za-z_]\w*")


def declare(f: FunctionText, ssa: Value, start: Expr | None = None) -> str:
    """Declare a variable that holds a value; its name."""
    name = f.fresh()
    f.line(f"{f.type(ssa)} {name}{f' = {start.text}' if start else ''};")
    f.define_name(ssa, name)
    return name


def assign(f: FunctionText, names: Sequence[str], values: Sequence[Value]) -> None:
    """Give variables their next values, all at once: what reads a variable goes before what changes it."""
    pairs = [(n, v) for n, v in zip(names, values, strict=True) if f.value(v).text != n]
    while pairs:
        chosen = next((p for p in pairs if not _is_read(f, p, pairs)), None)
        if chosen is None:  # a cycle: one value is kept in a constant first
            f.keep(pairs[0][1])
            continue
        pairs.remove(chosen)
        f.line(f"{chosen[0]} = {f.value(chosen[1]).text};")


def _is_read(f: FunctionText, pair: tuple[str, Value], pairs: "list[tuple[str, Value]]") -> bool:
    """Whether the value of another pair reads this pair's variable."""
    return any(pair[0] in _WORDS.findall(f.value(other[1]).text) for other in pairs if other is not pair)
