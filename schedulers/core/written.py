"""What logs, snapshots and stored workloads hold of a struct: its fields that are not at their default."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec


class Written(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A struct that is written without what is at its default, so that a new field changes nothing that was written.

    msgspec leaves out a field that holds the default object itself, not one that equals it, and a number or a text from
    a file is an object of its own. So an equal value is replaced with the default when the struct is made: equal
    structs are written alike, wherever their values come from.
    """

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            value = getattr(self, name)
            if value is not default and value == default and type(value) is type(default):
                msgspec.structs.force_setattr(self, name, default)


@cache
def _defaults(cls: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """(field, default) of the fields whose default is an object of its own: not None, a truth value or empty."""
    given = ((field.name, field.default) for field in msgspec.structs.fields(cls))
    return tuple((name, default) for name, default in given if isinstance(default, str | float | msgspec.Struct))
