"""Which results of a program are right although an index in it turned out to be out of range."""

from collections.abc import Iterator, Sequence

from firebox.frontend.steps import Step


def unaffected(steps: Sequence[Step], outputs: Sequence[int]) -> tuple[bool, ...]:
    """For each output whether no op behind it can fail at run time."""
    doubtful: set[int] = set()
    for step in steps:
        if _can_fail(step) or not doubtful.isdisjoint(_used(step)):
            doubtful.update(range(step.first, step.first + len(step.entry.results)))
    return tuple(number not in doubtful for number in outputs)


def _can_fail(step: Step) -> bool:
    """Also true of ops of other packages, which may do what they like."""
    op = step.entry.op
    own = op.name.startswith("nd.") and not op.checks_indices
    return not own or any(_can_fail(inner) for block in step.blocks for inner in block.steps)


def _used(step: Step) -> Iterator[int]:
    """Numbers of what a step and its regions read."""
    yield from step.operands
    for block in step.blocks:
        yield from block.yields
        for inner in block.steps:
            yield from _used(inner)
