"""Options of a compilation; apart from the pipeline, so that a cached program is found without loading the compiler."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What may differ between two compilations of one program for one target.

    Attributes:
        name: of the program and its entry point.
        checkpoint: what backward keeps; a strategy of the pass `checkpoint`.
        verify: verify the module after each phase.
    """

    name: str = "main"
    checkpoint: str = "keep-all"
    verify: bool = False
