"""MLIR text in and out, with our dialects and the standard ones."""

from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from firebox.dialects.xdsl_compat import verify
from firebox.errors import UserError
from firebox.frontend.universe import dialects


def context() -> Context:
    """A context that knows our dialects and those of xDSL; each is loaded when it is first used."""
    result = Context()
    for name, factory in dialects().items():
        result.register_dialect(name, factory)
    return result


def read(ctx: Context, text: str, name: str, implicit_module: bool = True) -> ModuleOp:
    """Read a module without verifying it.

    Raises:
        ParseError: malformed; also where xDSL itself would name no place, as for an attribute that is refused.
    """
    parser = Parser(ctx, text, name)
    try:
        return parser.parse_module(implicit_module)
    except VerifyException as error:
        parser.raise_error(str(error))


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
        raise UserError(f"invalid IR: {error}", op=name) from None
    return module


def print_module(module: ModuleOp, locations: bool = False) -> str:
    """The module as MLIR text, ending in a newline."""
    stream = StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"
