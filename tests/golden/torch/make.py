"""Records what PyTorch gives: values and gradients in f64 for the cases of `tests/frontend`, one file for each topic.

    python -m venv peers && peers/bin/pip install torch==2.13.0 numpy
    peers/bin/python tests/golden/torch/make.py [TOPIC..]

A case ``name`` has the operands ``name/0``, ``name/1``, .., the result ``name/result``, and, where an operand is
floating, a cotangent ``name/ct`` and the gradients ``name/grad0``, ... Nothing of it is needed to run the tests.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
TOPICS = ("convolution", "pooling", "resampling", "activations", "losses", "normalization", "attention", "layers")

Array = npt.NDArray[Any]
Case = tuple[Callable[..., Any], tuple[Array, ...]]

torch: Any = importlib.import_module("torch")


def record(name: str, function: Callable[..., Any], operands: tuple[Array, ...], seed: int) -> dict[str, Array]:
    """The arrays of one case."""
    rng = np.random.default_rng(seed)
    floats = [a.dtype == np.float64 for a in operands]
    tensors = [torch.tensor(a, requires_grad=f) for a, f in zip(operands, floats, strict=True)]
    found = {f"{name}/{k}": a for k, a in enumerate(operands)}
    result = function(*tensors)
    found[f"{name}/result"] = result.detach().numpy()
    if result.requires_grad:
        ct = rng.normal(size=tuple(result.shape))
        result.backward(torch.tensor(ct))
        found[f"{name}/ct"] = np.asarray(ct)
        for k, tensor in enumerate(tensors):
            if tensor.grad is not None:
                found[f"{name}/grad{k}"] = tensor.grad.numpy()
    return found


def main(topics: list[str]) -> None:
    for topic in topics or TOPICS:
        cases: dict[str, Case] = importlib.import_module(f"cases_{topic}").CASES
        arrays: dict[str, Array] = {}
        for seed, (name, (function, operands)) in enumerate(cases.items()):
            arrays.update(record(name, function, operands, seed))
        save: Any = np.savez_compressed
        save(HERE / f"{topic}.npz", **arrays)
        print(f"{topic}: {len(cases)} cases")


if __name__ == "__main__":
    main(sys.argv[1:])
