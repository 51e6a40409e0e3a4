"""Tensors on several devices: transfers, their derivatives, what may be mixed, and where data lies."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import dtypes, nn, optim
from firebox.errors import DeviceError, UserError
from firebox.frontend import execute
from firebox.frontend.devices import is_host
from firebox.frontend.transfers import WAITING

HERE = fb.Device("cpu")
XS = np.array([0.1, 0.2, 0.3], np.float32)
WS = np.array([0.5, -0.4, 0.7], np.float32)
VS = np.array([1.0, 2.0, 0.3], np.float32)


@pytest.fixture(params=["interpret", "opencl:0"])
def there(request: pytest.FixtureRequest) -> Iterator[fb.Device]:
    """A second device; the first one is the default."""
    try:
        device = fb.Device(request.param)
    except DeviceError as error:
        pytest.skip(str(error))
    fb.set_default_device(HERE)
    fb.flush()
    yield device
    fb.set_default_device(None)


def on_both(x: Any, w: Any, v: Any) -> Any:
    """A loss whose values go to the device of ``v`` and back; ``h`` is used on both sides."""
    h = (x * w).tanh()
    y = h.to(v.device) * v
    z = y.exp().to(x.device) + h
    return (z * w).sum()


def tensors(there: fb.Device, requires_grad: bool = False) -> list[fb.Tensor]:
    places = (HERE, HERE, there)
    return [fb.tensor(a, device=d, requires_grad=requires_grad) for a, d in zip((XS, WS, VS), places, strict=True)]


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


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


# ---- derivatives -------------------------------------------------------------------------------------------------


def reference() -> tuple[fb.Tensor, list[fb.Tensor]]:
    places = tensors(HERE, requires_grad=True)
    loss = on_both(*places)
    loss.backward()
    return loss, [t.grad for t in places if t.grad is not None]


def test_gradients_flow_back_to_where_the_leaves_are(there: fb.Device) -> None:
    expected, wanted = reference()
    leaves = tensors(there, requires_grad=True)
    loss = on_both(*leaves)
    loss.backward()
    grads = [t.grad for t in leaves if t.grad is not None]
    assert [g.device for g in grads] == [HERE, HERE, there]
    for found, right in zip(grads, wanted, strict=True):
        close(found, right)
    close(loss, expected)
    with pytest.raises(fb.TraceError, match="an earlier backward has used up what was recorded"):
        loss.backward()


def test_gradients_of_values_that_were_read_before(there: fb.Device) -> None:
    _, wanted = reference()
    leaves = tensors(there, requires_grad=True)
    h = (leaves[0] * leaves[1]).tanh()
    assert h.to(there).numpy().shape == (3,)
    loss = ((h.to(there) * leaves[2]).exp().to("cpu") + h) * leaves[1]
    assert loss.numpy().shape == (3,)
    total = loss.sum()
    total.backward(retain_graph=True)
    total.backward()
    for leaf, right in zip(leaves, wanted, strict=True):
        assert leaf.grad is not None
        close(leaf.grad, right * 2)


def test_gradients_add_up(there: fb.Device) -> None:
    _, wanted = reference()
    leaves = tensors(there, requires_grad=True)
    for _ in range(2):
        on_both(*leaves).backward()
    for leaf, right in zip(leaves, wanted, strict=True):
        assert leaf.grad is not None
        close(leaf.grad, right * 2)


def test_transforms_cross_devices(there: fb.Device) -> None:
    expected, wanted = reference()
    given, alone = tensors(there), tensors(HERE)
    value, grads = fb.value_and_grad(on_both, (0, 1, 2))(*given)
    close(value, expected)
    for found, right, place in zip(grads, wanted, given, strict=True):
        close(found, right)
        assert found.device is place.device
        assert not found.requires_grad
    primal, pullback = fb.vjp(on_both, *given)
    close(primal, expected)
    for found, right in zip(pullback(fb.tensor(2.0)), wanted, strict=True):
        close(found, right * 2)
    moves = [fb.ones(3), fb.full((3,), 0.5), fb.full((3,), 2.0)]
    value, moved = fb.jvp(on_both, given, [moves[0], moves[1], moves[2].to(there)])
    right_value, right_moved = fb.jvp(on_both, alone, moves)
    close(value, right_value)
    close(moved, right_moved)


def test_second_derivatives_cross_devices(there: fb.Device) -> None:
    (x, w, v), alone = tensors(there), tensors(HERE)
    found = fb.hessian(lambda a: on_both(a, w, v))(x)
    close(found, fb.hessian(lambda a: on_both(a, alone[1], alone[2]))(x))
    results = []
    for last in (v, alone[2]):
        leaf = fb.tensor(XS, requires_grad=True)
        slope = fb.grad(on_both)(leaf, w, last)
        assert slope.requires_grad
        (slope * slope).sum().backward()
        assert leaf.grad is not None
        results.append(leaf.grad)
    close(results[0], results[1])


@pytest.mark.parametrize(("in_axis", "out_axis"), [(0, 0), (1, 0), (0, 1)])
def test_batches_cross_devices(there: fb.Device, in_axis: int, out_axis: int) -> None:
    def function(row: Any, scale: Any) -> Any:
        return (row.exp().to(scale.device) * scale).to(row.device) + row

    rows = fb.tensor(np.arange(12, dtype=np.float32).reshape(4, 3) / 10)
    batch = rows if in_axis == 0 else rows.swapaxes(0, 1)
    found = fb.vmap(function, (in_axis, None), out_axis)(batch, fb.tensor(VS, device=there))
    wanted = np.exp(rows.numpy()) * VS + rows.numpy()
    np.testing.assert_allclose(found.numpy(), wanted if out_axis == 0 else wanted.T, rtol=1e-5)


def test_no_derivative_flows_where_none_is_recorded(there: fb.Device) -> None:
    x = fb.tensor(XS, requires_grad=True)
    with fb.no_grad():
        y = x.to(there)
    assert not y.requires_grad
    z = (x.detach().to(there) + y).to("cpu") * x
    z.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 2 * XS, rtol=1e-6)
    assert not x.to(there).detach().requires_grad


# ---- modules and optimizers --------------------------------------------------------------------------------------


def trained(model: nn.Module, device: fb.Device, steps: int = 3, max_norm: float | None = None) -> list[float]:
    optimizer = optim.AdamW(model, lr=0.1, max_norm=max_norm)
    x = fb.tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2), device=device)
    losses = []
    for _ in range(steps):
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def network() -> nn.Sequential:
    fb.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))


def test_a_model_trains_elsewhere_as_here(there: fb.Device) -> None:
    model = network().to(there)
    assert {cell.device for _, cell in model.named_cells()} == {there}
    losses = trained(model, there)
    np.testing.assert_allclose(losses, trained(network(), HERE), rtol=1e-4)
    assert losses[-1] < losses[0]
    assert {p.device for p in model.parameters()} == {there}


def test_a_model_over_two_devices_trains(there: fb.Device) -> None:
    class Split(nn.Module):
        def __init__(self) -> None:
            whole = network()
            self.first, self.rest = whole[0], list(whole)[1:]

        def forward(self, x: fb.Tensor) -> fb.Tensor:
            x = self.first(x).to(there)
            for part in self.rest:
                x = part(x)
            return x

    model = Split()
    for part in model.rest:
        part.to(there)
    losses = trained(model, HERE, max_norm=0.5)
    np.testing.assert_allclose(losses, trained(network(), HERE, max_norm=0.5), rtol=1e-4)
    assert {p.device for p in model.parameters()} == {HERE, there}


def test_gradients_move_with_their_parameters(there: fb.Device) -> None:
    layer = nn.Linear(2, 1)
    layer(fb.ones(1, 2)).sum().backward()
    layer.to(there)
    layer(fb.ones(1, 2, device=there)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.device is there
    assert layer.weight.grad.tolist() == [[2, 2]]


def test_a_model_is_moved_before_its_optimizer_is_made(there: fb.Device) -> None:
    layer = nn.Linear(2, 1)
    optim.SGD(layer, lr=0.1)
    with pytest.raises(UserError, match="move the model first, then make the optimizer"):
        layer.to(there)


def test_states_are_saved_from_a_device_and_loaded_to_one(there: fb.Device, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "w.safetensors"
    first, second = network().to(there), network()
    fb.record.save(first, path)
    second.load_state_dict(fb.record.load(path))
    third = network().to(there)
    third.load_state_dict(second.state_dict())
    for a, b in zip(second.parameters(), third.parameters(), strict=True):
        assert (a.device, b.device) == (HERE, there)
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_dropout_is_the_same_on_each_device(there: fb.Device) -> None:
    fb.manual_seed(7)
    here = fb.dropout(fb.ones(32), 0.5).tolist()
    fb.manual_seed(7)
    assert fb.dropout(fb.ones(32, device=there), 0.5).tolist() == here


def test_a_jitted_step_updates_cells_elsewhere(there: fb.Device) -> None:
    cell = fb.Cell(fb.tensor([1.0], device=there))

    @fb.jit
    def step(x: fb.Tensor) -> fb.Tensor:
        cell.value = cell + x
        return cell + fb.rand(1, device=there) * 0

    for _ in range(3):
        step(fb.tensor([2.0], device=there))
    assert cell.item() == 7
    assert cell.device is there


def test_models_are_compiled_from_any_device(there: fb.Device) -> None:
    layer = nn.Linear(2, 1).to(there)
    x = np.ones((1, 2), np.float32)
    wanted = layer(fb.tensor(x, device=there)).numpy()
    np.testing.assert_allclose(fb.compile(layer, "x: f32[1, 2]")(x), wanted, rtol=1e-6)


def test_memory_of_moved_values_is_given_back(there: fb.Device) -> None:
    pool = there.backend.pool
    leaves = tensors(there, requires_grad=True)

    def step() -> int:
        for leaf in leaves:
            leaf.grad = None
        on_both(*leaves).backward()
        execute.flush()
        return pool.statistics().live

    first = [step() for _ in range(4)][-1]
    assert [step() for _ in range(4)][-1] <= first
