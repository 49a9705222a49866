"""Architecture `decentralised`: messages between schedulers and workers, and nothing that sees the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import msgspec

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import BEAT, TICK
from rm_emulator.engine.config import Decentralised as Settings
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Profile, architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Workload
from schedulers.core.decisions import Hold, Send
from schedulers.core.events import Delivered, Event, JobCancelled, JobChanged
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector

_index = attrgetter("index")
#: Waiting helps against none of these.
_NEVER: Final = frozenset({Reason.TOO_LARGE, Reason.NO_NODE_MATCHES, Reason.NO_NODES})


@architectures.register("decentralised", source="Sparrow (SOSP 2013)")
class Decentralised(Profile):
    """Sparrow (SOSP 2013): every message takes the same time, and what has arrived is acted upon at once.

    At one instant tasks end first (workers as they were declared), then messages are heard in the order in which they
    were sent, then jobs that have come are looked at, one after the other.
    """

    offers = "cycle"
    prompt = True

    engine: Simulation

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        settings = engine.config.architecture
        assert isinstance(settings, Settings)
        self._delay = settings.message_ms
        self._under_way: deque[Event] = deque()  # what is sent, as it will be heard
        self._ends: dict[int, list[Container]] = {}  # what ends when
        self._given_up: dict[str, Master] = {}
        engine.obeys[Send] = self._send
        engine.at_end = self._at_end
        engine.obeys[Hold] = self._held

    @classmethod
    def settled(cls, config: EngineConfig, workload: Workload) -> EngineConfig:
        """The nodes with their slots: as many as were asked for, or as tasks fit, of whichever stage fewest do.

        Raises ValueError where more were asked for than fit.
        """
        settings = config.architecture
        assert isinstance(settings, Settings)
        demands = {stage.demand: (job.job.id, stage.name) for job in workload.jobs for stage in job.job.stages}
        nodes = []
        for node in config.nodes:
            fitting = {demand: n for demand in demands if (n := _times(demand, node.room))}
            least = min(fitting.values(), default=0)
            slots = settings.slots_per_worker
            if slots is not None and fitting and slots > least:
                job, stage = demands[min(fitting, key=fitting.__getitem__)]
                raise ValueError(
                    f"{slots} slots per worker, but node '{node.id}' has room for {least} task"
                    f"{'' if least == 1 else 's'} of job '{job}' stage '{stage}'"
                )
            nodes.append(msgspec.structs.replace(node, slots=least if slots is None else slots))
        return msgspec.structs.replace(config, nodes=tuple(nodes))

    def _send(self, decision: Send) -> None:
        self._post(Delivered(self.engine.calendar.now + self._delay, decision.message))

    def _post(self, fact: Event) -> None:
        """Put a message on its way. Every message takes equally long, so messages arrive in the order of sending."""
        line = self._under_way
        if not line or line[-1].at < fact.at:
            self.engine.calendar.at(fact.at, BEAT, 1, self._arrive)
        line.append(fact)

    def _arrive(self, _: None) -> None:
        line, now, tell = self._under_way, self.engine.calendar.now, self.engine.tell
        while line and line[0].at == now:
            tell(line[0])
            line.popleft()  # only now, so that what is sent meanwhile without a delay is heard in this turn

    def arrived(self, job: Master) -> None:
        """See Profile. A job is looked at when no message of the instant is left."""
        now = self.engine.calendar.now
        self.engine.calendar.at(now, TICK, job.number, self.engine.tell, JobChanged(now, job.name, tuple(job.roots)))

    def stage_ended(self, job: Master, stage: int) -> None:
        """See Profile. The job's scheduler hears of it by a message, and looks for workers for what follows."""
        if opened := job.opened(stage):
            self._post(JobChanged(self.engine.calendar.now + self._delay, job.name, tuple(opened)))

    def _held(self, hold: Hold) -> None:
        """A job of which a stage fits no worker is given up: nothing more of it starts."""
        engine = self.engine
        if hold.reason in _NEVER and hold.job not in self._given_up:
            why = engine.control.explain(hold.job).reasons[0].sentence
            job = self._given_up[hold.job] = engine.jobs[hold.job]
            engine.tell(JobCancelled(engine.calendar.now, hold.job, f"given up: {why}"))
            self.finish_if_over(job)

    def finish_if_over(self, job: Master) -> None:
        """See Profile. A job that was given up is over when nothing of it runs."""
        if job.name not in self._given_up:
            super().finish_if_over(job)
        elif not job.state.running:
            del self._given_up[job.name], self.engine.jobs[job.name]
            self.engine.record.job(containers.result(job, None))
            if not job.lasts:
                self.engine.one_is_over()

    def _at_end(self, when: int, rank: int, key: int, callback: Callable[[Any], object], value: Any = None) -> None:
        """Tasks that end at one instant are one entry of the calendar; workers in the order of their declaration."""
        there = self._ends.get(when)
        if there is None:
            self._ends[when] = [value]
            self.engine.calendar.at(when, rank, 0, self._all_over, callback)
        else:
            there.append(value)

    def _all_over(self, over: Callable[[Any], object]) -> None:
        for container in sorted(self._ends.pop(self.engine.calendar.now), key=_index):
            over(container)

    def ended(self, container: Container) -> bool:
        """See Profile. The worker hears of it at once."""
        self.engine.count(container)
        self.engine.tell_end(container)
        return False  # nothing is ever on offer

    def offer(self) -> None:
        """See Profile. Nothing is ever on offer: workers take what waits with them."""


def _times(demand: Vector, room: Vector) -> int:
    """How often a demand fits."""
    return min((there // part for part, there in zip(demand, room, strict=True) if part), default=0)
