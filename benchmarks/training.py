"""One training step (forward, backward, AdamW, loss read) on scikit-learn's digits, against PyTorch and JAX.

    python -m benchmarks.training [--threads N] [--peers torch,jax]

The networks: an MLP 64-128-64-10 with batches of 64 and 256, and the CNN of examples/digits.py with batches of 64. All
contenders begin with the same weights and see the same batches; their losses have to agree before anything is timed.
"""

import importlib.util
import sys

from benchmarks.results import Result
from benchmarks.steps import Step, Task, firebox_steps, jax_steps, make_task, torch_steps
from benchmarks.timing import arguments, compare, fair_process, report

CASES = (("MLP", 64), ("MLP", 256), ("CNN", 64))
CHECKED = 40
_NEAR = 0.02  # relative difference of losses; sums of f32 differ, and Adam amplifies that where gradients are tiny


def check(case: str, steps: dict[str, Step], count: int) -> None:
    """Take some steps with each contender.

    Raises:
        SystemExit: a loss differs from ours, or does not fall.
    """
    losses = {name: [step() for _ in range(count)] for name, step in steps.items()}
    for name, found in losses.items():
        apart = max(abs(a / b - 1) for a, b in zip(found, losses["firebox"], strict=True))
        if apart > _NEAR or not found[-1] < found[0]:
            sys.exit(f"{case}: the losses of {name} differ from ours by {apart:.1%}, {found[0]:.3f} -> {found[-1]:.3f}")


def contenders(task: Task, threads: int, peers: list[str]) -> dict[str, Step]:
    """The steps by name; a peer that is not installed is left out."""
    found = firebox_steps(task)
    if "torch" in peers and importlib.util.find_spec("torch"):
        found |= torch_steps(task, threads)
    if "jax" in peers and importlib.util.find_spec("jax"):
        found |= jax_steps(task)
    return found


def main() -> None:
    options = arguments(__doc__)
    fair_process(options.threads)
    results: list[Result] = []
    for name, batch in CASES:
        steps = contenders(make_task(name, batch), options.threads, options.peers)
        case = f"{name}, batch {batch}"
        check(case, steps, 10 if options.quick else CHECKED)
        timed = compare(case, steps, options)
        others = [peer for peer in steps if not peer.startswith("firebox")]
        results += [
            timed.of(f"{case}, usual loop", "firebox", others),
            timed.of(f"{case}, `fb.jit`", "firebox jit", others),
        ]
    report("training", results, options)


if __name__ == "__main__":
    main()
