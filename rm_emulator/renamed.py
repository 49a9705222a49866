"""Former names of public classes and attributes: still readable by plug-ins, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def _warn(owner: str, old: str, new: str) -> None:
    # Level 3: the plug-in's own line, above `__getattr__` and this function.
    warnings.warn(f"{owner}.{old} is now called {new}", DeprecationWarning, stacklevel=3)


def former_attributes(**names: str) -> Callable[[C], C]:
    """Decorator of a class whose instances answer to the former names too: `former_attributes(old="new")`."""

    def decorate(cls: C) -> C:
        def read(self: Any, name: str) -> Any:
            if name not in names:
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            _warn(cls.__name__, name, names[name])
            return getattr(self, names[name])

        # Python calls `__getattr__` only for a name that is not found, so present names cost nothing.
        cls.__getattr__ = read  # type: ignore[attr-defined]
        return cls

    return decorate


def former_names(module: str, **names: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that answers to the former names too: `former_names(__name__, Old="New")`."""

    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        _warn(module, name, names[name])
        return getattr(sys.modules[module], names[name])

    return read
