"""Training steps on scikit-learn's digits, the same in three libraries: same data, same initial weights, same AdamW.

Each ``*_steps`` function gives callables that do one step on the next batch and return its loss as a Python float.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Step = Callable[[], float]

LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.999), 1e-8, 0.01
BATCHES = 8


@dataclass(frozen=True)
class Task:
    """A network to train.

    Attributes:
        name: ``MLP`` (64-128-64-10) or ``CNN`` (that of examples/digits.py).
        batch: rows of a batch.
        batches: images and labels, made before timing and used in turn.
        weights: initial parameters by path; those of the layers of a sequence, ``0.weight`` (out, in) and so on.
    """

    name: str
    batch: int
    batches: list[tuple[Array, Array]]
    weights: Mapping[str, Array]

    @property
    def is_conv(self) -> bool:
        return self.name == "CNN"


def make_task(name: str, batch: int) -> Task:
    """A task with PyTorch's usual initialisation, by NumPy's generator."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return task_of(name, batch, (digits.images / 16).astype(np.float32), digits.target.astype(np.int64))


def random_task(name: str, batch: int) -> Task:
    """A task with images and digits that mean nothing, for where scikit-learn is not installed."""
    rng = np.random.default_rng(1)
    return task_of(name, batch, rng.random((BATCHES * batch, 8, 8), np.float32), rng.integers(0, 10, BATCHES * batch))


def task_of(name: str, batch: int, images: Array, digits: Array) -> Task:
    """A task with images (count, 8, 8) and their digits as i64."""
    images = images.reshape((-1, 1, 8, 8) if name == "CNN" else (-1, 64))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    rows = [order[k * batch : (k + 1) * batch] % len(images) for k in range(min(BATCHES, len(images) // batch))]
    shapes: dict[str, tuple[int, ...]] = {"0": (128, 64), "2": (64, 128), "4": (10, 64)}
    if name == "CNN":
        shapes = {"0": (16, 1, 3, 3), "2": (32, 16, 3, 3), "6": (64, 512), "8": (10, 64)}
    weights: dict[str, Array] = {}
    for layer, shape in shapes.items():
        bound = float(np.prod(shape[1:])) ** -0.5
        weights[f"{layer}.weight"] = rng.uniform(-bound, bound, shape).astype(np.float32)
        weights[f"{layer}.bias"] = rng.uniform(-bound, bound, shape[:1]).astype(np.float32)
    return Task(name, batch, [(images[r], digits[r]) for r in rows], weights)


def _cycle(batches: list[Any]) -> Iterator[Any]:
    return itertools.cycle(batches)


# ---- Firebox -----------------------------------------------------------------------------------------------------


def _item(loss: Any) -> float:
    return float(loss.item())


def firebox_steps(task: Task, device: Any = None, read: Callable[[Any], Any] = _item) -> dict[str, Step]:
    """``firebox``: the usual loop, recorded anew each time; ``firebox jit``: the step as a compiled function.

    Args:
        device: where to compute; None is the default device.
        read: what a step makes of its loss.
    """
    import firebox as fb
    from firebox import nn, optim

    def make() -> Callable[[Any, Any], Any]:
        net = _convolutional(nn) if task.is_conv else _perceptron(nn)
        net.load_state_dict(task.weights)
        net.to(device=device)
        optimizer = optim.AdamW(net, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)

        def update(x: Any, y: Any) -> Any:
            loss = fb.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return update

    batches = [(fb.tensor(x, device=device), fb.tensor(y, device=device)) for x, y in task.batches]
    return {"firebox": _step(make(), batches, read), "firebox jit": _step(fb.jit(make()), batches, read)}


def _step(update: Callable[[Any, Any], Any], batches: list[Any], read: Callable[[Any], Any] = _item) -> Step:
    turn = _cycle(batches)
    return lambda: read(update(*next(turn)))


def _perceptron(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def _convolutional(nn: Any) -> Any:
    head = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*head, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


# ---- PyTorch -----------------------------------------------------------------------------------------------------


def torch_steps(task: Task, threads: int, device: str = "cpu", read: Callable[[Any], Any] = _item) -> dict[str, Step]:
    """PyTorch three times.

    ``torch``: eager, with the fused AdamW (the fastest of its own). ``torch.compile``: model and loss compiled,
    gradients with them, fused AdamW. ``torch.compile step``: the whole step as one compiled function of parameters and
    state, with AdamW written out.
    """
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)
    batches = [(torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)) for x, y in task.batches]

    def make() -> Any:
        net = _convolutional(torch.nn) if task.is_conv else _perceptron(torch.nn)
        net.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in task.weights.items()})
        return net.to(device)

    def loop(is_compiled: bool) -> Step:
        net = make()
        optimizer = torch.optim.AdamW(net.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)

        def loss_of(x: Any, y: Any) -> Any:
            return functional.cross_entropy(net(x), y)

        loss_function = torch.compile(loss_of) if is_compiled else loss_of

        def update(x: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(x, y)
            loss.backward()
            optimizer.step()
            return loss

        return _step(update, batches, read)

    return {
        "torch": loop(False),
        "torch.compile": loop(True),
        "torch.compile step": _step(_torch_whole(torch, make()), batches, read),
    }


def _torch_whole(torch: Any, net: Any) -> Callable[[Any, Any], Any]:
    values = {name: p.detach().clone() for name, p in net.named_parameters()}
    mean, square = ({name: torch.zeros_like(p) for name, p in values.items()} for _ in range(2))
    count = torch.zeros((), device=next(iter(values.values())).device)

    def loss_of(values: Any, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(torch.func.functional_call(net, values, (x,)), y)

    def whole(values: Any, mean: Any, square: Any, count: Any, x: Any, y: Any) -> Any:
        grads, loss = torch.func.grad_and_value(loss_of)(values, x, y)
        count.add_(1.0)
        for name, value in values.items():
            grad = grads[name]
            mean[name].mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
            square[name].mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
            root = (square[name] / (1 - BETAS[1] ** count)).sqrt() + EPS
            value.mul_(1 - LR * DECAY).sub_(LR * (mean[name] / (1 - BETAS[0] ** count)) / root)
        return loss

    compiled = torch.compile(whole)

    def update(x: Any, y: Any) -> Any:
        with torch.no_grad():
            return compiled(values, mean, square, count, x, y)

    return update


# ---- JAX ---------------------------------------------------------------------------------------------------------


def jax_steps(task: Task) -> dict[str, Step]:
    """``jax``: the whole step jitted, AdamW written out, parameters and state donated."""
    import jax
    from jax import numpy as jnp

    batches = [(jnp.asarray(x), jnp.asarray(y.astype(np.int32))) for x, y in task.batches]
    network = _jax_convolutional if task.is_conv else _jax_perceptron

    def loss_of(values: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.log_softmax(network(jax, values, x))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def whole(state: Any, x: Any, y: Any) -> Any:
        values, mean, square, count = state
        loss, grads = jax.value_and_grad(loss_of)(values, x, y)
        count = count + 1.0
        mean = {k: BETAS[0] * mean[k] + (1 - BETAS[0]) * g for k, g in grads.items()}
        square = {k: BETAS[1] * square[k] + (1 - BETAS[1]) * g * g for k, g in grads.items()}

        def updated(k: str) -> Any:
            root = jnp.sqrt(square[k] / (1 - BETAS[1] ** count)) + EPS
            return values[k] * (1 - LR * DECAY) - LR * (mean[k] / (1 - BETAS[0] ** count)) / root

        return ({k: updated(k) for k in values}, mean, square, count), loss

    compiled = jax.jit(whole, donate_argnums=0)
    values = {name: jnp.asarray(w) for name, w in task.weights.items()}
    state = [(values, *({k: jnp.zeros_like(v) for k, v in values.items()} for _ in range(2)), jnp.zeros(()))]

    def update(x: Any, y: Any) -> Any:
        state[0], loss = compiled(state[0], x, y)
        return loss

    return {"jax": _step(update, batches)}


def _jax_perceptron(jax: Any, values: Any, x: Any) -> Any:
    for layer in ("0", "2"):
        x = jax.nn.relu(x @ values[f"{layer}.weight"].T + values[f"{layer}.bias"])
    return x @ values["4.weight"].T + values["4.bias"]


def _jax_convolutional(jax: Any, values: Any, x: Any) -> Any:
    for layer in ("0", "2"):
        x = jax.lax.conv_general_dilated(x, values[f"{layer}.weight"], (1, 1), "SAME")
        x = jax.nn.relu(x + values[f"{layer}.bias"][:, None, None])
    x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ values["6.weight"].T + values["6.bias"])
    return x @ values["8.weight"].T + values["8.bias"]
