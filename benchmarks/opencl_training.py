"""Training steps on an OpenCL device beside PyTorch: time, launches, the host's share, memory; and the first steps.

Run as a program it takes two steps in a fresh process and prints when they were done: ``compiling`` starts that.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import firebox as fb
from benchmarks.gpt import Ours, torch_update
from benchmarks.observe import GroupInfo, compilations
from benchmarks.opencl_timing import Contender, Place, compare, say
from benchmarks.results import OURS, Number, Result
from benchmarks.steps import firebox_steps, random_task, torch_steps
from firebox.runtime.opencl_profile import KernelTime

Step = Callable[[], Any]
JITTED = "firebox jit"
ROOT = Path(__file__).parents[1]
_LOSSES = 5
_NEAR = {"float32": 0.01, "bfloat16": 0.05}
_SHOWN = 40


@dataclass(frozen=True)
class Training:
    """A network to train: steps return the loss unread.

    Attributes:
        name: of the case.
        ours: makes our steps, ``firebox`` (the usual loop) and ``firebox jit``.
        peers: makes PyTorch's, by name.
        dtype: of the parameters.
    """

    name: str
    ours: Callable[[], dict[str, Step]]
    peers: Callable[[], dict[str, Step]]
    dtype: str = "float32"


def trainings(place: Place) -> Iterator[Training]:
    """The networks: an MLP and a CNN for images of 8 x 8, and a GPT of 6 layers in two types."""
    for name in ("MLP", "CNN"):
        yield _of_images(name, 8 if place.quick else 64, place)
    for dtype in ("float32", "bfloat16"):
        yield _of_letters(dtype, place)


def _of_images(name: str, batch: int, place: Place) -> Training:
    task = random_task(name, batch)

    def peers() -> dict[str, Step]:
        found = torch_steps(task, 1, place.peer, _unread)
        return found if place.compiles else {"torch": found["torch"]}

    return Training(f"{name}, batch {batch}", lambda: firebox_steps(task, place.device, _unread), peers)


def _of_letters(dtype: str, place: Place) -> Training:
    layers, batch, sizes = _gpt_sizes(place.quick)
    made: list[Ours] = []

    def ours() -> dict[str, Step]:
        made.append(Ours(layers, batch, place.device, dtype, **sizes))
        return {OURS: lambda: made[0].update(*made[0].inputs), JITTED: lambda: made[0].jitted(*made[0].inputs)}

    def peers() -> dict[str, Step]:
        found = {"torch": torch_update(made[0], place.peer, dtype)}
        return found | ({"torch.compile": torch_update(made[0], place.peer, dtype, True)} if place.compiles else {})

    short = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    name = f"GPT, {layers} layers, width {sizes['width']}, context {sizes['context']}, batch {batch}, {short}"
    return Training(name, ours, peers, dtype)


def _gpt_sizes(quick: bool) -> tuple[int, int, dict[str, int]]:
    """Layers, batch, and other sizes of the GPT."""
    if quick:
        return 1, 2, {"width": 32, "heads": 2, "context": 16}
    return 6, 64, {"width": 384, "heads": 6, "context": 256}


def _unread(loss: Any) -> Any:
    return loss


# ---- one training ------------------------------------------------------------------------------------------------


def run_training(training: Training, place: Place) -> list[Result]:
    """Time the steps; two rows, as the usual loop and under `fb.jit`."""
    pool = place.device.backend.pool
    steps = training.ours()
    usual, jitted = steps[OURS], steps[JITTED]
    losses = {OURS: [_number(usual()) for _ in range(_LOSSES)]}
    jitted(), jitted()  # the second one may be another program
    place.wait()
    pool.reset_peak()
    jitted()
    extra: dict[str, Number] = {"memory": f"{pool.statistics().peak / 2**20:.0f} MiB"}
    with fb.profile(place.device) as found:
        jitted()
    extra |= {"launches": found.launches, "kernels us": round(found.seconds * 1e6)}
    contenders = {name: Contender(_flushed(step), place.wait) for name, step in steps.items()}
    if place.torch is not None:
        contenders |= _peer_contenders(training, place, extra, losses)
    times = compare(contenders, place)
    _compare_losses(losses, _NEAR[training.dtype], extra)
    rows = []
    for case, ours in (("usual loop", OURS), ("`fb.jit`", JITTED)):
        peers = {name: seconds for name, seconds in times.seconds.items() if not name.startswith(OURS)}
        seconds = {OURS: times.seconds[ours], **peers}
        row = {"host us": round(times.host[ours] * 1e6), **(extra if ours == JITTED else {})}
        rows.append(Result(f"{training.name}, {case}", 1, seconds, {OURS: times.least[ours]}, extra=row))
    return rows


def _flushed(step: Step) -> Step:
    """The step, its program started: what is recorded runs when a value is asked for, or now."""

    def call() -> Any:
        loss = step()
        fb.flush()
        return loss

    return call


def _number(loss: Any) -> float:
    return float(loss.item())


def _peer_contenders(
    training: Training, place: Place, extra: dict[str, Number], losses: dict[str, list[float]]
) -> dict[str, Contender]:
    found = {}
    for name, step in training.peers().items():
        say(f"    {name}")
        try:
            losses[name] = [_number(step()) for _ in range(_LOSSES)]
        except Exception as error:  # whatever torch.compile says; the others go on
            extra[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
            continue
        found[name] = Contender(step, place.wait_peer)
    if place.peer == "cuda":
        place.torch.cuda.reset_peak_memory_stats()
        found["torch"].call()
        extra["torch memory"] = f"{place.torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"
    return found


def _compare_losses(losses: dict[str, list[float]], near: float, extra: dict[str, Number]) -> None:
    """The largest relative difference of the losses of the first steps, which begin with the same weights."""
    ours = losses.pop(OURS)
    for name, found in losses.items():
        apart = max(abs(a / b - 1) for a, b in zip(found, ours, strict=True))
        extra[f"loss, {name}"] = f"{apart:.0e}" + (" WRONG" if not apart < near else "")


def profile(training: Training, place: Place) -> str:
    """The kernels of a jitted step: times on the device, and what they move and count.

    Bytes are those of a group's operands and results, once each, and of all its launches; a kernel may read more.
    """
    jitted = training.ours()[JITTED]
    with compilations() as made:  # what comes from a cache is not compiled, so caches have to be empty
        for _ in range(3):
            jitted()
    with fb.profile(place.device) as found:
        jitted()
    groups = {group.label: group for group in made[-1].groups} if made else {}
    uses = Counter(group.label for group in made[-1].groups) if made else {}
    total = sum(group.nbytes for group in made[-1].groups) if made else 0
    head, *lines = str(found).splitlines()
    rows = [
        f"{_rate(kernel, groups.get(kernel.name), uses)} {line}"
        for kernel, line in zip(found.slowest(), lines[:_SHOWN], strict=False)
    ]
    title = f"{training.name}: a step under fb.jit, {total / 1e9:.2f} GB in {sum(uses.values())} groups"
    more = [f"({len(lines) - _SHOWN} more)"] if len(lines) > _SHOWN else []
    return "\n".join([title, f"{'':28} {head}", *rows, *more])


def _rate(kernel: KernelTime, group: GroupInfo | None, uses: Mapping[str, int]) -> str:
    """What a kernel reaches, and how many values its group writes; nothing for the further kernels of a group."""
    if group is None or not kernel.seconds:
        return " " * 28
    times = uses[group.label] / kernel.seconds
    rate = f"{group.flops * times * 1e-12:6.1f} TF" if group.flops else ""
    return f"{group.nbytes * times * 1e-9:8.0f} GB/s {rate:9} {group.results:2d}w"[:28].ljust(28)


# ---- fresh processes ---------------------------------------------------------------------------------------------


def compiling(place: Place) -> list[Result]:
    """Seconds from the first step's start to its end in a fresh process: with empty caches, and with full ones."""
    results = []
    names = [OURS, *(["torch", "torch.compile"] if place.torch is not None and place.compiles else [])]
    for task in ("CNN", "GPT"):
        with tempfile.TemporaryDirectory() as caches:
            for case in ("empty caches", "second process"):
                seconds = {}
                for name in names:
                    say(f"    {task}, {case}, {name}")
                    first = _first_step(task, name, place, caches)
                    if first is not None:
                        seconds[name] = first
                results.append(Result(f"first step of the {task}, {case}", 1, seconds))
    return results


def _first_step(task: str, name: str, place: Place, caches: str) -> float | None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    environment |= {"FIREBOX_CACHE_DIR": f"{caches}/firebox", "CUDA_CACHE_PATH": f"{caches}/cuda"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton"}
    given = json.dumps([task, name, place.device.name, place.peer, place.quick])
    command = [sys.executable, "-m", "benchmarks.opencl_training", given]
    try:
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, timeout=240)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        say(f"{error}: {(error.stderr or b'').decode()[-500:]}")
        return None
    return float(done.stdout.split()[-1])


def first_step(task: str, name: str, device: str, peer: str, quick: bool) -> float:
    """Seconds of the first step of one contender, its loss read; making the model is not counted."""
    place = Place(fb.Device(device if name == OURS else "cpu"), peer=peer, quick=quick)
    training = _of_images("CNN", 8 if quick else 64, place) if task == "CNN" else _of_letters("float32", place)
    steps = training.ours()
    step = steps[OURS] if name == OURS else training.peers()[name]
    if name == OURS:
        fb.flush()
        place.wait()
    start = time.perf_counter()
    _number(step())
    return time.perf_counter() - start


if __name__ == "__main__":
    print(first_step(*json.loads(sys.argv[1])))
