"""Counters of what the frontend did: programs compiled and run, ops recomputed, bytes copied."""

from dataclasses import asdict, dataclass, fields


@dataclass
class Counters:
    """Counts since the start of the process or the last `reset`.

    Attributes:
        programs_run: launches of compiled programs.
        programs_compiled: programs that were not found in memory.
        nodes_run: recorded ops in the programs that ran.
        nodes_recomputed: ops that ran again in a backward because their values were read before it.
        jit_traces: times that a `jit` function was traced.
        bytes_copied: bytes copied from arrays of other libraries.
        buffers_donated: inputs whose memory an output was allowed to take.
    """

    programs_run: int = 0
    programs_compiled: int = 0
    nodes_run: int = 0
    nodes_recomputed: int = 0
    jit_traces: int = 0
    bytes_copied: int = 0
    buffers_donated: int = 0

    def reset(self) -> None:
        """Set every counter to zero."""
        for field in fields(self):
            setattr(self, field.name, 0)


COUNTERS = Counters()


def stats() -> dict[str, int]:
    """The counters by name."""
    return asdict(COUNTERS)


def reset_stats() -> None:
    """Set the counters to zero."""
    COUNTERS.reset()
