"""The examples learn what they say they learn; the demo's check notices an artifact that disagrees."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb

Load = Callable[[str], Any]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Load:
    """`example(name)` imports a file of the examples, as when Python runs one."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> Any:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def test_mlp_separates_the_spirals(example: Load) -> None:
    mlp = example("mlp")
    fb.manual_seed(0)
    points, labels = mlp.spirals(30, 3, np.random.default_rng(0))
    assert points.shape == (90, 2) and np.bincount(labels).tolist() == [30, 30, 30]
    model = mlp.MLP(2, 32, 32, 3)
    assert mlp.train(model, points, labels, 200) < 0.1


def test_digits_learns_in_two_epochs_and_writes_what_the_demo_needs(example: Load, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    digits = example("digits")
    train, held_out = digits.load_data()
    assert (len(train.labels), len(held_out.labels)) == (1438, 359)
    assert train.images.shape[1:] == (1, 8, 8) and train.images.max() == 1.0
    accuracy = digits.run(tmp_path, epochs=2)
    assert accuracy > 0.8
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "digits.safetensors",
        "images.npy",
        "labels.npy",
        "logits.npy",
    ]
    again = digits.model()
    again.load_state_dict(fb.record.load(tmp_path / "digits.safetensors"))
    np.testing.assert_allclose(digits.predict(again, held_out.images), np.load(tmp_path / "logits.npy"), rtol=1e-5)


def test_the_demo_notices_an_artifact_that_disagrees(example: Load, tmp_path: Path) -> None:
    demo = example("demo")
    logits = np.eye(10, dtype=np.float32)
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 8]))
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "artifact_logits.npy", logits * 2)
    assert demo.check(tmp_path) == 0.8
    np.save(tmp_path / "artifact_logits.npy", np.roll(logits, 1, 1))
    with pytest.raises(SystemExit, match="disagree on images"):
        demo.check(tmp_path)


def test_gpt_learns_and_writes(example: Load) -> None:
    gpt = example("gpt")
    text = gpt.load_text()
    assert text.decode(text.encode("The ")) == "The "
    fb.manual_seed(0)
    model = gpt.GPT(gpt.Config(len(text.letters), layers=1, heads=2, width=32, context=16))
    paths = [path for path, _ in model.named_parameters()]
    assert paths[:3] == ["token.weight", "position.weight", "blocks.0.norm1.weight"]
    assert "blocks.0.attention.qkv.weight" in paths
    losses = gpt.train(model, text, steps=30, batch_size=8, lr=5e-3, seed=0)
    assert losses[-1] < 0.8 * losses[0]
    written = gpt.sample(model, text, "The ", 5, 1.0, 0)
    assert written.startswith("The ") and len(written) == 9
    assert written == gpt.sample(model, text, "The ", 5, 1.0, 0)


def test_gpt_sees_only_what_came_before(example: Load) -> None:
    gpt = example("gpt")
    model = gpt.GPT(gpt.Config(10, layers=2, heads=2, width=16, context=6))
    tokens = np.array([[1, 2, 3, 4, 5, 6]], np.int32)
    changed = tokens.copy()
    changed[0, 4] = 9
    first, second = (np.asarray(model(fb.tensor(t))) for t in (tokens, changed))
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert not np.array_equal(first[:, 4:], second[:, 4:])
