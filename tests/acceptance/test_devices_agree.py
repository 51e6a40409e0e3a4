"""Models train on every device as on the CPU, give the same bits every time, and take no more memory as they go on."""

import gc
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import DeviceError
from firebox.frontend import execute
from tests.programs import DEVICES, device_named

Array = npt.NDArray[Any]

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = fb.Device("cpu")
STEPS = 20
TOLERANCE = 2e-4
"""Of losses, relative: sums run in another order on each device, and the differences grow from step to step."""

Run = Callable[[], list[float]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a file of the examples."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def imported(name: str) -> Any:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return imported


def trained(model: nn.Module, x: Array, y: Array, batch: int) -> list[float]:
    """The losses of some steps with AdamW, on one batch after the other."""
    optimizer = optim.AdamW(model, lr=4e-3)
    losses = []
    for step in range(STEPS):
        rows = slice(step * batch % len(x), step * batch % len(x) + batch)
        loss = fb.cross_entropy(model(fb.tensor(x[rows])), fb.tensor(y[rows]))
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [float(loss.item()) for loss in losses]


def digits(load: Callable[[str], Any]) -> list[float]:
    pytest.importorskip("sklearn")
    data, _ = load("digits").load_data()
    return trained(load("digits").model(), data.images[:640], data.labels[:640], 64)


def mlp(load: Callable[[str], Any]) -> list[float]:
    points, labels = load("mlp").spirals(30, 3, np.random.default_rng(0))
    return trained(load("mlp").MLP(2, 32, 32, 3), points, labels, 90)


def gpt(load: Callable[[str], Any]) -> list[float]:
    example = load("gpt")
    text = example.load_text()
    model = example.GPT(example.Config(len(text.letters), layers=1, heads=2, width=32, context=16, dropout=0.1))
    losses: list[float] = example.train(model, text, STEPS, batch_size=8, lr=5e-3, seed=0)
    return losses


def run_on(device: fb.Device, train: Callable[[Callable[[str], Any]], list[float]], load: Any) -> list[float]:
    with fb.device(device):
        fb.manual_seed(0)
        return train(load)


@pytest.mark.parametrize("train", [digits, mlp, gpt])
def test_models_train_as_on_the_cpu(train: Any, load: Callable[[str], Any], each_device: fb.Device) -> None:
    found = run_on(each_device, train, load)
    np.testing.assert_allclose(found, run_on(HERE, train, load), rtol=TOLERANCE)
    assert found[-1] < found[0]
    assert run_on(each_device, train, load) == found  # bit by bit


def test_two_devices_take_turns() -> None:
    """Steps on one device and on the other in one process change nothing of either."""
    devices = [device_named(name) for name in DEVICES]
    models, optimizers = [], []
    for device in devices:
        fb.manual_seed(2)
        models.append(nn.Linear(4, 2).to(device))
        optimizers.append(optim.SGD(models[-1], lr=0.1))
    for _ in range(3):
        for device, model, optimizer in zip(devices, models, optimizers, strict=True):
            (model(fb.ones(3, 4, device=device)) ** 2).mean().backward()
            optimizer.step()
    for model in models[1:]:
        np.testing.assert_allclose(model.weight.numpy(), models[0].weight.numpy(), rtol=1e-5)
        with pytest.raises(DeviceError, match=rf"(?s){models[0].weight.device.name}.*{model.weight.device.name}"):
            models[0].weight + model.weight


def test_a_thousand_steps_take_no_more_memory(each_device: fb.Device) -> None:
    gc.collect()  # what other tests left behind counts as live until then
    with fb.device(each_device):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = optim.AdamW(model, lr=1e-3)
        x, y = fb.randn(5, 8), fb.tensor([0, 1, 2, 3, 0])
        pool = each_device.backend.pool
        after = []
        for step in range(1000):
            loss = fb.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 100 == 50:
                execute.flush()
                after.append((pool.statistics().live, pool.statistics().reserved))
    assert len(after) == 10
    assert max(live for live, _ in after) == after[0][0]
    assert max(reserved for _, reserved in after) == after[0][1]


def test_an_artifact_for_both_gives_the_same_on_each(
    load: Callable[[str], Any], each_device: fb.Device, tmp_path: Path
) -> None:
    fb.manual_seed(0)
    model = load("digits").model()
    targets = "host" if each_device is HERE else f"host,{each_device.name}"
    path = tmp_path / "digits.fbox"
    fb.compile(model, "x: f32[b, 1, 8, 8]", target=targets, path=path)
    x = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    here = fb.runtime.load(path)(x)
    np.testing.assert_allclose(fb.runtime.load(path, device=each_device.name)(x), here, rtol=1e-4, atol=1e-5)
    with fb.no_grad():
        np.testing.assert_allclose(model(fb.tensor(x)).numpy(), here, rtol=1e-4, atol=1e-5)
