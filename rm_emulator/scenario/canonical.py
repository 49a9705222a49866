"""Equal facts give equal log lines, whatever objects they were made from."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

Fact = TypeVar("Fact", bound=msgspec.Struct)


def canonical(fact: Fact) -> Fact:
    """The same fact with each value that equals its field's default being that very default.

    msgspec (`omit_defaults`) leaves a field out when its value is the default *object*: an equal string or
    float that came another way would be written, and the log's hash would depend on where it came from.
    """
    changed = {}
    for name, default in _defaults(type(fact)):
        value = getattr(fact, name)
        if value is not default and type(value) is type(default) and value == default:
            changed[name] = default
    return msgspec.structs.replace(fact, **changed) if changed else fact


@cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    fields = msgspec.structs.fields(kind)
    return tuple((field.name, field.default) for field in fields if field.default is not msgspec.NODEFAULT)
