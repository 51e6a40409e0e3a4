"""The command line with several devices: artifacts with builds for them, the choice of one, what is shown."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firebox.errors import ArtifactError, DeviceError
from firebox.frontend import aot
from firebox.frontend.cli.main import main
from firebox.frontend.source import from_text
from firebox.lowering.supported import check_types
from firebox.runtime import container
from firebox.runtime.artifact import Artifact, Build, Weight
from firebox.runtime.describe import amount, describe
from firebox.runtime.device import Device, devices
from firebox.runtime.opencl_code import OpenClCode
from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.pool import pool_image
from firebox.runtime.session import choose, explain, load
from firebox.runtime.target import Target
from firebox.signature import Signature
from tests import handmade, handmade_opencl
from tests.programs import opencl_device

W = np.arange(8, dtype=np.float32)
X = np.arange(24, dtype=np.float32).reshape(3, 8)
GENERIC = OpenClTarget.generic()
LABEL = "opencl-generic-generic"
IR = """
func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = nd.mul %x, %x : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  func.return %0 : tensor<4xf64>
}
"""


def cpu_build() -> Build:
    return Build(Target.host(), handmade.ADD, handmade.add_image(), pool_image(Target.host()))


def opencl_build(target: OpenClTarget = GENERIC) -> Build:
    program = handmade_opencl.ADD
    return Build(target, program, handmade_opencl.code(program, handmade_opencl.add_steps))


def artifact(*builds: Build) -> Artifact:
    signature = Signature(handmade.ADD.inputs[:1], handmade.ADD.outputs, {"b": (1, 64)})
    return Artifact("add", signature, builds, (Weight("w", 1, W),), "builtin.module {}\n", {}, ("trace",))


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """y = x + w, built for the CPU and for OpenCL, in the current directory."""
    monkeypatch.chdir(tmp_path)
    artifact(opencl_build(), cpu_build()).write("both.fbox")
    return "both.fbox"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(arguments)
        return (code, *capsys.readouterr())

    return run


# ---- the file ----------------------------------------------------------------------------------------------------


def test_one_file_holds_code_for_several_kinds_of_devices(both: str) -> None:
    sections = container.read(both)
    label = cpu_build().label
    parts = [f"program:{LABEL}", f"code:{LABEL}", f"program:{label}", f"code:{label}", f"pool:{label}"]
    assert list(sections) == ["manifest", "nd", "locations", *parts, "weights"]
    assert len(sections["weights"]) == W.nbytes
    opened = Artifact.open(both)
    first, second = opened.builds
    assert first == opencl_build()
    assert isinstance(first.image, OpenClCode)
    assert first.pool is None
    assert second.target == Target.host()
    before = Path(both).read_bytes()
    opened.write(both)
    assert Path(both).read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update({f"code:{LABEL}": bytes(s[f"code:{cpu_build().label}"])}),
        lambda s: s.update({f"code:{LABEL}": s[f"code:{LABEL}"][:-1]}),
        lambda s: s.update({f"pool:{LABEL}": bytes(s[f"pool:{cpu_build().label}"])}),
        lambda s: s.pop(f"code:{LABEL}"),
        lambda s: s.update({f"code:{cpu_build().label}": bytes(s[f"code:{LABEL}"])}),
        lambda s: s.update(manifest=s["manifest"].replace(b'"warp":1', b'"warp":-1')),
        lambda s: s.update(manifest=s["manifest"].replace(b'"vendor":"generic"', b'"vendor":"Generic"')),
        lambda s: s.update(manifest=s["manifest"].replace(b'["fp64"]', b'["fp46"]')),
        lambda s: s.update(manifest=s["manifest"].replace(b'"kind":"opencl"', b'"kind":"vulkan"')),
    ],
)
def test_inconsistent_opencl_builds_are_refused(both: str, change: Callable[[dict[str, bytes]], object]) -> None:
    sections = {key: bytes(value) for key, value in container.read(both).items()}
    change(sections)
    container.write(both, {key: [value] for key, value in sections.items()})
    with pytest.raises(ArtifactError):
        Artifact.open(both)


# ---- which build -------------------------------------------------------------------------------------------------


def test_the_cpu_takes_the_cpus_build(both: str) -> None:
    model = load(both)
    assert model.device is Device("cpu")
    assert model.build.target == Target.host()
    np.testing.assert_array_equal(model(X), X + W)


def test_an_opencl_device_takes_the_opencl_build(both: str) -> None:
    device = opencl_device()
    model = load(both, device)
    assert model.build.label == LABEL
    for rows in (1, 3):
        np.testing.assert_array_equal(model(X[:rows]), X[:rows] + W)


def test_of_several_builds_that_fit_the_closest_is_taken() -> None:
    device = opencl_device()
    own = device.target
    assert isinstance(own, OpenClTarget)
    near = replace(own, max_group=64)
    if near.label == LABEL:
        pytest.skip("nothing is known of this device")
    far = replace(GENERIC, vendor="nvidia", arch="sm_90", features=("cp_async", "fp64", "ptx"), warp=32)
    file = artifact(opencl_build(), opencl_build(near), opencl_build(far), cpu_build())
    if own.arch != "sm_90":
        assert [c.build.label for c in explain(file, device) if c.lacks] == [far.label, cpu_build().label]
        assert choose(file, device).label == near.label


def test_a_missing_build_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one.fbox"
    artifact(opencl_build()).write(path)
    with pytest.raises(ArtifactError) as caught:
        load(path)
    assert str(caught.value).startswith(
        f"artifact: no code for this machine\n  expected: what it has\n  found:    {LABEL} needs an OpenCL device\n"
    )
    assert str(caught.value).endswith(
        "  hint:     choose an OpenCL device, such as opencl:0, or compile it with --target=host,opencl"
    )
    device = opencl_device()
    artifact(cpu_build()).write(path)
    with pytest.raises(ArtifactError) as caught:
        load(path, device)
    assert "artifact: no code for opencl:0\n" in str(caught.value)
    assert f"  found:    {cpu_build().label} needs a CPU\n" in str(caught.value)
    assert "  hint:     compile it with --target=host,opencl" in str(caught.value)


def test_what_a_target_lacks() -> None:
    h200 = OpenClTarget.h200()
    assert GENERIC.missing_from(h200) == ()
    lacks = h200.missing_from(GENERIC)
    assert lacks[-4:] == ("sm_90", "warps of 32", "groups of 1024 work-items", "227 KiB of local memory")
    assert "ptx" in lacks


# ---- commands ----------------------------------------------------------------------------------------------------


def test_run_explains_its_choice(both: str, said: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = said("run", both, "--explain")
    assert code == 0
    assert out.split("\n") == [
        f"cpu: {describe(Device('cpu').backend)}",
        f"  {LABEL}: does not run there: needs an OpenCL device",
        f"  {cpu_build().label}: chosen: of the builds that run there it uses most of the device",
        "",
    ]
    report = json.loads(said("run", both, "--explain", "--json")[1])
    assert report["device"] == "cpu"
    assert [row["chosen"] for row in report["builds"]] == [False, True]
    assert report["builds"][0]["lacks"] == ["an OpenCL device"]
    artifact(opencl_build()).write("one.fbox")
    assert said("run", "one.fbox", "--explain")[0] == 4


def test_run_on_an_opencl_device(both: str, said: Callable[..., tuple[int, str, str]]) -> None:
    opencl_device()
    np.save("x.npy", X)
    code, out, err = said("run", both, "--device", "opencl:0", "--input", "x=@x.npy", "--output", "y.npy")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load("y.npy"), X + W)
    code, out, _ = said("run", both, "--device", "opencl:0", "--explain")
    assert code == 0
    assert f"  {LABEL}: chosen: " in out
    assert f"  {cpu_build().label}: does not run there: needs a CPU\n" in out


def test_a_device_that_is_not_there(both: str, said: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = said("run", both, "--device", "opencl:999", "--input", "x=f32[1,8]")
    assert code == 1
    assert "firebox run: error: " in err


def test_inspect_shows_opencl_builds(both: str, said: Callable[..., tuple[int, str, str]]) -> None:
    source = handmade_opencl.code(handmade_opencl.ADD, handmade_opencl.add_steps).source
    code, out, _ = said("inspect", both)
    assert code == 0
    assert f"{LABEL}: 1 kernels, " in out
    assert f", {len(source):,} of OpenCL C, workspace 0 bytes, " in out
    assert said("inspect", both, "--emit", "opencl")[1] == source
    assert said("inspect", both, "--emit", "mlir")[1] == "builtin.module {}\n"
    rows = json.loads(said("inspect", both, "--json")[1])["targets"]
    assert [row["target"]["kind"] for row in rows] == ["opencl", "cpu"]
    assert rows[0]["source_bytes"] == len(source)
    assert rows[0]["runs_here"] == (len(devices()) > 1)
    other = replace(GENERIC, vendor="pocl")
    artifact(opencl_build(), opencl_build(other)).write("two.fbox")
    found = said("inspect", "two.fbox", "--emit", "opencl")[1]
    assert found == f"// ---- {LABEL}\n{source}// ---- {other.label}\n{source}"
    artifact(cpu_build()).write("cpu.fbox")
    code, _, err = said("inspect", "cpu.fbox", "--emit", "opencl")
    assert code == 2
    assert "--emit: no OpenCL build\n  expected: compiled with --target=opencl\n" in err


def test_devices_are_shown(said: Callable[..., tuple[int, str, str]]) -> None:
    out = said("devices")[1]
    rows = json.loads(said("devices", "--json")[1])["devices"]
    assert [row["name"] for row in rows] == [device.name for device in devices()]
    for row in rows:
        assert row["memory_bytes"] > 0
        assert f"{row['name']}: {row['product']} ({row['platform']}), {amount(row['memory_bytes'])}, " in out


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB")]
)
def test_amounts_of_memory(nbytes: int, text: str) -> None:
    assert amount(nbytes) == text


# ---- compiling ---------------------------------------------------------------------------------------------------


def test_targets_by_name() -> None:
    host, generic, h200 = aot.parse_targets("host,opencl,opencl:sm_90")
    assert (host, generic, h200) == (Target.host(), GENERIC, OpenClTarget.h200())
    assert aot.parse_targets([GENERIC]) == aot.parse_targets(GENERIC) == [GENERIC]
    device = opencl_device()
    assert aot.parse_targets("opencl:0") == [device.target]


def test_only_opencl_has_opencl_c() -> None:
    with pytest.raises(Exception, match="emit: a CPU has no OpenCL C\n  expected: --target=opencl"):
        aot.emit(from_text(IR, "a.mlir"), "opencl", "host")


def test_a_type_that_the_device_lacks_is_refused_by_name() -> None:
    target = replace(GENERIC, features=())
    with pytest.raises(DeviceError) as caught:
        aot.build(from_text(IR, "a.mlir"), target)
    lines = [line for line in str(caught.value).split("\n") if not line.startswith("  at: ")]
    assert lines == [
        "mul: the device does not compute in f64",
        f"  expected: an element type that {LABEL} has",
        "  found:    f64[4]",
        '  hint:     cast it with x.astype(fb.float32), or compute on the CPU with x.to("cpu")',
    ]
    assert "a.mlir:3" in str(caught.value)
    check_types(from_text(IR, "a.mlir").module, GENERIC)
    halves = from_text(IR.replace("f64", "f16"), "a.mlir").module
    check_types(halves, target)


def compiled_for(*targets: Any) -> Artifact:
    text = IR.replace("f64", "f32")
    return aot.build(from_text(text, "a.mlir"), targets)


def test_one_compile_for_several_kinds_of_devices(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    file = compiled_for("host", "opencl")
    for name in ("a.fbox", "b.fbox"):
        file.write(tmp_path / name)
    assert (tmp_path / "a.fbox").read_bytes() == (tmp_path / "b.fbox").read_bytes()
    np.testing.assert_array_equal(load(tmp_path / "a.fbox")(x), x * x)
    np.testing.assert_array_equal(load(tmp_path / "a.fbox", opencl_device())(x), x * x)


def test_compile_prints_opencl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mlir").write_text(IR.replace("f64", "f32"))
    code, out, _ = said("compile", "a.mlir", "--emit=opencl")
    assert code == 0
    assert "__kernel" in out
    assert said("compile", "a.mlir", "--compile-to=emit", "--target=opencl")[1] == out
    assert "define" in said("compile", "a.mlir", "--emit=llvm", "--target=opencl")[1]
    assert said("compile", "a.mlir", "--target=host,opencl", "-o", "a.fbox")[0] == 0
    assert said("inspect", "a.fbox", "--emit=opencl")[1] == out
    assert "gpu-" in said("opt", "a.mlir", "-p", "nd-lower{to=schedule target=opencl}")[1]
