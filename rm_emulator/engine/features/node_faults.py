"""Faults of nodes: what happens to a node, and when the scheduler hears.

A node dies, falls silent, is found broken, is drained, or runs slowly. The scheduler hears facts alone: NodeRemoved
when a node gets no further containers, NodeLost when the containers of the node count as lost, NodeAdded when the node
is back. Until then a dead node seems to work: its room stays held, and its tasks seem to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rm_emulator.engine.calendar import FIRST
from rm_emulator.engine.config import NodeFault
from rm_emulator.engine.containers import Container
from rm_emulator.engine.control import PATIENCE
from rm_emulator.engine.faults import later_end, later_faults, node_faults
from rm_emulator.engine.features.checkpoints import Checkpoints
from rm_emulator.engine.features.disorder import DisorderFeature
from rm_emulator.engine.features.failing_masters import FailingMasters
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.preemptions import lose
from rm_emulator.engine.profile import Engine
from schedulers.core.containers import ABORTED
from schedulers.core.decisions import Preempt
from schedulers.core.events import NodeAdded, NodeLost, NodeRemoved

#: Nodes out of hearing: nothing passes between such a node and the outside.
_UNHEARD: Final = ("death", "silent")


@dataclass(slots=True, eq=False)
class _Out:
    """A node with a fault."""

    fault: NodeFault
    is_followed: bool = False
    """Whether what follows is on the calendar."""
    told: bool = False
    """Whether the scheduler has heard anything."""
    lost: bool = False
    """Whether the containers of before are lost."""
    begun: list[Container] = field(default_factory=list)
    """Containers that would have started since, were the node within hearing."""
    ended: list[Container] = field(default_factory=list)
    """Containers that have ended since, unheard."""
    preempted: list[Preempt] = field(default_factory=list)
    """Orders to end a container that the node has not heard."""


class NodeFaults(Feature):
    """Nodes that fail: their tasks end unheard or not at all, and the scheduler is told when somebody notices.

    A fault that begins while its node has another one is left out.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        assert engine.config.faults is not None
        self._faults, self._nodes = engine.config.faults, engine.config.nodes
        self._place = {node.id: index for index, node in enumerate(self._nodes)}
        self._out: dict[int, _Out] = {}
        self._to_come = 0  # entries of the calendar that tell something
        self._in_vain = 0  # faults while nothing runs, in a row
        # Replaced rather than hooked into: a run without faults has no test for each start and end.
        self._over, self._started, self._preempt = engine.over, engine.started, engine.actions[Preempt]
        engine.over, engine.started = self._ends, self._starts  # type: ignore[method-assign]
        engine.actions[Preempt] = self._preempts
        self._coming: Iterator[NodeFault] = node_faults(self._faults, self._nodes, engine.seed)
        self._expect()

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether nodes have faults."""
        faults = engine.config.faults
        return faults is not None and bool(faults.outages or faults.nodes is not None)

    def facts_to_come(self) -> bool:
        """Whether a loss will be noticed, or a node will be back, before the last job ends."""
        return self._to_come > 0 and not self._is_over

    def unheard_since(self, node: int) -> int | None:
        """Since when nothing is heard of a node, ms; None for a node within hearing."""
        out = self._out.get(node)
        return None if out is None or out.fault.kind not in _UNHEARD else out.fault.at_ms

    @property
    def _is_over(self) -> bool:
        engine = self.engine
        return not (engine.jobs or engine.containers or engine.arrivals.are_left)

    @property
    def present(self) -> list[NodeFault]:
        """The faults of the moment, noticed or not."""
        return [out.fault for out in self._out.values()]

    def redraw(self, draw: int) -> None:
        """Let faults come, and repairs end, as another draw has them; scheduled faults to come are not known."""
        engine, rates, seed, now = self.engine, self._faults.nodes, self.engine.seed, self.engine.calendar.now
        scheduled = frozenset(self._faults.outages)

        def when(at: int, callback: Any, value: Any) -> int | None:
            if callback == self.begin:
                return None
            if callback == self._due and value[0] == self._is_back:
                fault = value[1].fault
                if rates is not None and fault not in scheduled:
                    return later_end(rates, fault, seed, draw, now)
            return at

        engine.calendar.exchange(when)
        self._coming = iter(()) if rates is None else later_faults(rates, self._nodes, seed, draw, now)
        self._expect()

    # -- a fault from its beginning to its end ----------------------------------------------------

    def _expect(self) -> None:
        """Enter the next fault alone, since rates make faults without end."""
        if (fault := next(self._coming, None)) is not None:
            self.engine.calendar.at(fault.at_ms, FIRST, self._place[fault.node], self.begin, fault)

    def begin(self, fault: NodeFault) -> None:
        """Let a fault begin; what the manager hears of follows."""
        engine, node = self.engine, self._place[fault.node]
        # Counted, so that a run with jobs that can never finish ends in spite of endless faults, and of living masters.
        at_work = any(each.stage != each.master.master_stage for each in engine.containers.values())
        self._in_vain = 0 if at_work or engine.arrivals.are_left else self._in_vain + 1
        if self._is_over or self._in_vain > PATIENCE:
            return
        self._expect()
        if node in self._out:
            return
        out = self._out[node] = _Out(fault)
        engine.record.fault(fault)
        if fault.kind == "death" and (saving := engine.feature(Checkpoints)) is not None:
            saving.node_died(node)
        if fault.kind in _UNHEARD and (masters := engine.feature(FailingMasters)) is not None:
            masters.node_silenced(node)
        # An entry of its own, which waits while the manager is away.
        engine.calendar.at(fault.at_ms, FIRST, node, self._follow, out)

    def _follow(self, out: _Out) -> None:
        """Enter what follows from a fault that has begun."""
        engine, fault = self.engine, out.fault
        out.is_followed = True
        if fault.lasts_ms is not None:
            self._later(fault.at_ms + fault.lasts_ms, self._is_back, out)
        # Back already, or all is over, where the manager was away meanwhile.
        is_back = self._out.get(self._place[fault.node]) is not out
        if fault.kind == "slow" or out.lost or is_back or self._is_over:
            return
        noticed, lost = self._times(fault)
        if fault.kind in _UNHEARD:
            engine.profile.silenced(self._place[fault.node])
        if lost > noticed:
            self._later(noticed, self._notice, out)
        self._later(lost, self._lose, out)
        engine.carry_on()

    def count_silence_anew(self) -> None:
        """Let the manager, just back, wait for each silent node as long as if its silence began now."""
        for node, out in list(self._out.items()):
            if out.fault.kind in _UNHEARD and out.is_followed and not out.told:
                # In place of the former, of whom the entries on the calendar are void.
                self._out[node] = anew = replace(out)
                self._follow(anew)

    def lose_silent(self) -> None:
        """Lose all silent nodes, of which a manager without memory knows nothing."""
        for out in list(self._out.values()):
            if out.fault.kind in _UNHEARD and not out.lost:
                self._lose(out)

    def _times(self, fault: NodeFault) -> tuple[int, int]:
        """When the node gets no further containers, and when its containers are lost, ms."""
        faults = self._faults
        # Later than the fault only after a restart of the manager.
        at = fault.at_ms if self.engine.profile.has_leaders else self.engine.calendar.now
        noticed, evicted = self.engine.profile.notices(faults, at)
        if fault.kind in _UNHEARD:
            return noticed, noticed + evicted
        return at, at + (faults.drain_limit_ms if fault.kind == "drain" else evicted)

    def _later(self, at: int, tell: Callable[[_Out], None], out: _Out) -> None:
        """Call `tell(out)` at time `at`, now or later, unless the fault is over by then."""
        if at <= self.engine.calendar.now:
            tell(out)
            return
        self._to_come += 1
        self.engine.calendar.at(at, FIRST, self._place[out.fault.node], self._due, (tell, out))

    def _due(self, due: tuple[Callable[[_Out], None], _Out]) -> None:
        tell, out = due
        self._to_come -= 1
        if self._out.get(self._place[out.fault.node]) is out and not self._is_over:
            tell(out)
            self.engine.carry_on()

    def _notice(self, out: _Out) -> None:
        out.told = True
        self.engine.tell(NodeRemoved(self.engine.calendar.now, out.fault.node))
        self.engine.profile.closed(self._place[out.fault.node])

    def _lose(self, out: _Out) -> None:
        """Lose the node with its containers, unless a drained node is empty and gone."""
        engine, name = self.engine, out.fault.node
        node, out.lost, out.told = self._place[name], True, True
        # A node within hearing reports its ends first, and beats no more.
        engine.profile.silenced(node)
        if (disorder := engine.feature(DisorderFeature)) is not None:
            disorder.hear_all(name)
        for container in [each for each in engine.containers.values() if each.index == node]:
            lose(engine, container, ABORTED)
        if engine.control.has_node(name):
            engine.tell(NodeLost(engine.calendar.now, name))
        engine.profile.closed(node)
        if (masters := engine.feature(FailingMasters)) is not None:
            masters.node_lost(node)

    def _is_back(self, out: _Out) -> None:
        """Let the node take part again: empty, or with its containers where nothing was lost."""
        engine, fault = self.engine, out.fault
        node = self._place[fault.node]
        # A dead node comes back empty, noticed or not.
        if fault.kind == "death" and not out.lost:
            self._lose(out)
        del self._out[node]
        if fault.kind == "slow":
            return
        known = engine.control.has_node(fault.node)
        if out.told:
            engine.tell(NodeAdded(engine.calendar.now, self._nodes[node]))
        if not known:
            engine.control.node_is_back(fault.node, node)
        engine.profile.heard_again(node)
        if not out.lost and (masters := engine.feature(FailingMasters)) is not None:
            masters.node_heard(node)
        self._catch_up(out)
        engine.profile.freed(node)

    def _catch_up(self, out: _Out) -> None:
        """Carry out and tell what did not pass between a silent node and the outside."""
        if out.lost:
            return
        for container in out.begun:
            self._started(container)
        for container in out.ended:
            self._over(container)
        for decision in out.preempted:
            self._preempt(decision)

    # -- the life of a task on a node with a fault --------------------------------------------------

    def _starts(self, container: Container) -> None:
        out = self._out.get(container.index)
        if out is None or out.fault.kind not in _UNHEARD:
            self._started(container)
        else:
            out.begun.append(container)

    def _ends(self, container: Container) -> None:
        out = self._out.get(container.index)
        if out is None or out.fault.kind not in _UNHEARD:
            self._over(container)
        elif out.fault.kind == "silent":
            out.ended.append(container)

    def _preempts(self, decision: Preempt) -> None:
        container = self.engine.containers.get(decision.container)
        out = None if container is None else self._out.get(container.index)
        if out is None or out.fault.kind not in _UNHEARD:
            self._preempt(decision)
        else:
            out.preempted.append(decision)

    def run_time(self, container: Container, runtime: int) -> int:
        """Run time on a slow node, ms."""
        out = self._out.get(container.index)
        if out is None or out.fault.kind != "slow":
            return runtime
        return max(1, round(runtime * out.fault.times))
