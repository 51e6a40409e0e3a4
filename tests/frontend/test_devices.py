"""Tensors on several devices: transfers, their derivatives, what may be mixed, and where data lies."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import dtypes, nn
from firebox.errors import DeviceError
from firebox.frontend.devices import is_host
from firebox.frontend.transfers import WAITING
from tests.frontend.two_devices import HERE, XS

# ---- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "i64", "u16", "bool"])
def test_values_come_back_as_they_went(there: fb.Device, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtypes.as_dtype(dtype).numpy)
    x = fb.tensor(array)
    y = x.to(there)
    assert y.device is there
    assert y.dtype is x.dtype
    np.testing.assert_array_equal(np.asarray(y), array)
    np.testing.assert_array_equal(y.cpu().numpy(), array)
    assert y.to(there) is y
    assert y.to("cpu").device is HERE


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_odd_shapes_move(there: fb.Device, shape: tuple[int, ...]) -> None:
    x = fb.tensor(np.ones(shape, np.float32)).to(there)
    assert (x + 1).numpy().tolist() == np.full(shape, 2.0).tolist()


def test_pending_values_move_when_they_are_needed(there: fb.Device) -> None:
    x = fb.tensor([1.0, 2.0]) * 2
    fb.reset_stats()
    y = x.to(there) + 1
    z = y.to("cpu") * x
    assert fb.stats()["programs_run"] == 0
    assert z.tolist() == [6, 20]
    assert y.tolist() == [3, 5]
    assert fb.stats()["programs_run"] == 3
    assert not WAITING


def test_a_transfer_ends_no_program_that_does_not_need_it(there: fb.Device) -> None:
    x = fb.tensor([1.0]) + 1
    moved = x.to(there)
    other = fb.tensor([5.0]) * 2
    assert other.item() == 10
    assert moved.item() == 2


def test_what_failed_is_reported_where_the_copy_is_read(there: fb.Device) -> None:
    bad = fb.tensor([1.0, 2.0]).take(fb.tensor([7])).to(there) * 2
    good = fb.tensor([3.0], device=there) + 1
    assert good.item() == 4
    with pytest.raises(fb.IndexRangeError, match="index out of range"):
        bad.numpy()


def test_numbers_adapt_to_any_device(there: fb.Device) -> None:
    x = fb.tensor([1.0, 2.0], device=there)
    assert (2 * x + 1.5).device is there
    assert fb.maximum(x, 1.5).tolist() == [1.5, 2]
    assert (x + np.array([1.0, 1.0], np.float32)).tolist() == [2, 3]
    assert x.literal(2.0).to("cpu").device is HERE
    for number in (3, 4, 5):  # a number that is an input of the program
        assert (x * number).tolist() == [number, 2 * number]


def test_reading_copies_to_the_host(there: fb.Device) -> None:
    x = fb.tensor([[1.0, 2.0]], device=there)
    assert x[0, 1].item() == 2
    assert float(x.sum()) == 3
    assert np.asarray(x).tobytes() == np.array([[1, 2]], np.float32).tobytes()
    assert repr(x) == f"tensor([[1., 2.]], f32, device={there.name})"
    assert repr(x.cpu()) == "tensor([[1., 2.]], f32)"


def test_dlpack_names_the_device(there: fb.Device) -> None:
    x = fb.tensor([1.0, 2.0], device=there)
    if is_host(there):
        assert x.__dlpack_device__() == (1, 0)
        np.testing.assert_array_equal(np.from_dlpack(x), [1, 2])
        return
    assert x.__dlpack_device__() == (4, 0)
    with pytest.raises(BufferError, match=r"the memory of opencl:0 is not exchanged; use x\.cpu"):
        x.__dlpack__()
    assert x.__dlpack__(dl_device=(1, 0)) is not None
    np.testing.assert_array_equal(np.from_dlpack(x.cpu()), [1, 2])


# ---- where new tensors live --------------------------------------------------------------------------------------


def test_everything_can_be_made_on_a_device(there: fb.Device) -> None:
    made: list[Callable[[Any], fb.Tensor]] = [
        lambda d: fb.zeros(2, device=d),
        lambda d: fb.full((2,), 3, device=d),
        lambda d: fb.arange(5, device=d),
        lambda d: fb.linspace(0, 1, 3, device=d),
        lambda d: fb.eye(2, device=d),
        lambda d: fb.tensor([1, 2], device=d),
        lambda d: fb.from_numpy(XS, device=d),
        lambda d: fb.rand(3, device=d),
        lambda d: fb.randn(3, device=d),
        lambda d: fb.random.randint(0, 9, (3,), device=d),
        lambda d: fb.random.permutation(4, device=d),
    ]
    for make in made:
        fb.manual_seed(3)
        here = make(HERE)
        fb.manual_seed(3)
        x = make(there)
        assert x.device is there
        np.testing.assert_allclose(x.numpy(), here.numpy(), rtol=1e-6)
        with fb.device(there):
            assert make(None).device is there
    assert fb.zeros_like(x).device is there


def test_the_same_seed_gives_the_same_bits(there: fb.Device) -> None:
    fb.manual_seed(5)
    here = [fb.random.bits((7,)).tolist(), fb.random.bits((3,)).tolist()]
    fb.manual_seed(5)
    assert [fb.random.bits((7,), there).tolist(), fb.random.bits((3,), there).tolist()] == here


def test_the_default_device(there: fb.Device) -> None:
    fb.set_default_device(there)
    assert fb.zeros(1).device is there
    with fb.device("cpu") as inner:
        assert inner is HERE
        assert fb.current_device() is HERE
        with fb.device(there):
            assert fb.tensor(1.0).device is there
        assert fb.tensor(1.0).device is HERE
    assert fb.current_device() is there


def test_a_device_block_is_that_of_its_thread(there: fb.Device) -> None:
    found = []
    with fb.device(there):
        thread = threading.Thread(target=lambda: found.append(fb.current_device()))
        thread.start()
        thread.join()
    assert found == [HERE]


def test_devices_are_listed() -> None:
    assert fb.devices()[0] is HERE
    for device in fb.devices()[1:]:
        assert device.name in repr(device)
        assert "compute units" in repr(device)


# ---- mixing ------------------------------------------------------------------------------------------------------


def says(error: BaseException, text: str) -> None:
    """The whole message, but for the line of this file."""
    lines = [line for line in str(error).split("\n") if not line.startswith("  at: ")]
    assert "\n".join(lines) == text
    assert "test_devices.py:" in str(error)


def test_tensors_of_two_devices_are_refused_with_both_names(there: fb.Device) -> None:
    x, y = fb.tensor([1.0, 2.0]), fb.tensor([[1.0], [2.0]], device=there)
    with pytest.raises(DeviceError) as caught:
        x + y
    says(
        caught.value,
        "add: operands live on different devices\n"
        "  expected: one device\n"
        f"  found:    f32[2] on cpu, f32[2, 1] on {there.name}\n"
        f'  hint:     move one of them: x.to("cpu") or x.to("{there.name}")',
    )


def test_a_parameter_elsewhere_is_refused(there: fb.Device) -> None:
    layer = nn.Linear(2, 3)
    with pytest.raises(DeviceError, match=f"f32\\[1, 2\\] on {there.name}, f32\\[.*\\] on cpu"):
        layer(fb.ones(1, 2, device=there))
    with pytest.raises(DeviceError, match="on cpu"):
        fb.jit(layer)(fb.ones(1, 2, device=there))


def test_a_compiled_function_runs_on_one_device(there: fb.Device) -> None:
    x, y = fb.tensor([1.0]), fb.tensor([2.0], device=there)
    with pytest.raises(DeviceError) as caught:
        fb.jit(lambda a: a.to(there))(x)
    says(
        caught.value,
        "to: a compiled function is one program, which runs on one device\n"
        "  expected: values on cpu only\n"
        f"  found:    a transfer to {there.name}\n"
        "  hint:     move the arguments before the call, or leave this part out of the compiled function",
    )
    with pytest.raises(DeviceError, match=f"jit: .*\n.*\n.*f32\\[1\\] on cpu, f32\\[1\\] on {there.name}"):
        fb.jit(lambda a, b: a)(x, y)
    with pytest.raises(DeviceError, match="a compiled function: operands live on different devices"):
        fb.jit(lambda a: (a, y))(x)
    with pytest.raises(DeviceError, match="a compiled function is one program"):
        fb.compile(lambda a: a.to(there), "a: f32[2]")
    with pytest.raises(DeviceError, match="checkpoint: the function is one program"):
        fb.checkpoint(lambda a: a.to(there))(x)


def test_jit_runs_where_its_arguments_are(there: fb.Device) -> None:
    double = fb.jit(lambda a, k: a * 2 + k)
    for device in (HERE, there, HERE):
        for k in (1, 2, 3):
            result = double(fb.tensor([1.0], device=device), k)
            assert result.device is device
            assert result.item() == 2 + k
