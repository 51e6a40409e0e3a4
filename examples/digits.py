"""A small convolutional network that reads handwritten digits (8x8 pixels, the data set that scikit-learn ships).

    python examples/digits.py --out out

trains for some seconds and writes to ``out``: the weights (digits.safetensors), the held-out fifth of the data
(images.npy, labels.npy) and what the network says about it (logits.npy). demo.py goes on from there: it compiles the
model into one file and runs that file in a process of its own.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import firebox as fb
from firebox import nn, optim, record

Array = npt.NDArray[Any]

SEED = 1
HELD_OUT = 0.2
EPOCHS = 12
BATCH_SIZE = 64
LEARNING_RATE = 4e-3


class Data(NamedTuple):
    """Images (count, 1, 8, 8) as f32 in [0, 1], and their digits as i64."""

    images: Array
    labels: Array


def model() -> nn.Module:
    """The network: 10 scores for each image of (batch, 1, 8, 8)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load_data() -> tuple[Data, Data]:
    """1,797 digits in two parts, always the same: to train with, and held out."""
    from sklearn.datasets import load_digits  # here, so that importing this file for its model needs no scikit-learn

    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    train, held_out = fb.train.train_test_split(
        images, digits.target.astype(np.int64), test_fraction=HELD_OUT, seed=SEED
    )
    return Data(*train), Data(*held_out)


def train(net: nn.Module, data: Data, epochs: int = EPOCHS) -> None:
    """Minimise the cross-entropy with AdamW; each step is one compiled program."""
    loader = fb.train.Batches(*data, batch_size=BATCH_SIZE, seed=SEED)
    optimizer = optim.AdamW(net, lr=LEARNING_RATE)
    schedule = optim.CosineSchedule(optimizer, epochs * len(loader), warmup_steps=len(loader) // 2)
    with fb.train.Progress(epochs * len(loader), "training") as bar:
        for epoch in range(epochs):
            for images, labels in loader:
                loss = fb.cross_entropy(net(fb.tensor(images)), fb.tensor(labels))
                loss.backward()
                optimizer.step()
                schedule.step()
                bar.advance(epoch=epoch + 1, loss=loss)


def predict(net: nn.Module, images: Array) -> Array:
    """The scores of the digits for each image."""
    net.eval()
    with fb.no_grad():
        return np.asarray(net(fb.tensor(images)))


def accuracy(logits: Array, labels: Array) -> float:
    """The fraction of images whose highest score is at their digit."""
    return float((logits.argmax(-1) == labels).mean())


def run(out: Path, epochs: int = EPOCHS) -> float:
    """Train, write everything to ``out``, and return the accuracy on the held-out digits."""
    fb.manual_seed(SEED)
    data, held_out = load_data()
    net = model()
    start = time.perf_counter()
    train(net, data, epochs)
    print(f"trained on {len(data.labels)} digits in {time.perf_counter() - start:.1f} s")

    logits = predict(net, held_out.images)
    out.mkdir(parents=True, exist_ok=True)
    record.save(net, out / "digits.safetensors")
    for name, array in (("images", held_out.images), ("labels", held_out.labels), ("logits", logits)):
        np.save(out / f"{name}.npy", array)
    return accuracy(logits, held_out.labels)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory for what is written")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", help="where to compute, e.g. opencl:0 (default: FIREBOX_DEVICE, else the CPU)")
    args = parser.parse_args()
    fb.set_default_device(args.device)
    print(f"accuracy on the held-out digits: {run(args.out, args.epochs):.4f}")


if __name__ == "__main__":
    main()
