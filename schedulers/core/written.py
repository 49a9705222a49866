"""The written form of a struct in logs, snapshots and stored workloads: its fields that are not at their default."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec


class Written(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A struct written without fields at their default, so that a new field changes nothing already written.

    msgspec leaves out a field with the default object itself, not with an equal object, and a number or a text from a
    file is an object of its own. So an equal value is replaced with the default when the struct is made: equal structs
    are written alike, wherever their values come from.
    """

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            value = getattr(self, name)
            # The type as well: 1 and True are equal, and are written differently.
            if value is not default and value == default and type(value) is type(default):
                msgspec.structs.force_setattr(self, name, default)


@cache
def _defaults(cls: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """(field, default) of fields with a default object of its own: not None, a truth value or empty."""
    given = ((field.name, field.default) for field in msgspec.structs.fields(cls))
    return tuple((name, default) for name, default in given if isinstance(default, str | float | msgspec.Struct))
