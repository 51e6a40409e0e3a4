"""MLIR text in and out, with our dialects and the standard ones."""

import bisect
import re
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from firebox.dialects.xdsl_compat import file_location, place_of_fault, verify
from firebox.errors import UserError
from firebox.frontend.universe import dialects

_UNDEFINED = re.compile(r"values used but not defined: \[(%[\w$.-]+)")
"""xDSL notices at the end of a block, and names no other place."""


def context() -> Context:
    """A context that knows our dialects and those of xDSL; each is loaded when it is first used."""
    result = Context()
    for name, factory in dialects().items():
        result.register_dialect(name, factory)
    return result


class _Parser(Parser):
    """Gives ops that say nothing else the line of the text as their location."""

    def __init__(self, ctx: Context, text: str, name: str, first_line: int) -> None:
        super().__init__(ctx, text, name)
        self._file = name
        self._first_line = first_line
        self._starts = [0, *(k + 1 for k, letter in enumerate(text) if letter == "\n")]

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if op.location is UNKNOWN_LOC:
            op.location = file_location(self._file, self._first_line + bisect.bisect_right(self._starts, start))
        return op


def read(ctx: Context, text: str, name: str, implicit_module: bool = True, first_line: int = 0) -> ModuleOp:
    """Read a module without verifying it.

    Args:
        first_line: lines of the file before the text.

    Raises:
        ParseError: malformed; also where xDSL itself would name no place, as for an attribute that is refused.
        UserError: nested too deeply.
    """
    parser = _Parser(ctx, text, name, first_line)
    try:
        return parser.parse_module(implicit_module)
    except ParseError as error:
        undefined = _UNDEFINED.search(error.msg)
        use = undefined and re.search(re.escape(undefined[1]) + r"(?![\w$.-])", text)
        if not use:
            raise
        parser.raise_error(error.msg, use.start(), use.end())
    except VerifyException as error:
        parser.raise_error(str(error))
    except RecursionError:
        raise UserError("nested too deeply", op=name) from None


def parse_module(text: str, name: str) -> ModuleOp:
    """Read and verify a module.

    Args:
        text: MLIR.
        name: of the file, for messages.

    Raises:
        UserError: malformed or invalid; the message shows the place.
    """
    try:
        module = read(context(), text, name)
        verify(module)
    except ParseError as error:
        raise UserError(str(error).strip()) from None
    except VerifyException as error:
        raise UserError(f"invalid IR: {error}", op=name).at(place_of_fault(module)) from None
    return module


def print_module(module: ModuleOp, locations: bool = False) -> str:
    """The module as MLIR text, ending in a newline."""
    stream = StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"
