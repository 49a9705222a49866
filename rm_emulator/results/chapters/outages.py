"""Nodes out of use, noticed or not: room that a waiting job lacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from rm_emulator.results.chapters.diary import clock
from schedulers.core.events import Event, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.explain import show_quantities
from schedulers.core.model import Node
from schedulers.core.reasons import Reason
from schedulers.core.state import ClusterState, JobState
from schedulers.core.vectors import fits

#: Reasons that more nodes might end. For its turn, or at a limit, a job waits whatever room there is.
_OF_ROOM: Final = frozenset(
    {
        Reason.TOO_LARGE,
        Reason.NO_NODE_MATCHES,
        Reason.NO_NODES,
        Reason.HAS_RESERVATION,
        Reason.RESERVED,
        Reason.NO_ROOM,
        Reason.NO_ROOM_FOR_GANG,
        Reason.WAITS_FOR_OFFER,
    }
)
#: Kinds of faults that take a node out of use, as an adjective.
_STATES: Final = {"death": "dead", "silent": "unheard", "unhealthy": "unhealthy", "drain": "drained"}
#: Kinds of which nobody hears at once.
_UNHEARD: Final = {"death": "dies", "silent": "falls silent"}
#: At one instant faults begin before others end.
_BEGIN: Final = 0
_END: Final = 1
#: So many nodes are named.
_NAMED: Final = 3


class Outage(msgspec.Struct, frozen=True):
    """A fault of a node, as recorded by a run; times in ms, the end None for a fault for good."""

    node: str
    kind: str
    begin_ms: int
    end_ms: int | None


class Turn(msgspec.Struct, frozen=True):
    """A node is not heard from now on, or is heard again, and no fact tells. text: what the node does."""

    at: int
    node: str
    text: str
    silences: bool = False


class Outages:
    """Nodes out of use: by the facts, and by the record of faults where the run has one.

    state: of the replaying scheduler. faults: those of a node follow each other.
    """

    def __init__(self, state: ClusterState, faults: Iterable[Outage]) -> None:
        self._state = state
        turns = [(fault.begin_ms, _BEGIN, fault) for fault in faults if fault.kind in _STATES]
        turns += [(fault.end_ms, _END, fault) for _, _, fault in turns if fault.end_ms is not None]
        self._coming = deque(sorted(turns, key=lambda turn: turn[:2]))
        self._present: dict[str, Outage] = {}
        self._pending: list[Turn] = []
        self._out: dict[str, str] = {}  # those that were noticed: since when, in words
        self._specs: dict[str, Node] = {node.id: node.spec for node in state.nodes.values()}

    # -- time passes ------------------------------------------------------------------------------

    def unnoticed(self, before: int) -> Iterator[Turn]:
        """Turns before a time (ms) that nobody noticed at once; each is taken in when given."""
        pending, self._pending = self._pending, []
        for turn in chain(pending, self._pass(before, _BEGIN)):
            if turn.node not in self._out:
                yield turn

    def hear(self, event: Event) -> None:
        """Take in a fact, after the scheduler has heard the fact."""
        # Kept until the instant is over, since some faults are noticed at once; a node that is back tells of its loss.
        self._pending += self._pass(event.at, _END)
        if isinstance(event, NodeAdded | NodeChanged):
            self._specs[event.node.id] = event.node
        if isinstance(event, NodeAdded):
            self._out.pop(event.node.id, None)
            self._present.pop(event.node.id, None)
        elif isinstance(event, NodeRemoved | NodeLost):
            what = "lost" if isinstance(event, NodeLost) else "closed"
            self._out[event.node] = f"{what} since {clock(event.at)}"

    def _pass(self, until: int, rank: int) -> Iterator[Turn]:
        """Take in the beginnings and ends of faults before a rank of an instant, ms."""
        while self._coming and self._coming[0][:2] < (until, rank):
            at, kind, fault = self._coming.popleft()
            if kind == _BEGIN:
                self._present[fault.node] = fault
                if fault.kind in _UNHEARD:
                    yield Turn(at, fault.node, _UNHEARD[fault.kind], silences=True)
            elif self._present.get(fault.node) is fault:
                del self._present[fault.node]
                if fault.kind == "silent":
                    yield Turn(at, fault.node, "is heard again")

    # -- what is out ------------------------------------------------------------------------------

    def is_dead(self, node: str) -> bool:
        """Whether a node is dead, noticed or not."""
        return node in self._present and self._present[node].kind == "death"

    def ran_until(self, node: str, now: int) -> int:
        """Until when tasks of a node have run: to its death, or to the present."""
        return self._present[node].begin_ms if self.is_dead(node) else now

    def named(self, node: str) -> str:
        """A node, with the kind and the beginning of its fault as far as these are on record."""
        fault = self._present.get(node)
        return node if fault is None else f"{node} ({_STATES[fault.kind]} since {clock(fault.begin_ms)})"

    def lacking(self, job: JobState, reason: str) -> str:
        """Nodes out of use that could run a task of the job, as the end of a sentence on the reason of its wait."""
        if reason not in _OF_ROOM:
            return ""
        out = [
            self.named(node) if node in self._present else f"{node} ({heard})"
            for node, heard in self._out.items()
            if self._could_run(job, node)
        ]
        said = f"; out of use: {_listed(out)}" if out else ""
        unnoticed = [
            f"{self.named(node)}, {self._holds(node)}"
            for node, fault in self._present.items()
            if fault.kind in _UNHEARD and node not in self._out and self._could_run(job, node)
        ]
        return said + (f"; nobody has noticed yet: {_listed(unnoticed)}" if unnoticed else "")

    def _could_run(self, job: JobState, name: str) -> bool:
        node, places = self._specs.get(name), self._state.sizes.places
        return node is not None and any(
            fits(stage.demand, node.room) and places[stage.size].bars(name, node.labels, node.taints) is None
            for stage in map(job.stages.__getitem__, job.open)
        )

    def _holds(self, name: str) -> str:
        node = self._state.nodes[name]
        held = tuple(whole - free for whole, free in zip(node.spec.room, node.free, strict=True))
        if not any(held):
            return "which seems free"
        amounts = show_quantities(self._state.resources.show(held))
        return f"where {amounts} {'stays' if ' and ' not in amounts else 'stay'} held"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return " and ".join([*names[:_NAMED], *([f"{more} more"] if more > 0 else [])])
