"""OpenCL code as bytes, targets of OpenCL devices, and binaries of drivers."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firebox.errors import ArtifactError, CompilerError, UserError
from firebox.runtime import opencl_program
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable
from firebox.runtime.image import CodeImage
from firebox.runtime.opencl_code import OpenClCode, code_from_bytes
from firebox.runtime.opencl_library import library
from firebox.runtime.opencl_program import binary_cache
from firebox.runtime.opencl_target import PRESET_NAMES, OpenClTarget, parse_target, target_from_dict, target_label
from firebox.runtime.program_cache import program_cache
from firebox.runtime.target import Target
from tests.handmade_opencl import TWICE, code, twice_steps
from tests.programs import opencl_device

X = np.arange(32, dtype=np.float32)
HOST = CodeImage(b"\xc3" * 70, {"main": 0}, "x86_64")
CODE = OpenClCode(HOST, "__kernel void a() {} // é", ("a", "b_1"), True)


@pytest.mark.parametrize("found", [CODE, replace(CODE, source="", kernels=(), faults=False)])
def test_bytes_and_back(found: OpenClCode) -> None:
    data = found.to_bytes()
    assert OpenClCode.from_bytes(data) == found and code_from_bytes(data) == found
    assert OpenClCode.from_bytes(data).to_bytes() == data
    assert code_from_bytes(HOST.to_bytes()) == HOST
    assert found.machine == "x86_64" and found.symbols == {"main": 0}


def test_every_truncation_is_noticed() -> None:
    data = CODE.to_bytes()
    for size in range(len(data)):
        with pytest.raises(ArtifactError):
            OpenClCode.from_bytes(data[:size])


@pytest.mark.parametrize("at", range(0, 64))
def test_a_changed_byte_is_noticed_or_gives_other_code(at: int) -> None:
    data = bytearray(CODE.to_bytes())
    data[at] ^= 0x80
    try:
        assert OpenClCode.from_bytes(bytes(data)).to_bytes() == bytes(data)
    except ArtifactError:
        return


@pytest.mark.parametrize("names", [("a", "a"), ("no name",), ("",), ("1a",), ("é",)])
def test_names_of_kernels_are_checked(names: tuple[str, ...]) -> None:
    with pytest.raises(ArtifactError, match="kernel"):
        OpenClCode.from_bytes(replace(CODE, kernels=names).to_bytes())


def test_the_program_cache_keeps_it() -> None:
    cache = program_cache()
    key = cache.key("trace", OpenClTarget.generic())
    assert key != cache.key("trace", Target.host())
    cache.store(key, TWICE, CODE)
    assert cache.load(key) == (TWICE, CODE)


# ---- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_presets_as_dicts(name: str) -> None:
    target = parse_target(name)
    assert isinstance(target, OpenClTarget)
    assert target_from_dict(target.to_dict()) == target and target_from_dict(Target.host().to_dict()) == Target.host()
    assert target_label(target).startswith("opencl-") and target.runs_on(target)
    assert OpenClTarget.generic().runs_on(target)


def test_what_runs_where() -> None:
    h200, generic = OpenClTarget.h200(), OpenClTarget.generic()
    assert not h200.runs_on(generic) and "ptx" in h200.missing_from(generic)
    assert not h200.runs_on(replace(h200, local_bytes=48 << 10)) and not h200.runs_on(replace(h200, max_group=256))
    assert not replace(generic, host=Target.parse("aarch64")).runs_on(generic) or Target.host().arch == "aarch64"
    with pytest.raises(UserError, match=r"(?s)no such target.*x86-64-v3.*opencl:sm_90"):
        parse_target("opencl:sm_10")
    assert parse_target("opencl:sm_90") == h200 and parse_target("opencl:sm_89").arch == "sm_89"


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "cpu"), ("vendor", "a b"), ("arch", 3), ("features", ["fp64", "fly"]), ("features", "fp64"),
     ("warp", 0), ("warp", True), ("max_group", -1), ("local_bytes", 1 << 50), ("host", {}), ("more", 1)],
)  # fmt: skip
def test_wrong_descriptions(field: str, value: object) -> None:
    data = {**OpenClTarget.generic().to_dict(), field: value}
    with pytest.raises(ArtifactError):
        OpenClTarget.from_dict(data)


def test_the_target_of_a_device() -> None:
    target = opencl_device().target
    assert isinstance(target, OpenClTarget)
    assert target.host == Target.host() and target.max_group >= 32 and target.local_bytes >= 16 << 10
    assert OpenClTarget.from_dict(target.to_dict()) == target


# ---- binaries of drivers ---------------------------------------------------------------------------------------------


def built_by(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the program of an executable was made, which then ran."""
    calls: list[str] = []
    found = library()
    create = found.create

    def noting(name: str, *arguments: object, op: str) -> int:
        calls.append(name)
        return create(name, *arguments, op=op)

    with monkeypatch.context() as patch:
        patch.setattr(found, "create", noting)
        executable = Executable(TWICE, code(TWICE, twice_steps), device)
    np.testing.assert_array_equal(executable.run_arrays({"x": X})["y"], 2 * X)
    return [name.removeprefix("clCreateProgramWith") for name in calls if "Program" in name]


def test_a_binary_is_built_once_and_found_again(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = opencl_device()
    assert built_by(device, monkeypatch) == ["Source"]
    assert len(list((cache_dir / "opencl").glob("*/*.bin"))) == 1
    assert built_by(device, monkeypatch) == ["Binary"]
    binary_cache().clear()
    assert built_by(device, monkeypatch) == ["Source"]


def test_comments_do_not_make_another_binary() -> None:
    builder = opencl_device().backend._queue.builder  # type: ignore[attr-defined]
    source = "// add\n// model.py:3\n__kernel void k() {\n    x = 1;  // model.py:3\n}"
    assert builder.key(source) == builder.key(source.replace(":3", ":14"))
    assert builder.key(source) != builder.key(source.replace("= 1", "= 2"))
    assembly = 'asm volatile("mov %0, 1; // a" : "=r"(x));'
    assert builder.key(assembly) != builder.key(assembly.replace("(x)", "(y)"))


@pytest.mark.parametrize("content", [b"", b"not a binary", bytes(1000)])
def test_a_refused_binary_is_built_anew(
    content: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = opencl_device()
    builder = device.backend._queue.builder  # type: ignore[attr-defined]
    key = builder.key(code(TWICE, twice_steps).source)
    binary_cache().put(key, content)
    with caplog.at_level(logging.WARNING):
        assert built_by(device, monkeypatch)[-1] == "Source"
    assert caplog.text.count("refuses") == 1
    assert built_by(device, monkeypatch) == ["Binary"]


def test_a_damaged_entry_is_built_anew(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = opencl_device()
    built_by(device, monkeypatch)
    (path,) = (cache_dir / "opencl").glob("*/*.bin")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert built_by(device, monkeypatch) == ["Source"]


def test_a_long_log_is_cut() -> None:
    device = opencl_device()
    source = "__kernel void twice(int n) {" + "".join(f"n = unknown{k};\n" for k in range(60)) + "}"
    with pytest.raises(CompilerError) as caught:
        Executable(TWICE, code(TWICE, twice_steps, source), device)
    assert len(str(caught.value.found).splitlines()) <= opencl_program._LOG_LINES + 1
