"""The code that docs/devices.md shows; without an OpenCL device the second device is `interpret`."""

from pathlib import Path

import numpy as np
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import DeviceError
from firebox.runtime import opencl


@pytest.fixture
def gpu() -> fb.Device:
    fb.flush()
    fb.set_default_device("cpu")
    return fb.Device("opencl:0" if opencl.count() else "interpret")


def test_moving(gpu: fb.Device) -> None:
    x = fb.tensor([1.0, 2.0], device=gpu)
    y = (x * 2).to("cpu")
    assert y.device is fb.Device("cpu")
    assert y.tolist() == [2.0, 4.0]

    with fb.device(gpu):  # new tensors of this thread
        assert fb.zeros(3).device is gpu
    fb.set_default_device(gpu)  # new tensors from here on; None goes back to FIREBOX_DEVICE, else the CPU
    assert fb.randn(3).device is gpu
    fb.set_default_device(None)


def test_mixing(gpu: fb.Device) -> None:
    x, y = fb.tensor([1.0, 2.0]), fb.tensor([3.0, 4.0], device=gpu)
    with pytest.raises(DeviceError, match="add: operands live on different devices"):
        x + y
    assert (x + y.to(x.device)).tolist() == [4.0, 6.0]
    assert (y * 2 + 1).device is gpu  # numbers adapt


def test_training(gpu: fb.Device) -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(gpu)  # the one word
    optimizer = optim.Adam(model, lr=0.05)  # after the move: its state lies where the parameters are
    x, y = fb.randn(16, 2, device=gpu), fb.zeros(16, 1, device=gpu)
    losses = []
    for _ in range(5):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_derivatives(gpu: fb.Device) -> None:
    w = fb.tensor([1.0, 2.0], requires_grad=True)
    v = fb.tensor([3.0, 4.0], device=gpu, requires_grad=True)
    loss = ((w * 2).to(gpu) * v).sum().to("cpu")
    loss.backward()
    assert w.grad is not None and v.grad is not None
    assert w.grad.device is fb.Device("cpu") and w.grad.tolist() == [6.0, 8.0]
    assert v.grad.device is gpu and v.grad.tolist() == [2.0, 4.0]


def test_an_artifact_for_several_devices(gpu: fb.Device, tmp_path: Path) -> None:
    if not opencl.count():
        pytest.skip("no OpenCL device")
    path = tmp_path / "layer.fbox"
    fb.compile(nn.Linear(4, 2), "x: f32[b, 4]", target="host,opencl", path=path)
    x = np.ones((3, 4), np.float32)
    here = fb.runtime.load(path)(x)
    there = fb.runtime.load(path, device="opencl:0")(x)
    np.testing.assert_allclose(there, here, rtol=1e-5)


def test_profile(gpu: fb.Device) -> None:
    if gpu.target.kind != "opencl":
        pytest.skip("no OpenCL device")
    x, w = fb.ones(16, 8, device=gpu), fb.ones(8, 4, device=gpu)
    with fb.profile(gpu) as found:
        y = fb.softmax(x @ w, -1)
    assert y.sum().item() == 16
    print(found)  # a line for each kernel, slowest first: time, launches, name, ops
    ops = [op for kernel in found.slowest() if kernel.info for op in kernel.info.ops]
    assert "nd.contract" in ops and "nd.exp" in ops
