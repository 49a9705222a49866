"""The profiles: one module each, found by its name. `profiles/mesos.py` with a class `Mesos` is profile 'mesos'."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from schedulers.core.errors import UnknownName

if TYPE_CHECKING:
    from rm_emulator.engine.profile import Profile


def names() -> tuple[str, ...]:
    """All profiles, without importing them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def profile(name: str) -> type[Profile]:
    """The class of a profile. Raises UnknownName."""
    if name not in names():
        raise UnknownName("profile", name, names())
    found: type[Profile] = getattr(import_module(f"{__name__}.{name}"), name.title().replace("_", ""))
    return found


def with_trait(trait: str) -> str:
    """The profiles that have a trait (`has_masters`), for a message."""
    return " and ".join(f"'{name}'" for name in names() if getattr(profile(name), trait))
