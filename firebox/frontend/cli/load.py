"""Objects named on the command line: ``file.py:NAME`` or ``package.module:NAME``."""

import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from firebox.errors import FireboxError, UserError
from firebox.frontend.cli.main import UsageError

_PACKAGE = str(Path(__file__).parents[2])
_LIBRARIES = tuple(sysconfig.get_path(name) + "/" for name in ("stdlib", "platlib", "purelib"))


def load_object(text: str) -> tuple[Callable[..., Any], str]:
    """Import what is named; a function that takes no arguments is called, and gives the model. Runs the user's code.

    Returns:
        The model or function, and the name of its file or module.

    Raises:
        UsageError: not of this form, or no such name. UserError: the user's code fails; names its line.
        OSError: no such file.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError("not a source", expected="file.py:NAME, package.module:NAME or file.mlir", found=text)
    module = _import(place)
    if not hasattr(module, name):
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise UsageError("no such name in the file", op=place, expected=f"one of {known}", found=name)
    found = getattr(module, name)
    if inspect.isfunction(found) and not _takes_arguments(found):
        found = run_user_code(found)
    if not callable(found):
        raise UsageError("neither a model nor a function", op=text, found=type(found).__name__)
    return found, Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]


def _import(place: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        _check_module(place)
        module: ModuleType = run_user_code(lambda: importlib.import_module(place))
        return module
    path = Path(place).absolute()
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", place)
    sys.path.insert(0, str(path.parent))  # as when Python runs the file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    loader = spec.loader
    run_user_code(lambda: loader.exec_module(module))
    return module


def _check_module(name: str) -> None:
    """Raises UserError if there is no module of that name."""
    try:
        found = importlib.util.find_spec(name)  # runs the packages around it
    except ModuleNotFoundError:
        found = None
    except Exception:
        return  # the import itself will say it better
    if found is None:
        raise UserError("no such module", expected="file.py:NAME or package.module:NAME", found=name)


def _takes_arguments(function: Callable[..., Any]) -> bool:
    """Whether the function must be given something."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return any(p.default is p.empty and p.kind not in kinds for p in parameters)


def run_user_code(call: Callable[[], Any]) -> Any:
    """Run the user's code; what it raises becomes an error that names its line. What this package raises stays.

    Raises:
        UserError: the user's code raises an exception of its own.
    """
    try:
        return call()
    except FireboxError:
        raise
    except SyntaxError as error:
        where = f"{error.filename}:{error.lineno}" if error.filename else ""
        raise UserError(f"SyntaxError: {error.msg}").at(where) from error
    except SystemExit as error:
        raise UserError("the code ends the process", found=f"SystemExit({error.code!r})").at(_place(error)) from error
    except Exception as error:
        where = _place(error)
        if where.startswith(_PACKAGE):
            raise  # a defect of ours
        raise UserError(f"{type(error).__name__}: {error}").at(where) from error


def _place(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is neither Python's own nor an installed package's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}"
