"""From plain wishes to STRL: the ways to run a stage, and the expression with the worth of each way.

TetriSched (EuroSys'16), section 4.4 and table 1: a way is a set of nodes with a run time; a gang takes all its nodes or
none (nCk), any other stage as many as there are (LnCk), in each slice of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from schedulers.core.model import Wish, Wishes
from schedulers.planning.tetrisched.strl import Choose, Expression, Linear, Max, UpTo

#: The set of all nodes.
ANY: Final = "any"


class Way(NamedTuple):
    """A way to run a stage. alone: not together with other ways (all tasks in the same rack)."""

    device: str = ""
    rack: str = ""
    spread: bool = False
    worth: float = 1.0
    slowdown: float = 1.0
    alone: bool = False

    @property
    def nodes(self) -> str:
        """The name of its set of nodes."""
        parts = [self.device, f"rack/{self.rack}" if self.rack else "", "spread" if self.spread else ""]
        return "/".join(part for part in parts if part) or ANY

    def describe(self, count: int) -> str:
        """So many places, in words."""
        where = f"{self.device} nodes" if self.device else "nodes" if self.rack else "any nodes"
        rack = f" in rack {self.rack}" if self.rack else ""
        return f"{count} {'place' if count == 1 else 'places'} on {where}{rack}{', one a node' if self.spread else ''}"


def ways(wishes: Wishes | None, racks: Sequence[str], preferences: str = "soft") -> list[Way]:
    """Wished ways, in the order written; anywhere without wishes. racks: candidates where all tasks share a rack.

    preferences: 'soft' all wished ways, 'hard' the way with the most worth, 'none' as if there were no wishes.
    """
    prefer = wishes.prefer if wishes is not None and preferences != "none" else ()
    if preferences == "hard" and prefer:
        prefer = (max(prefer, key=lambda wish: wish.worth),)
    return [way for wish in prefer for way in _ways(wish, racks)] or [Way()]


def _ways(wish: Wish, racks: Sequence[str]) -> list[Way]:
    way = Way(wish.device, wish.rack, wish.spread, wish.worth, wish.slowdown)
    if not wish.same_rack or wish.rack:
        return [way._replace(alone=wish.same_rack)]
    return [way._replace(rack=rack, alone=True) for rack in racks]


class WishExpression(NamedTuple):
    """An expression, and the way of each of its leaves in the order written."""

    wants: Expression
    ways: tuple[Way, ...]


def wish_expression(
    there: Mapping[Way, tuple[str, int]],
    tasks: int,
    *,
    gang: bool,
    starts: Collection[int] | None,
    worth: Callable[[Way, int], float],
) -> WishExpression | None:
    """So many tasks of a stage in any of some ways; None where nothing is worth anything.

    there: the ways, each with the name of its set of nodes and the time of a task there. starts: possible times of the
    start, None: now, in space alone (alsched). worth: of all tasks, by the time of their end (0 in space alone).
    """
    kind = Choose if gang else Linear
    together: list[tuple[Way, Expression]] = []
    apart: list[list[tuple[Way, Expression]]] = []
    for way, (nodes, dur) in there.items():
        leaves: list[tuple[Way, Expression]] = []
        for start in starts if starts is not None else (None,):
            v = worth(way, 0 if start is None else start + dur)
            if v > 0:
                leaves.append((way, kind(nodes, tasks, v, start, None if start is None else dur)))
        if not way.alone:
            together += leaves
        elif leaves:
            apart.append(leaves)
    groups = ([together] if together else []) + apart
    if not groups:
        return None
    of = tuple(way for group in groups for way, _ in group)
    if gang:
        return WishExpression(_one(Max, [leaf for group in groups for _, leaf in group]), of)
    parts: list[Expression] = [
        UpTo(tasks, tuple(leaf for _, leaf in group)) if len(group) > 1 else group[0][1] for group in groups
    ]
    return WishExpression(_one(Max, parts), of)


def _one(operator: type[Max], parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else operator(tuple(parts))
