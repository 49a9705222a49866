"""Which profiles and architectures there are: the modules of `profiles`, `architectures`, found by their names."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any, Final

from schedulers.core.errors import UnknownName

_PROFILES: Final = "rm_emulator.engine.profiles"
_ARCHITECTURES: Final = "rm_emulator.engine.architectures"


def names(package: str = _PROFILES) -> tuple[str, ...]:
    """All profiles, without importing them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(import_module(package).__path__)))


def profile(name: str) -> type[Any]:
    """The class of a profile, a `Profile`. Raises UnknownName."""
    return _found("profile", name, _PROFILES)


def architecture(kind: str) -> type[Any]:
    """The class of an architecture, a `Profile` too. Raises UnknownName."""
    return _found("architecture", kind, _ARCHITECTURES)


def _found(what: str, name: str, package: str) -> type[Any]:
    if name not in names(package):
        raise UnknownName(what, name, names(package))
    found: type[Any] = getattr(import_module(f"{package}.{name}"), name.title().replace("_", ""))
    return found


def with_trait(trait: str) -> str:
    """The profiles that have a trait (`has_masters`), for a message."""
    return " and ".join(f"'{name}'" for name in names() if getattr(profile(name), trait))
