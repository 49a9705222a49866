"""Executor classes: which sizes of nodes there are to choose among (Decima, SIGCOMM'19, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from schedulers.core.resources import Vector
    from schedulers.core.state import NodeState

#: Of more capacities than these none is a class: each node is then nearly one of its own.
MOST: Final = 8


class Classes(msgspec.Struct, frozen=True, eq=False):
    """Nodes by capacity, the smallest class first.

    parts: how large each class is beside the largest, by the resource of which it has least; in (0, 1].
    of: by node its class.
    """

    parts: tuple[float, ...]
    of: dict[str, int]


def classes_of(nodes: Iterable[NodeState]) -> Classes | None:
    """The classes of a cluster; None where there is nothing to choose among: one class, or more than MOST."""
    found: dict[Vector, list[str]] = {}
    for node in nodes:
        found.setdefault(tuple(node.spec.capacity), []).append(node.id)
        if len(found) > MOST:
            return None
    if len(found) < 2:
        return None
    largest = [max(each) for each in zip(*found, strict=True)]
    parts = {each: min(own / most for own, most in zip(each, largest, strict=True) if most) for each in found}
    ordered = sorted(found, key=lambda capacity: (parts[capacity], capacity))
    of = {name: number for number, capacity in enumerate(ordered) for name in found[capacity]}
    return Classes(tuple(parts[capacity] for capacity in ordered), of)
