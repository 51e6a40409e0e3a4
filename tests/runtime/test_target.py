"""Targets: presets, host detection, canonical JSON, what LLVM makes of them; settings from the environment."""

import dataclasses
import json
from pathlib import Path

import pytest

from firebox import config
from firebox.errors import ArtifactError, CompilerError, UserError
from firebox.runtime import llvm
from firebox.runtime.target import PRESET_NAMES, Target

WIDE_ADD = """
define void @add(ptr %p) nounwind {
  %a = load <16 x float>, ptr %p, align 4
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %p, align 4
  ret void
}
"""


@pytest.mark.parametrize(
    ("name", "bits", "lanes"), [("x86-64", 128, 4), ("x86-64-v3", 256, 8), ("x86-64-v4", 512, 16), ("aarch64", 128, 4)]
)
def test_presets(name: str, bits: int, lanes: int) -> None:
    target = Target.parse(name)
    assert target.vector_bits == bits
    assert target.lanes(4) == lanes
    assert target.lanes(2) == 2 * lanes


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="x86-64-v3"):
        Target.parse("pentium")


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_json_round_trip_is_canonical(name: str) -> None:
    target = Target.parse(name)
    text = target.to_json()
    assert Target.from_json(text) == target
    assert Target.from_json(text).to_json() == text
    assert json.loads(text)["features"] == sorted(target.features)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "gpu"),
        ("triple", "riscv64-unknown-linux-gnu"),
        ("cpu", "x,+avx"),
        ("features", ["avx,-sse"]),
        ("features", "avx"),
        ("vector_bits", 0),
        ("vector_bits", True),
        ("l1_bytes", "32"),
        ("l2_bytes", -1),
    ],
)
def test_bad_description_is_refused(field: str, value: object) -> None:
    data = Target.parse("x86-64-v3").to_dict() | {field: value}
    with pytest.raises(ArtifactError):
        Target.from_dict(data)


def test_missing_and_unknown_fields_are_refused() -> None:
    data = Target.parse("x86-64").to_dict()
    with pytest.raises(ArtifactError):
        Target.from_dict(data | {"extra": 1})
    del data["cpu"]
    with pytest.raises(ArtifactError):
        Target.from_dict(data)
    with pytest.raises(ArtifactError):
        Target.from_json("{")


def test_host_lacks_nothing_of_itself() -> None:
    assert Target.host() is Target.host()
    assert Target.host().missing_on_host() == ()


def test_missing_features_are_named() -> None:
    host = Target.host()
    wanted = dataclasses.replace(host, features=tuple(sorted((*host.features, "time-travel"))))
    assert wanted.missing_on_host() == ("time-travel",)
    other = Target.parse("aarch64" if host.arch == "x86_64" else "x86-64")
    assert other.missing_on_host() == (other.arch,)


def test_host_features_agree_with_llvm() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    theirs = {name for name, on in binding.get_host_cpu_features().items() if on}
    host = Target.host()
    assert {name for name in host.features if not name.startswith("amx")} <= theirs


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_llvm_knows_every_feature(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert llvm.compile_to_object(WIDE_ADD, Target.parse(name))[:4] == b"\x7fELF"
    assert capfd.readouterr().err == ""


def test_features_choose_the_instructions() -> None:
    assert "zmm" in llvm.compile_to_assembly(WIDE_ADD, Target.parse("x86-64-v4"))
    v3 = llvm.compile_to_assembly(WIDE_ADD, Target.parse("x86-64-v3"))
    assert "ymm" in v3 and "zmm" not in v3
    assert "ymm" not in llvm.compile_to_assembly(WIDE_ADD, Target.parse("x86-64"))
    # The processor's name alone must not bring in what the features leave out.
    lesser = dataclasses.replace(Target.parse("x86-64-v3"), cpu="znver4")
    assert "zmm" not in llvm.compile_to_assembly(WIDE_ADD, lesser)


def test_llvm_error_quotes_the_line() -> None:
    text = "define void @f() {\n  %x = add i64 1, %nope\n  ret void\n}\n"
    with pytest.raises(CompilerError) as info:
        llvm.compile_to_object(text, Target.host())
    assert "line 2" in str(info.value)
    assert info.value.found == "%x = add i64 1, %nope"


def test_verification_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    late_definition = """
    define i64 @f(i1 %c) {
      br i1 %c, label %a, label %b
    a:
      %x = add i64 1, 2
      br label %b
    b:
      ret i64 %x
    }
    """
    monkeypatch.setenv("FIREBOX_VERIFY", "1")
    config.reload()
    with pytest.raises(CompilerError, match="dominate"):
        llvm.compile_to_object(late_definition, Target.host())


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = {"CACHE_DIR": str(tmp_path), "CACHE_SIZE": "1000", "NUM_THREADS": "3", "DEVICE": "cpu:0"}
    for name, value in values.items():
        monkeypatch.setenv(f"FIREBOX_{name}", value)
    config.reload()
    assert config.cache_dir() == tmp_path
    assert (config.cache_size(), config.num_threads(), config.default_device()) == (1000, 3, "cpu:0")
    assert config.verify() is False


@pytest.mark.parametrize(
    ("name", "value"), [("NUM_THREADS", "0"), ("NUM_THREADS", "many"), ("CACHE_SIZE", "-1"), ("VERIFY", "maybe")]
)
def test_bad_settings_are_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FIREBOX_{name}", value)
    config.reload()
    with pytest.raises(UserError, match=f"FIREBOX_{name}"):
        getattr(config, name.lower())()
