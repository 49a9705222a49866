"""An application's wait for a node named in its asks.

Follows RegularContainerAllocator.canAssign (CapacityScheduler: missed opportunities) and
FSAppAttempt.getAllowedLocalityLevel, getAllowedLocalityLevelByTime (FairScheduler: levels).
"""

from __future__ import annotations

import msgspec

from schedulers.yarn.records import Ask, Level, SchedulerNode
from schedulers.yarn.vectors import single


class LocalityDelay(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of CapacityScheduler: node-locality-delay, rack-locality-additional-delay, -full-reset."""

    node: int = 40
    rack_additional: int = -1
    rack_full_reset: bool = True


def missed_before(level: Level, ask: Ask, nodes: int, delay: LocalityDelay) -> float:
    """Opportunities to be missed (strictly more) before a container of a level.

    A named node: none. Its rack: the delay or the number of nodes. Anywhere: open asks x share of the named nodes, rack
    and ANY counted with them; asks of ANY alone never wait.
    """
    if level is Level.NODE or (level is Level.OFF_SWITCH and len(ask.places) == 1):
        return -1
    if level is Level.RACK:
        return min(nodes, delay.node)
    if delay.rack_additional > -1:
        return min(nodes, delay.node + delay.rack_additional)
    factor = min(single(max(len(ask.places) - 1, 0) / nodes), 1.0)
    return min(nodes, single(ask.open * factor))


def is_asked(level: Level, ask: Ask, node: SchedulerNode) -> bool:
    """Whether the ask names the node or rack; a node counts only with its rack."""
    if level is Level.OFF_SWITCH:
        return True
    return ask.has(node.rack) and (level is Level.RACK or ask.has(node.id))


class LocalityLevels:
    """FSAppAttempt's allowedLocalityLevel and scheduling opportunities, per application and priority."""

    __slots__ = ("_level", "_missed", "_since")

    def __init__(self) -> None:
        self._level: dict[int, Level] = {}
        self._missed: dict[int, int] = {}
        self._since: dict[int, int] = {}

    def missed(self, priority: int) -> None:
        """FSAppAttempt.addSchedulingOpportunity."""
        self._missed[priority] = self._missed.get(priority, 0) + 1

    def count(self, priority: int) -> int:
        """FSAppAttempt.getSchedulingOpportunities."""
        return self._missed.get(priority, 0)

    def by_count(self, priority: int, nodes: int, node_share: float, rack_share: float) -> Level:
        """getAllowedLocalityLevel: a level lasts this share of the nodes; negative shares: no waiting."""
        if node_share < 0 or rack_share < 0:
            return Level.OFF_SWITCH
        level = self._level.setdefault(priority, Level.NODE)
        share = min(node_share if level is Level.NODE else rack_share, 1.0)
        if self._missed.get(priority, 0) > nodes * share:
            self._relax(priority, level)
        return self._level[priority]

    def by_time(self, priority: int, node_ms: int, rack_ms: int, now: int) -> Level:
        """getAllowedLocalityLevelByTime: a level lasts this long; negative times: no waiting."""
        if node_ms < 0 or rack_ms < 0:
            return Level.OFF_SWITCH
        if priority not in self._level:
            self._level[priority], self._since[priority] = Level.NODE, now
        level = self._level[priority]
        if now - self._since[priority] > (node_ms if level is Level.NODE else rack_ms):
            self._relax(priority, level)
            self._since[priority] = now
        return self._level[priority]

    def granted(self, priority: int, level: Level) -> None:
        """FSAppAttempt.allocate: a container nearer than allowed takes the level back to its own."""
        allowed = self._level.get(priority)
        if allowed is not None and _RANK[level] < _RANK[allowed]:
            self._level[priority] = level

    def _relax(self, priority: int, level: Level) -> None:
        if level is not Level.OFF_SWITCH:
            self._level[priority] = Level.RACK if level is Level.NODE else Level.OFF_SWITCH
            self._missed[priority] = 0


_RANK = {Level.NODE: 0, Level.RACK: 1, Level.OFF_SWITCH: 2}
