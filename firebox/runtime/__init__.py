"""Where programs run: code, memory, threads, devices. Importing this loads no compiler and no LLVM."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firebox.runtime.session import Model as Model
    from firebox.runtime.session import load as load

__all__ = ["Model", "load"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from firebox.runtime import session  # lazy: modules that need only a part of the runtime import this package too

    return getattr(session, name)
