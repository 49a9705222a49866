"""Executor classes: the sizes of nodes among which a policy chooses (Decima, SIGCOMM'19, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from schedulers.core.resources import Vector
    from schedulers.core.state import NodeState

#: Largest number of executor classes. With more capacities than that nearly every node would be a class of its own.
MOST: Final = 8


class Classes(msgspec.Struct, frozen=True, eq=False):
    """Nodes by capacity, the smallest class first."""

    parts: tuple[float, ...]
    """Size of each class compared with the largest class, by the resource with the smallest share; in (0, 1]."""
    of: dict[str, int]
    """Class of each node, by name."""


def classes_of(nodes: Iterable[NodeState]) -> Classes | None:
    """The classes of a cluster; None where there is no choice: one class, or more than MOST."""
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
