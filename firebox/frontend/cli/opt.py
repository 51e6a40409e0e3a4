"""``firebox opt``: read MLIR, apply passes, write MLIR; xDSL's driver with our dialects and mlir-opt's option names."""

import argparse
import dataclasses
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from firebox.dialects.xdsl_compat import place_of_fault, verify
from firebox.errors import UserError
from firebox.frontend import irtext, universe
from firebox.frontend.cli.instrument import DumpOptions, Instrument
from firebox.frontend.cli.main import OK, UsageError
from firebox.version import VERSION


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: an unknown pass or pass option. UserError: malformed or invalid IR; the message shows the place.
    """
    driver = OptMain("Apply passes to MLIR.", args=list(argv))
    if driver.args.show_dialects:
        print("\n".join(sorted(driver.ctx.registered_dialect_names)))
    elif driver.args.list_passes:
        print("\n".join(_describe(name, make) for name, make in sorted(driver.available_passes.items())))
    else:
        driver.run_checked()
    return OK


class OptMain(xDSLOptMain):
    """The driver. A plugin that cannot be loaded is reported, and the tool goes on without it."""

    version_format = f"firebox {VERSION}, xdsl {{xdsl_version}}"

    def __init__(self, description: str, args: Sequence[str]) -> None:
        self._flags: list[str] = []
        self._raw = list(args)
        super().__init__(description, self._raw)
        if self.args.input_file == "-":
            self.args.input_file = None

    def register_all_dialects(self) -> None:
        for name, factory in universe.dialects().items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        for name, factory in universe.passes().items():
            self.register_pass(name, factory)

    def register_all_frontends(self) -> None:
        for found in universe.universes().values():
            for name, factory in found.all_frontends.items():
                self.available_frontends.setdefault(name, factory)

    def register_all_targets(self) -> None:
        for found in universe.universes().values():
            for name, factory in found.all_targets.items():
                self.available_targets.setdefault(name, factory)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        # xDSL lists every pass in its help, which fills three screens; --list-passes does it better.
        self._raw[:] = self._take_pass_flags(self._raw)
        arg_parser.prog = "firebox opt"
        super().register_all_arguments(arg_parser)
        for action in arg_parser._actions:
            if action.dest == "passes":
                action.help = "passes to run: a,b{x=1}; --list-passes lists them"
        _add_mlir_options(arg_parser)

    def _take_pass_flags(self, arguments: list[str]) -> list[str]:
        """mlir-opt takes every pass as an option of its own: ``--nd-fuse``. Those are collected in their order."""
        rest = []
        for argument in arguments:
            match = re.fullmatch(r"--?([\w-]+)(?:=['\"]?(.*?)['\"]?)?", argument)
            if match and match[1] in self.available_passes:
                self._flags.append(match[1] + (f"{{{match[2]}}}" if match[2] else ""))
            else:
                rest.append(argument)
        return rest

    def setup_pipeline(self) -> None:
        specs = [flatten_pipeline(self.args.pass_pipeline), self.args.passes, *self._flags]
        text = ",".join(spec for spec in specs if spec)
        try:
            self.pipeline = PassPipeline.parse_spec(self.available_passes, text)
        except (ValueError, ArgSpecParseError) as error:
            raise UsageError(self._explain(str(error).strip()), op="passes") from None
        self.instrument = Instrument(_dump_options(self.args), self._show)

    def _explain(self, message: str) -> str:
        unknown = re.search(r"Unrecognized passes: \['([^']+)'", message)
        if unknown is None:
            return message
        near = difflib.get_close_matches(unknown[1], self.available_passes, 3)
        return f"no such pass: {unknown[1]}" + (f"; did you mean {', '.join(near)}?" if near else "")

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the passes, verifying before the first and after each."""
        self._verify(prog, "the input")
        for item in self.pipeline.passes:
            self.instrument.before(prog, item)
            try:
                item.apply(self.ctx, prog)
                self._verify(prog, f"the IR after {item.name}")
            except Exception:
                self.instrument.failed(prog, item)
                raise
            self.instrument.after(prog, item)

    def run_checked(self) -> None:
        """Process the input and write the result, once all of it is there."""
        try:
            chunks, extension = self.prepare_input()
        except ValueError as error:
            raise UsageError(str(error), op=self.get_input_name()) from None
        text = "// -----\n".join(self._process(chunk, extension, offset) for chunk, offset in chunks)
        if self.args.output_file is None:
            sys.stdout.write(text)
        else:
            Path(self.args.output_file).write_text(text)
        if self.args.mlir_timing:
            print(self.instrument.table(), file=sys.stderr)

    def get_input_name(self) -> str:
        name: str | None = self.args.input_file
        return name or "stdin"

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        if (self.args.frontend or file_extension) != "mlir":
            return super().parse_chunk(chunk, file_extension, start_offset)
        implicit = not self.args.no_implicit_module
        return irtext.read(self.ctx, chunk.read().decode(), self.get_input_name(), implicit, start_offset)

    def _process(self, chunk: IO[bytes], extension: str, offset: int) -> str:
        """One module from text to text. Diagnostics become the output where the options say so."""
        try:
            with chunk:
                module = self.parse_chunk(chunk, extension, offset)
            if module is None:
                return ""
            self.apply_passes(module)
            return self.output_resulting_program(module)
        except ParseError as error:
            error.span = dataclasses.replace(error.span, line_offset=offset)
            return self._diagnosed(error, "", self.args.parsing_diagnostics)
        except UnicodeDecodeError as error:
            raise UserError(f"not text: {error.reason} at byte {error.start}", op=self.get_input_name()) from None
        except DiagnosticException as error:
            return self._diagnosed(error, self.get_input_name(), self.args.verify_diagnostics)

    def _diagnosed(self, error: Exception, op: str, expected: bool) -> str:
        text = "\n".join([str(error).strip(), *getattr(error, "__notes__", ())])
        if expected:
            return text + "\n"
        raise UserError(text, op=op) from None

    def _verify(self, module: ModuleOp, what: str) -> None:
        if self.args.disable_verify or not self.args.verify_each:
            return
        try:
            verify(module)
        except DiagnosticException as error:
            where = place_of_fault(module)
            error.add_note(f"in {what}" + (f", at {where}" if where else ""))
            raise

    def _show(self, module: ModuleOp) -> str:
        stream = StringIO()
        generic, debug = self.args.print_op_generic, self.args.print_debuginfo
        Printer(stream, print_generic_format=generic, print_debuginfo=debug).print_op(module)
        return stream.getvalue()


def flatten_pipeline(text: str) -> str:
    """``builtin.module(a,func.func(b{x=1}))`` as ``a,b{x=1}``: our passes take modules, so nesting says nothing."""
    text = re.sub(r"\s*([,()])\s*", r"\1", text)
    while True:
        flat = re.sub(r"[\w.]+\(((?:[^()]|\{[^{}]*\})*)\)", r"\1", text)
        if flat == text:
            return flat.strip().strip(",")
        text = flat


def _add_mlir_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pass-pipeline", default="", metavar="TEXT", help="passes in MLIR's form: builtin.module(a,b{x=1})")
    add("--mlir-print-ir-before-all", action="store_true", help="show the IR before every pass")
    add("--mlir-print-ir-after-all", action="store_true", help="show the IR after every pass")
    add("--mlir-print-ir-before", default="", metavar="PASSES", help="show the IR before these passes")
    add("--mlir-print-ir-after", default="", metavar="PASSES", help="show the IR after these passes")
    add("--mlir-print-ir-after-change", action="store_true", help="leave out dumps of IR that a pass did not change")
    add("--mlir-print-ir-tree-dir", type=Path, metavar="DIR", help="write dumps to numbered files there")
    add("--mlir-timing", action="store_true", help="print the time of every pass")
    add("--mlir-print-op-generic", dest="print_op_generic", action="store_true", help="print ops in generic form")
    add("--mlir-print-debuginfo", dest="print_debuginfo", action="store_true", help="print locations")
    add("--verify-each", type=_flag, nargs="?", const=True, default=True, metavar="0|1", help="verify after every pass")
    add("--show-dialects", action="store_true", help="list the dialects")
    add("--list-passes", action="store_true", help="list the passes")


def _flag(text: str) -> bool:
    if text.lower() in ("0", "false", "no"):
        return False
    if text.lower() in ("1", "true", "yes"):
        return True
    raise argparse.ArgumentTypeError(f"expected 0 or 1, found {text}")


def _dump_options(args: argparse.Namespace) -> DumpOptions:
    everything = args.mlir_print_ir_after_all or args.mlir_print_ir_after_change or args.print_between_passes
    named = frozenset(filter(None, args.mlir_print_ir_after.split(",")))
    if args.mlir_print_ir_tree_dir is not None and not named and not args.mlir_print_ir_before_all:
        everything = True
    before = None if args.mlir_print_ir_before_all else frozenset(filter(None, args.mlir_print_ir_before.split(",")))
    return DumpOptions(
        before=before,
        after=None if everything and not named else named,
        only_changed=args.mlir_print_ir_after_change,
        directory=args.mlir_print_ir_tree_dir,
    )


def _describe(name: str, factory: Callable[[], type[ModulePass]]) -> str:
    summary = (factory().__doc__ or "").strip().partition("\n")[0]
    return f"{name:<40} {summary}".rstrip()
