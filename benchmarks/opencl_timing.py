"""Timing on a device that works while the host goes on: many calls, one wait, in turn with the peers on the same GPU.

A contender is a call that starts work, and a wait for it. Time per call is that of a sample, from its first call to the
end of the wait; host time is that until the last call returns. Both are medians over rounds in random order.
"""

import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import firebox as fb

Array = npt.NDArray[Any]
Call = Callable[[], object]
CALLS = 64
"""Calls in a row at most, so that the host is not stopped by a full queue."""


@dataclass(frozen=True)
class Place:
    """Where to measure, and how long.

    Attributes:
        device: ours.
        torch: the module, None where PyTorch is not installed or has no device.
        peer: PyTorch's device; ``cpu`` only to see that the peers' code works.
        compiles: whether torch.compile takes part.
        quick: small sizes and few samples: does it work at all?
    """

    device: fb.Device
    torch: Any = None
    peer: str = "cuda"
    compiles: bool = True
    quick: bool = False

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 7

    @property
    def budget(self) -> float:
        """Seconds of a sample."""
        return 0.001 if self.quick else 0.03

    def wait(self) -> None:
        """Until ours is idle."""
        self.device.synchronize()

    def wait_peer(self) -> None:
        """Until PyTorch's device is idle."""
        if self.peer == "cuda":
            self.torch.cuda.synchronize()


def find_place(device: str, peer: str, compiles: bool, quick: bool) -> Place:
    """The place of a run; PyTorch computes in full f32, as ours does."""
    torch = None
    if peer and importlib.util.find_spec("torch"):
        import torch  # type: ignore[import-not-found,no-redef,unused-ignore]  # a peer, where it is installed

        if peer == "cuda" and not torch.cuda.is_available():  # type: ignore[attr-defined,unused-ignore]
            torch = None
        else:
            torch.backends.cuda.matmul.allow_tf32 = False  # type: ignore[attr-defined,unused-ignore]
            torch.backends.cudnn.allow_tf32 = False  # type: ignore[attr-defined,unused-ignore]
            torch.backends.cudnn.benchmark = True  # type: ignore[attr-defined,unused-ignore]
    return Place(fb.Device(device), torch, peer, compiles, quick)


@dataclass(frozen=True)
class Contender:
    """One library: ``call`` starts work and returns, ``wait`` returns when it is done."""

    call: Call
    wait: Call


@dataclass
class Times:
    """Median seconds per call by contender: all, and until the calls had returned; the fastest sample."""

    seconds: dict[str, float] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)


def compare(contenders: Mapping[str, Contender], place: Place, calls: int = CALLS) -> Times:
    """Time contenders in turn, in another random order each round; ``calls`` are made in a row at most."""
    repeats = {name: min(calls, _repeats(contender, place.budget)) for name, contender in contenders.items()}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    shuffle = random.Random(0)
    for _ in range(place.rounds):
        order = list(contenders)
        shuffle.shuffle(order)
        for name in order:
            samples[name].append(_sample(contenders[name], repeats[name]))
    times = Times()
    for name, found in samples.items():
        times.seconds[name] = statistics.median(total for total, _ in found)
        times.host[name] = statistics.median(host for _, host in found)
        times.least[name] = min(total for total, _ in found)
    return times


def _repeats(contender: Contender, budget: float) -> int:
    for _ in range(3):  # what is compiled is compiled here
        contender.call()
    contender.wait()
    once = min(_sample(contender, 1)[0] for _ in range(2))
    return max(1, int(budget / max(once, 1e-7)))


def _sample(contender: Contender, repeats: int) -> tuple[float, float]:
    call = contender.call
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    host = time.perf_counter() - start
    contender.wait()
    return (time.perf_counter() - start) / repeats, host / repeats


# ---- values ------------------------------------------------------------------------------------------------------


class Values:
    """Arrays of given shapes, cut from one array of random numbers: making 64 million takes a second."""

    def __init__(self, size: int) -> None:
        self._normal = np.random.default_rng(0).standard_normal(size, np.float32)

    def normal(self, shape: tuple[int, ...], seed: int) -> Array:
        """Normal f32 numbers."""
        size = int(np.prod(shape))
        start = 7919 * seed % max(1, len(self._normal) // 2)
        return np.resize(self._normal[start : start + size], size).reshape(shape)


def integers(shape: tuple[int, ...], limit: int, seed: int) -> Array:
    """i32 numbers in [0, limit)."""
    return np.random.default_rng(seed).integers(0, limit, shape, np.int32)


def apart(found: Array, expected: Array) -> float:
    """|found - expected| / |expected|, of a million elements at most, as norms."""
    step = max(1, found.size >> 20)
    a, b = (x.reshape(-1)[::step].astype(np.float64) for x in (found, expected))
    norm = float(np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / norm if norm else float(np.abs(a).max(initial=0.0))


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)
