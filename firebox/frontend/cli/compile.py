"""``firebox compile``: a model, a function or an .mlir file to an artifact, or to the text of any stage."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from firebox.errors import UserError
from firebox.frontend import aot
from firebox.frontend.cli.load import load_object, run_user_code
from firebox.frontend.cli.main import OK, UsageError
from firebox.frontend.source import Source, from_text, trace
from firebox.lowering.options import Options
from firebox.lowering.pipeline import PHASES
from firebox.runtime.opencl_target import TARGET_NAMES

_SUFFIXES = {"artifact": ".fbox", "object": ".o"}
_EXAMPLE = '"x: f32[b, 784], 1<=b<=4096"'


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = _parser().parse_args(argv)
    if args.compile_to is not None and args.compile_to not in PHASES:
        raise UsageError("no such phase", op="--compile-to", expected=", ".join(PHASES), found=args.compile_to)
    source = _source(args)
    args.target = args.target or ("opencl" if args.emit == "opencl" else "host")
    options = Options(checkpoint=args.checkpoint)
    if args.compile_to is not None:
        _write(args, aot.stage(source, args.compile_to, args.target, options))
    elif args.emit == "artifact":
        path = args.output or Path(source.name).with_suffix(_SUFFIXES["artifact"])
        artifact = aot.build(source, args.target, options)
        artifact.write(path)
        labels = ", ".join(build.label for build in artifact.builds)
        print(f"{path}: {artifact.name}{artifact.signature} for {labels}", file=sys.stderr)
    else:
        _write(args, aot.emit(source, cast(aot.Kind, args.emit), args.target, options))
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "firebox compile",
        description="Compile a model ahead of time.",
        epilog=f"example: firebox compile model.py:net --input {_EXAMPLE} -o net.fbox",
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", help="file.py:NAME, package.module:NAME (a model, or a function), or file.mlir")
    add("--input", action="append", default=[], metavar="SPEC", help=f"an input of the function, e.g. {_EXAMPLE}")
    add("--weights", metavar="FILE.safetensors", help="values of the model's parameters and buffers")
    add("-o", "--output", type=Path, metavar="FILE", help="where to write; texts go to stdout by default")
    add("--emit", choices=["artifact", *aot.KINDS], default="artifact", help="what to make (default %(default)s)")
    add("--compile-to", metavar="PHASE", help=f"show the IR after a phase: {', '.join(PHASES)}")
    names = ", ".join(TARGET_NAMES)
    add(
        "--target",
        default=None,
        metavar="NAMES",
        help=f"comma-separated: {names}, or a device such as opencl:0 (default: host)",
    )
    add("--name", default="", help="name of the model (default: that of the source file)")
    about = "what gradients keep: none (nothing is computed again), balanced, budget:64MiB, ... (default %(default)s)"
    add("--checkpoint", default="none", metavar="STRATEGY", help=about)
    return parser


def _source(args: argparse.Namespace) -> Source:
    if args.source.endswith(".mlir") or args.source == "-":
        if args.weights:
            raise UsageError("an .mlir file takes its weights as inputs", op="--weights", found=args.weights)
        name = "stdin.mlir" if args.source == "-" else args.source
        return from_text(_read(args.source, name), name, args.input or None)
    function, name = load_object(args.source)
    source: Source = run_user_code(lambda: trace(function, args.input, args.weights, args.name or name))
    return source


def _read(source: str, name: str) -> str:
    data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"not text: {error.reason} at byte {error.start}", op=name) from None


def _write(args: argparse.Namespace, content: str | bytes) -> None:
    if args.output is not None:
        Path(args.output).write_bytes(content if isinstance(content, bytes) else content.encode())
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content)
