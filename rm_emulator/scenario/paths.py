"""Paths into a scenario as text, `spec.policies[0].tie`, and values put at a path."""

from __future__ import annotations

import re
from typing import Any

from rm_emulator.issues import show_path, show_value
from schedulers.core.errors import nearest

#: Names and indices, from the top.
Keys = tuple[str | int, ...]

_STEP = re.compile(r"""\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]""")


def parse_path(text: str) -> Keys:
    """The names and indices of a path. Raises ValueError."""
    path: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at > 0 and match[1] is not None and text[at] != "."):
            raise ValueError(f"the path cannot be read at '{text[at:]}' (write spec.policies[0].tie)")
        name, index, *quoted = match.groups()
        path.append(int(index) if index is not None else name or quoted[0] or quoted[1] or "")
        at = match.end()
    return tuple(path)


def put(data: Any, path: Keys, value: Any) -> None:
    """Set a value in place, making missing mappings on the way. Raises ValueError with the bad part of the path."""
    at = data
    for depth, part in enumerate(path):
        so_far, last = show_path(path[:depth]) or "the document", depth == len(path) - 1
        if isinstance(part, int):
            if not isinstance(at, list):
                raise ValueError(f"{so_far} is {kind_of(at)}, it has no [{part}]")
            if part >= len(at):
                raise ValueError(f"{so_far} has {len(at)} entries: expected [0] to [{len(at) - 1}]")
        elif not isinstance(at, dict):
            raise ValueError(f"{so_far} is {kind_of(at)}, it has no '{part}'")
        elif not last and isinstance(path[depth + 1], int) and at.get(part) is None:
            near = nearest(part, [key for key in at if isinstance(key, str)])
            raise ValueError(f"{so_far} has no list '{part}'" + (f", did you mean '{near}'?" if near else ""))
        if last:
            at[part] = value
        elif isinstance(part, int):
            at = at[part]
        else:
            if at.get(part) is None:
                at[part] = {}
            at = at[part]


def kind_of(value: Any) -> str:
    """Kind of a mapping or list in words; any other value as such."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else show_value(value)
