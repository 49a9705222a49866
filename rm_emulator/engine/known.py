"""Which profiles there are: the modules of `profiles`, found by their names."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from schedulers.core.errors import UnknownName

_PACKAGE = "rm_emulator.engine.profiles"


def names() -> tuple[str, ...]:
    """All profiles, without importing them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(import_module(_PACKAGE).__path__)))


def profile(name: str) -> type[Any]:
    """The class of a profile, a `Profile`. Raises UnknownName."""
    if name not in names():
        raise UnknownName("profile", name, names())
    found: type[Any] = getattr(import_module(f"{_PACKAGE}.{name}"), name.title().replace("_", ""))
    return found


def with_trait(trait: str) -> str:
    """The profiles that have a trait (`has_masters`), for a message."""
    return " and ".join(f"'{name}'" for name in names() if getattr(profile(name), trait))
