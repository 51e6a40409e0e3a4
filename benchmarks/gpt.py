"""A training step of the GPT of examples/gpt.py with 6 layers: what the compiler makes of it, and how long it takes.

    python -m benchmarks.gpt [--threads N]

Width 128, 4 heads, 64 letters of context, batches of 16, AdamW with clipped gradients; eager PyTorch beside it, with
the same initial weights.
"""

import argparse
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import OURS, Number, Result
from benchmarks.timing import Call, arguments, compare, fair_process, report

EXAMPLES = Path(__file__).parents[1] / "examples"
LAYERS, VOCAB, BATCH, LR = 6, 96, 16, 1e-3
_NEAR = 0.02


class Ours:
    """The model, its optimizer and one batch.

    Args:
        layers, batch: sizes.
        device: where to compute; None is the default device.
        dtype: of the parameters and of what is computed from them.
        sizes: others of the model's, by name.
    """

    def __init__(
        self, layers: int, batch: int = BATCH, device: Any = None, dtype: str = "float32", **sizes: int
    ) -> None:
        sys.path.insert(0, str(EXAMPLES))
        import gpt

        import firebox as fb

        fb.manual_seed(0)
        self.fb = fb
        self.config = gpt.Config(VOCAB, layers=layers, **sizes)
        with fb.device(device):
            self.model = gpt.GPT(self.config).to(getattr(fb, dtype))
        self.optimizer = gpt.make_optimizer(self.model, LR)
        fb.flush()  # the initialisation is a program of its own
        tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, self.config.context + 1)).astype(np.int32)
        self.batch = tokens[:, :-1].copy(), tokens[:, 1:].copy()
        self.inputs = [fb.tensor(part, device=device) for part in self.batch]
        self.weights = {name: np.array(value.float()) for name, value in self.model.state_dict().items()}
        self.jitted = fb.jit(self.update)

    def update(self, tokens: Any, following: Any) -> Any:
        loss = self.fb.cross_entropy(self.model(tokens), following, axis=-1)
        loss.backward()
        self.optimizer.step()
        return loss

    def usual(self) -> float:
        return float(self.update(*self.inputs).item())

    def jit(self) -> float:
        return float(self.jitted(*self.inputs).item())


def compiled(ours: Ours) -> dict[str, Number]:
    """Take the first step, and tell what the compiler did for it."""
    from benchmarks.observe import compilations

    with compilations() as found:
        start = time.perf_counter()
        ours.usual()
        seconds = time.perf_counter() - start
    (made,) = found
    kinds = {kind: sum(g.kind == kind for g in made.groups) for kind in sorted({g.kind for g in made.groups})}
    phases = {f"compile, phase {phase} (ms)": 1e3 * spent for phase, spent in made.seconds.items()}
    return {
        "parameters": int(ours.model.num_params),
        "nd ops traced": made.nd_ops("trace"),
        "nd ops after expand": made.nd_ops("expand"),
        "nd ops before fuse": made.nd_ops("layout"),
        "contractions": made.ops["layout"]["nd.contract"],
        "groups": len(made.groups),
        **{f"groups, {kind}": count for kind, count in kinds.items()},
        "distinct groups": len(made.labels),
        "kernels": made.kernels,
        "lines of LLVM IR": made.lines,
        **phases,
        "compile, LLVM (ms)": 1e3 * made.llvm,
        "first step (ms)": 1e3 * seconds,
    }


def torch_step(ours: Ours, threads: int) -> Callable[[], float]:
    """The same step in eager PyTorch on the CPU."""
    import torch

    torch.set_num_threads(threads)
    update = torch_update(ours, "cpu")
    return lambda: float(update().item())


def torch_update(ours: Ours, device: str, dtype: str = "float32", compiles: bool = False) -> Callable[[], Any]:
    """The same step in PyTorch, with its fused attention and fused AdamW; returns the loss as a tensor.

    Args:
        ours: what to begin with.
        device, dtype: of PyTorch, by name.
        compiles: compile model and loss, with their gradients.
    """
    import torch
    from torch import nn
    from torch.nn import functional

    config = ours.config
    width, heads = config.width, config.heads

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.output = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            query, key, value = self.qkv(x).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.output(seen.transpose(1, 2).reshape(batch, length, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(config.context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return functional.linear(self.norm(x), self.token.weight)

    model = GPT()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in ours.weights.items()})
    model.to(device, getattr(torch, dtype))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), fused=True)
    tokens, following = (torch.from_numpy(part.astype(np.int64)).to(device) for part in ours.batch)

    def loss_of(tokens: Any, following: Any) -> Any:
        return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    loss_function = torch.compile(loss_of) if compiles else loss_of

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(tokens, following)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def measure(options: argparse.Namespace) -> tuple[list[Result], dict[str, Number]]:
    """Results and facts.

    Raises:
        SystemExit: a loss is not that of the other contenders.
    """
    ours = Ours(2 if options.quick else LAYERS)
    facts = compiled(ours)
    calls: dict[str, Call] = {OURS: ours.usual, "firebox jit": ours.jit}
    if "torch" in options.peers and importlib.util.find_spec("torch"):
        peer = calls["torch"] = torch_step(ours, options.threads)
        peer()  # ours has taken one step
        expected, found = peer(), ours.usual()
        if not math.isclose(expected, found, rel_tol=_NEAR):
            sys.exit(f"the losses differ: {found} from Firebox, {expected} from PyTorch")
    timed = compare(f"step of a GPT, {ours.config.layers} layers", calls, options)
    peers = [name for name in calls if name == "torch"]
    for name in calls:
        rate = BATCH * ours.config.context / timed.seconds[name]
        facts[f"tokens per second, {name}, {options.threads} threads"] = round(rate)
    results = [
        timed.of(f"{timed.case}, usual loop", OURS, peers),
        timed.of(f"{timed.case}, `fb.jit`", "firebox jit", peers),
    ]
    return results, facts


def main() -> None:
    options = arguments(__doc__, rounds=9)
    fair_process(options.threads)
    os.environ["FIREBOX_CACHE_SIZE"] = "0"  # it is compiled here, whatever other processes have left
    results, facts = measure(options)
    report("gpt", results, options, facts)


if __name__ == "__main__":
    main()
