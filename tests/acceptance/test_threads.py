"""Python threads: each records programs of its own, and gets what it would get alone."""

import threading
from collections.abc import Callable
from functools import partial

import numpy as np

import firebox as fb
from firebox import nn, optim


def in_threads(*tasks: Callable[[], None]) -> None:
    """Run tasks at once; re-raise what one of them raised."""
    failed: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def trained(seed: int) -> bytes:
    """The parameters of a small network after some steps, as bytes."""
    generator = np.random.default_rng(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    for cell in model.parameters():
        cell.value = fb.tensor(generator.normal(size=cell.value.numpy().shape).astype(np.float32))
    optimizer = optim.AdamW(model, lr=1e-2)
    for _ in range(60):
        x = fb.tensor(generator.normal(size=(4, 8)).astype(np.float32))
        loss = fb.cross_entropy(model(x), fb.tensor(generator.integers(0, 3, 4)))
        loss.backward()
        optimizer.step()
        loss.item()
    return b"".join(cell.value.numpy().tobytes() for cell in model.parameters())


def note_trained(seed: int, found: dict[int, bytes]) -> None:
    found[seed] = trained(seed)


def test_two_threads_train_as_each_would_alone() -> None:
    alone = {seed: trained(seed) for seed in (0, 1)}
    for _ in range(4):
        fb.reset_stats()
        together: dict[int, bytes] = {}
        in_threads(*(partial(note_trained, seed, together) for seed in alone))
        assert together == alone
        assert fb.stats()["programs_compiled"] == 0, "what one thread has pending got into a program of the other"


def test_what_one_thread_has_recorded_another_reads() -> None:
    held: list[fb.Tensor] = []
    in_threads(lambda: held.append(fb.ones(3) + 1.0))
    in_threads(lambda: held.append(held[0] * 2.0))
    assert [t.tolist() for t in held] == [[2.0] * 3, [4.0] * 3]


def test_what_another_thread_holds_is_computed_once() -> None:
    fb.flush()
    shared = (fb.arange(4).astype(fb.float32) + 1.0).exp()
    found: list[list[float]] = []
    in_threads(lambda: found.append((shared * 2.0).tolist()))
    fb.reset_stats()
    np.testing.assert_allclose(shared.numpy() * 2.0, found[0], rtol=1e-6)
    assert fb.stats()["programs_run"] == 0
