"""Derivatives across devices; modules and optimizers that live on several."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import UserError
from firebox.frontend import execute
from tests.frontend.two_devices import HERE, VS, XS, close, on_both, tensors

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
