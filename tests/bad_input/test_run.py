"""`firebox run` and what it is given: inputs, files of arrays, artifacts; exit codes 2, 3 and 4."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import firebox as fb
from firebox.frontend.cli.main import main
from firebox.runtime import container

ROOT = Path(__file__).parents[2]
ONES = np.ones((2, 8), np.float32)
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two inputs, one that looks up rows, and files of arrays."""
    folder = tmp_path_factory.mktemp("run")
    fb.compile(lambda x, y: x + y.sum(), "x: f32[b, 8], 1<=b<=64; y: f32[b]", name="two", path=folder / "two.fbox")
    fb.compile(lambda i: fb.arange(4).take(i), "i: i64[n]", name="rows", path=folder / "rows.fbox")
    for name, array in {
        "x": ONES,
        "f64": ONES.astype(np.float64),
        "complex": ONES.astype(np.complex64),
        "big": ONES.astype(">f4"),
        "flat": ONES[0],
        "nine": np.ones((2, 9), np.float32),
        "none": np.ones((0, 8), np.float32),
        "many": np.ones((65, 8), np.float32),
        "fortran": np.asfortranarray(np.arange(16, dtype=np.float32).reshape(2, 8)),
        "имя x": ONES,
    }.items():
        np.save(folder / f"{name}.npy", array)
    whole = (folder / "x.npy").read_bytes()
    (folder / "empty.npy").write_bytes(b"")
    (folder / "short.npy").write_bytes(whole[:100])
    (folder / "flipped.npy").write_bytes(whole[:20] + b"\xff" + whole[21:])
    (folder / "huge.npy").write_bytes(whole.replace(b"(2, 8), }" + b" " * 10, b"(99999999999, 8), }"))
    (folder / "text.npy").write_text("hello")
    np.savez(folder / "archive.npz", x=ONES)
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line beside the files; gives the exit code and what went to stderr. Failures print nothing."""
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        assert code == 0 or captured.out == ""
        assert "Traceback" not in captured.err
        return code, captured.err

    return call


WRONG: dict[str, tuple[list[str], int, str]] = {
    "none given": ([], 3, "input x: missing\n  expected: f32[b, 8]\n  hint:     --input x=@file.npy"),
    "one missing": (["x=@x.npy"], 3, "input y: missing\n  expected: f32[b]"),
    "an unknown name": (["x=@x.npy", "z=f32[2]"], 3, "--input z: no such name\n  expected: one of: x, y"),
    "no name": (["f32[2,8]"], 2, "--input: not NAME=VALUE with one of these names: x, y"),
    "given twice": (["x=@x.npy", "x=@x.npy"], 2, "--input x: given twice"),
    "another element type": (
        ["x=@f64.npy", "y=f32[2]"],
        3,
        "input x: element type is f64, expected f32; got f64[2,8] for x: f32[b, 8]",
    ),
    "complex numbers": (["x=@complex.npy", "y=f32[2]"], 3, "input x: element type is complex64, expected f32"),
    "big-endian": (["x=@big.npy", "y=f32[2]"], 3, "input x: element type is >f4, expected f32"),
    "another rank": (["x=@flat.npy", "y=f32[2]"], 3, "input x: rank is 1, expected 2; got f32[8] for x: f32[b, 8]"),
    "another size": (
        ["x=@nine.npy", "y=f32[2]"],
        3,
        "input x: dim 1 is 9, expected 8; got f32[2,9] for x: f32[b, 8]",
    ),
    "too many rows": (
        ["x=@many.npy", "y=f32[65]"],
        3,
        "input x: dim 0 is b=65, expected 1 <= b <= 64; got f32[65,8] for x: f32[b, 8]",
    ),
    "no rows": (["x=@none.npy", "y=f32[0]"], 3, "input x: dim 0 is b=0, expected 1 <= b <= 64"),
    "two sizes of one dim": (
        ["x=@x.npy", "y=f32[3]"],
        3,
        "input y: dim 0 is b=3, but dim 0 of input x is b=2; got f32[3] for y: f32[b]",
    ),
    "no value": (["x=nonsense", "y=f32[2]"], 2, "input x: not a value"),
    "no element type": (["x=f33[2,8]", "y=f32[2]"], 2, "input x: no such element type: f33"),
    "no shape": (["x=f32[2,,8]", "y=f32[2]"], 2, "input x: not a shape"),
    "a negative size": (["x=f32[-2,8]", "y=f32[2]"], 2, "input x: not a value"),
    "no file": (["x=@nowhere.npy", "y=f32[2]"], 1, "nowhere.npy: No such file or directory"),
    "a folder": (["x=@.", "y=f32[2]"], 1, ".: Is a directory"),
    "an empty file": (["x=@empty.npy", "y=f32[2]"], 3, "empty.npy: not a NumPy array file"),
    "a truncated file": (["x=@short.npy", "y=f32[2]"], 3, "short.npy: not a NumPy array file"),
    "a damaged file": (["x=@flipped.npy", "y=f32[2]"], 3, "flipped.npy: not a NumPy array file"),
    "a size beyond memory": (["x=@huge.npy", "y=f32[2]"], 3, "huge.npy: not a NumPy array file"),
    "a text": (["x=@text.npy", "y=f32[2]"], 3, "text.npy: not a NumPy array file"),
    "an archive": (["x=@archive.npz", "y=f32[2]"], 3, "archive.npz: an archive of arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_inputs(run: Run, name: str) -> None:
    values, code, message = WRONG[name]
    found, said = run("run", "two.fbox", *(part for value in values for part in ("--input", value)))
    assert found == code, said
    assert said.startswith(f"firebox run: error: {message}"), said


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("[0, 3]", 0, ""),
        ("[]", 0, ""),
        (
            "[0, 4]",
            1,
            "gather: index out of range\n  expected: an index from 0 to 3\n  found:    4\n  at:       test_run",
        ),
        ("[4294967296]", 1, "gather: index out of range"),
        ("[0.5]", 3, "input i: the numbers do not fit the element type\n  expected: i64[n]\n  found:    float64[1]"),
        ("[1e99]", 3, "input i: the numbers do not fit the element type"),
        ("[18446744073709551616]", 2, "input i: not a value"),
        ('["a"]', 2, "input i: not a value"),
    ],
)
def test_numbers(run: Run, value: str, code: int, message: str) -> None:
    found, said = run("run", "rows.fbox", "--input", f"i={value}")
    assert found == code, said
    assert not message or said.startswith(f"firebox run: error: {message}"), said


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--output", "q=out.npy"], 2, "--output q: no such name\n  expected: one of: out0"),
        (["--output", "nowhere/out.npy"], 1, "nowhere/out.npy: No such file or directory"),
        (["--expected", "nowhere.npy"], 1, "nowhere.npy: No such file or directory"),
        (["--expected", "text.npy"], 3, "text.npy: not a NumPy array file"),
        (["--threads", "100000"], 1, "threads: cannot use that many threads"),
        (
            ["--device", "tpu"],
            1,
            "device: no such device\n  expected: cpu, opencl:0, opencl:1, ... or interpret\n  found:    tpu",
        ),
    ],
)
def test_options(run: Run, options: list[str], code: int, message: str) -> None:
    found, said = run("run", "two.fbox", "--input", "x=@x.npy", "--input", "y=f32[2]", *options)
    assert found == code, said
    assert said.startswith(f"firebox run: error: {message}"), said


def test_unusual_inputs_that_fit(run: Run) -> None:
    for name in ("fortran", "имя x"):
        assert run("run", "two.fbox", "--input", f"x=@{name}.npy", "--input", "y=[1, 2]", "--output", "o.npy")[0] == 0
        np.testing.assert_array_equal(np.load("o.npy"), np.load(f"{name}.npy") + 3)


def test_no_rows_where_the_range_allows_them(run: Run) -> None:
    fb.compile(lambda x: x * 2, "x: f32[b, 8]", path="any.fbox")
    assert run("run", "any.fbox", "--input", "x=@none.npy", "--output", "o.npy")[0] == 0
    assert np.load("o.npy").shape == (0, 8)


# ---- artifacts ---------------------------------------------------------------------------------------------------


def changed(name: str, position: int, value: int) -> str:
    """A copy of the artifact with one byte changed."""
    data = bytearray(Path("two.fbox").read_bytes())
    data[position] = value
    Path(name).write_bytes(data)
    return name


@pytest.mark.parametrize("command", [["run", "--input", "x=@x.npy", "--input", "y=f32[2]"], ["inspect"]])
def test_artifacts_that_cannot_be_trusted(run: Run, command: list[str]) -> None:
    data = Path("two.fbox").read_bytes()
    for name, content, message in (
        ("nothing", b"", "artifact: damaged file: the file is empty"),
        ("text", b"hello", "artifact: damaged file: not an .fbox file"),
        ("head", data[:40], "artifact: damaged file: the file is truncated"),
        ("most", data[:-1], "artifact: damaged file: the file has"),
        ("more", data + b"\0", "artifact: damaged file: the file has"),
    ):
        Path(name).write_bytes(content)
        found, said = run(command[0], name, *command[1:])
        assert (found, said.startswith(f"firebox {command[0]}: error: {message}")) == (4, True), said
    bits = np.random.default_rng(0).integers(0, 8 * len(data), 60).tolist()
    for bit in bits:
        found, said = run(command[0], changed("flip", bit // 8, data[bit // 8] ^ 1 << bit % 8), *command[1:])
        assert found == 4, (bit, said)


def test_a_newer_artifact(run: Run) -> None:
    found, said = run("run", changed("newer", 4, container.FORMAT + 1), "--input", "x=@x.npy")
    assert found == 4
    assert said == (
        f"firebox run: error: artifact: the file has format {container.FORMAT + 1}, this runtime reads up to "
        f"{container.FORMAT}\n  hint:     load it with a newer firebox\n"
    )


def test_files_that_are_not_there(run: Run) -> None:
    for command in ("run", "inspect"):
        assert run(command, "nowhere.fbox") == (
            1,
            f"firebox {command}: error: nowhere.fbox: No such file or directory\n",
        )
        assert run(command, ".") == (1, f"firebox {command}: error: .: Is a directory\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(run: Run) -> None:
    Path("locked.fbox").write_bytes(Path("two.fbox").read_bytes())
    Path("locked.fbox").chmod(0)
    assert run("run", "locked.fbox") == (1, "firebox run: error: locked.fbox: Permission denied\n")


def test_the_process_ends_with_the_exit_code(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, code in (
        (["run", "two.fbox", "--input", "x=@x.npy", "--input", "y=f32[3]"], 3),
        (["run", "x.npy"], 4),
        (["run"], 2),
        (["run", "nowhere.fbox"], 1),
    ):
        command = [sys.executable, "-m", "firebox", *arguments]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (code, ""), result.stderr
