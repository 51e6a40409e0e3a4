"""Objects named on the command line: ``file.py:NAME`` or ``package.module:NAME``."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from firebox.errors import FireboxError, UserError
from firebox.frontend.cli.main import UsageError

_PACKAGE = str(Path(__file__).parents[2])


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
        raise UserError(f"SyntaxError: {error.msg}").at(f"{error.filename}:{error.lineno}") from None
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
        if frames[-1].filename.startswith(_PACKAGE):
            raise  # a defect of ours
        where = f"{frames[-1].filename}:{frames[-1].lineno}"
        raise UserError(f"{type(error).__name__}: {error}").at(where) from None
