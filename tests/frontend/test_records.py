"""Safetensors files: round trips of states, exact bytes, and files that are not what they should be."""

import json
import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from firebox import dtypes
from firebox.errors import InputError, UserError
from firebox.frontend import nn, optim, record
from firebox.frontend.tensor import tensor

pytest.importorskip("safetensors")


def test_module_round_trip(tmp_path: Path) -> None:
    model, other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model(tensor(np.ones((4, 2), np.float32)))
    record.save(model, tmp_path / "model.safetensors")
    other.load_state_dict(record.load(tmp_path / "model.safetensors"))
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[path].numpy(), value.numpy())
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_optimizer_round_trip(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = optim.AdamW(model)
    model(tensor(np.ones((1, 2), np.float32))).sum().backward()
    optimizer.step()
    record.save(optimizer, tmp_path / "adam.safetensors")
    fresh = optim.AdamW(nn.Linear(2, 1))
    fresh.load_state_dict(record.load(tmp_path / "adam.safetensors"))
    np.testing.assert_array_equal(fresh.state_dict()["weight.exp_avg"].numpy(), np.full((1, 2), 0.1, np.float32))


def test_every_element_type(tmp_path: Path) -> None:
    state = {d.name: np.arange(-2, 4).reshape(2, 3).astype(d.numpy) for d in dtypes.ALL}
    record.save(state, tmp_path / "all.safetensors")
    found = record.load(tmp_path / "all.safetensors")
    assert sorted(found) == sorted(state)
    for name, array in state.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name].astype(np.float64), array.astype(np.float64))


def test_bytes_are_those_of_the_format_and_always_the_same(tmp_path: Path) -> None:
    """https://huggingface.co/docs/safetensors: length of the header, JSON header, the arrays."""
    state = {"b": np.array([1.5, 2.0], ml_dtypes.bfloat16), "a": np.array([[7]], np.int32)}
    record.save(state, tmp_path / "x", {"note": "text"})
    record.save(dict(reversed(state.items())), tmp_path / "y", {"note": "text"})
    data = (tmp_path / "x").read_bytes()
    assert data == (tmp_path / "y").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header["__metadata__"] == {"note": "text"}
    assert (header["a"]["dtype"], header["a"]["shape"]) == ("I32", [1, 1])
    start, end = header["b"]["data_offsets"]
    assert data[8 + length :][start:end] == state["b"].tobytes()


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        record.load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"\x80\x04not a record")
    with pytest.raises(InputError, match="not a safetensors file"):
        record.load(tmp_path / "bad")
    record.save({"a": np.arange(4.0)}, tmp_path / "cut")
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-3])
    with pytest.raises(InputError, match="not a safetensors file"):
        record.load(tmp_path / "cut")


def test_what_has_no_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to save"):
        record.save([1, 2], tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_without_safetensors_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(UserError, match=r"firebox\[records\]"):
        record.save({"a": np.ones(1)}, tmp_path / "x")
