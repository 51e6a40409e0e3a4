"""A small GPT that learns to write like Python's own documentation, letter by letter.

    python examples/gpt.py --steps 500

The text is the help on Python's keywords and topics that every Python ships (``help("topics")``), about half a million
letters. The model is a decoder of pre-norm transformer blocks (Radford et al. 2019) with its output weights tied to the
embedding.
"""

import argparse
import math
import pydoc_data.topics
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import firebox as fb
from firebox import nn, optim

Array = npt.NDArray[Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Config:
    """Sizes of a model."""

    vocab: int
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 64
    dropout: float = 0.0


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, config: Config) -> None:
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x: fb.Tensor) -> fb.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).transpose(2, 0, 3, 1, 4)
        query, key, value = fb.unbind(parts)
        seen = fb.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(seen.swapaxes(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each added to what it reads."""

    def __init__(self, config: Config) -> None:
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU("tanh"), nn.Linear(4 * config.width, config.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: fb.Tensor) -> fb.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Scores of the next letter at each place of (batch, length) letters."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.token = nn.Embedding(config.vocab, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = [Block(config) for _ in range(config.layers)]
        self.norm = nn.LayerNorm(config.width)
        self.map(self._initial)

    def forward(self, tokens: fb.Tensor) -> fb.Tensor:
        x = self.token(tokens) + fb.narrow(self.position.weight, 0, 0, tokens.shape[1])
        for block in self.blocks:
            x = block(x)
        return fb.linear(self.norm(x), self.token.weight)

    def _initial(self, path: str, cell: fb.Cell) -> fb.Tensor:
        """As GPT-2: N(0, 0.02), smaller where a layer's output is added to the residual; biases 0."""
        if cell.rank < 2:
            return cell.value if "norm" in path else fb.zeros_like(cell)
        added = path.endswith(("attention.output.weight", "mlp.2.weight"))
        return nn.init.normal(cell.shape, 0.0, 0.02 / math.sqrt(2 * self.config.layers) if added else 0.02)


@dataclass(frozen=True)
class Text:
    """A text as numbers, and the letters that they stand for."""

    letters: str
    numbers: Array

    def decode(self, numbers: Array) -> str:
        return "".join(self.letters[k] for k in numbers)

    def encode(self, text: str) -> Array:
        return np.array([self.letters.index(c) for c in text])


def load_text() -> Text:
    """The help topics that Python ships."""
    topics = pydoc_data.topics.topics
    text = "\n\n".join(topics[name] for name in sorted(topics))
    letters = "".join(sorted(set(text)))
    lookup = {letter: number for number, letter in enumerate(letters)}
    return Text(letters, np.array([lookup[letter] for letter in text], np.int32))


def make_optimizer(model: GPT, lr: float) -> optim.Optimizer:
    """AdamW that decays the matrices only, with gradients limited to norm 1."""
    named = list(model.named_parameters())
    groups = [
        {"params": [pair for pair in named if pair[1].rank >= 2], "weight_decay": 0.1},
        {"params": [pair for pair in named if pair[1].rank < 2], "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), max_norm=1.0)


def windows(numbers: Array, count: int, length: int, rng: Rng) -> tuple[Array, Array]:
    """Random pieces of the text, and the same pieces one letter on."""
    starts = rng.integers(0, len(numbers) - length, count)
    at = starts[:, None] + np.arange(length)
    return numbers[at], numbers[at + 1]


def train(model: GPT, text: Text, steps: int, batch_size: int, lr: float, seed: int) -> list[float]:
    """Train on random windows of the text; returns the loss of every step, in nats a letter."""
    rng = np.random.default_rng(seed)
    optimizer = make_optimizer(model, lr)
    schedule = optim.CosineSchedule(optimizer, steps, warmup_steps=min(steps // 10, 100), final=0.1)
    losses = []
    with fb.train.Progress(steps, "training") as bar:
        for _ in range(steps):
            tokens, following = windows(text.numbers, batch_size, model.config.context, rng)
            loss = fb.cross_entropy(model(fb.tensor(tokens)), fb.tensor(following), axis=-1)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss)
            bar.advance(loss=loss)
    return [float(loss.item()) for loss in losses]


def sample(model: GPT, text: Text, prompt: str, count: int, temperature: float, seed: int) -> str:
    """The prompt and ``count`` more letters. The window has one size throughout, so one program serves all letters."""
    rng = np.random.default_rng(seed)
    numbers = list(text.encode(prompt))
    model.eval()
    for _ in range(count):
        recent = np.array(numbers[-model.config.context :])
        window = np.zeros((1, model.config.context), np.int32)
        window[0, : len(recent)] = recent
        with fb.no_grad():
            scores = np.asarray(model(fb.tensor(window)))[0, len(recent) - 1].astype(np.float64) / temperature
        chances = np.exp(scores - scores.max())
        numbers.append(rng.choice(len(chances), p=chances / chances.sum()))
    return text.decode(np.array(numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small GPT on Python's documentation.")
    for name, default in (("layers", 4), ("heads", 4), ("width", 128), ("context", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--letters", type=int, default=300, help="how many letters to write at the end")
    parser.add_argument("--device", help="where to compute, e.g. opencl:0 (default: FIREBOX_DEVICE, else the CPU)")
    args = parser.parse_args()

    fb.set_default_device(args.device)
    fb.manual_seed(args.seed)
    text = load_text()
    model = GPT(Config(len(text.letters), args.layers, args.heads, args.width, args.context))
    print(f"{model.num_params:,} parameters, {len(text.numbers):,} letters of {len(text.letters)} kinds")
    losses = train(model, text, args.steps, args.batch_size, args.lr, args.seed)
    last = np.mean(losses[-20:])
    print(f"loss {losses[0]:.3f} -> {last:.3f} nats a letter (chance is {math.log(len(text.letters)):.3f})")
    print(sample(model, text, "The ", args.letters, 0.8, args.seed))


if __name__ == "__main__":
    main()
