"""``firebox``: finds the command, loads it alone, and turns errors into messages and exit codes."""

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from firebox.errors import ArtifactError, FireboxError, InputError
from firebox.version import VERSION

OK, FAILURE, USAGE, INPUT, ARTIFACT = range(5)
INTERRUPTED = 130  # as shells do for SIGINT

COMMANDS = {
    "compile": "compile a model, a function or an .mlir file into an artifact, or show a stage of it",
    "run": "run an artifact on arrays",
    "inspect": "show what an artifact contains",
    "opt": "apply passes to an .mlir file, as mlir-opt does",
    "devices": "list the devices of this machine",
}


class UsageError(FireboxError):
    """The command line asks for something that does not exist (exit code 2)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process; returns the exit code.

    0 ok, 1 failure, 2 usage, 3 bad input to the model, 4 damaged or incompatible artifact.
    """
    name, *rest = list(sys.argv[1:] if argv is None else argv) or [""]
    if name in ("-h", "--help"):
        print(_help())
        return OK
    if name == "--version":
        print(f"firebox {VERSION}")
        return OK
    if name not in COMMANDS:
        _say(_unknown(name) if name else _help())
        return USAGE
    return _guarded(name, rest)


def _guarded(name: str, arguments: list[str]) -> int:
    try:
        # Loaded late: `run` and `inspect` need the runtime alone, and a wrong command nothing at all.
        module = importlib.import_module(f"firebox.frontend.cli.{name}")
        code: int = module.main(arguments)
        sys.stdout.flush()
        return code
    except FireboxError as error:
        _say(f"firebox {name}: error: {error}")
        return _code(name, error)
    except BrokenPipeError:  # the reader of our output has gone; nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _say(f"firebox {name}: error: {what}")
        return FAILURE
    except MemoryError as error:
        _say(f"firebox {name}: error: out of memory: {error}")
        return FAILURE
    except KeyboardInterrupt:
        _say(f"firebox {name}: interrupted")
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        _say(f"firebox {name}: this is a defect of firebox {VERSION}; please report it with the lines above")
        return FAILURE


def _code(name: str, error: FireboxError) -> int:
    if isinstance(error, UsageError):
        return USAGE
    if isinstance(error, InputError) and name == "run":  # elsewhere no model is given anything
        return INPUT
    return ARTIFACT if isinstance(error, ArtifactError) else FAILURE


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: firebox COMMAND ...",
            "",
            *lines,
            "",
            "firebox COMMAND --help shows the options of a command; firebox --version the version.",
        ]
    )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, COMMANDS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"firebox: error: no such command: {name}{hint} (commands: {', '.join(COMMANDS)})"


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
