"""Old names of classes and members used by plug-ins: each works as the new name, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def warn_of_old_name(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn of a use of an old name."""
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=stacklevel)


class OldName:
    """The old name of an attribute or method: `left = OldName("unfinished")` in the body of the class."""

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def warn(self, owner: type, stacklevel: int = 3) -> None:
        """Warn of a use of the old name."""
        warn_of_old_name(f"{owner.__name__}.{self._name}", self.new, stacklevel + 1)

    # Not called for the new name: what the core reads costs no more than before.
    def __get__(self, instance: object, owner: type) -> Any:
        self.warn(owner)
        return getattr(owner if instance is None else instance, self.new)

    def __set__(self, instance: object, value: object) -> None:
        self.warn(type(instance))
        setattr(instance, self.new, value)


class TakesOldNames:
    """Base of classes of which plug-ins override members: a subclass may define a member by its old name."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        # A copy, because members are moved on the way.
        for name in list(vars(cls)):
            for base in cls.__mro__[1:]:
                old = vars(base).get(name)
                if isinstance(old, OldName):
                    old.warn(cls)
                    # Moved and not copied: otherwise the member would hide the old name of the base.
                    setattr(cls, old.new, vars(cls)[name])
                    delattr(cls, name)
                    break


def old_classes(module: str, new: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module with renamed classes. new: the new name of each."""

    def find(name: str) -> Any:
        if name not in new:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is called {new[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new[name])

    return find
