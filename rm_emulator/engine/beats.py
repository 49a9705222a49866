"""Profiles with heartbeats: a node that beats reports what has ended there and is offered work."""

from __future__ import annotations

from typing import ClassVar

from rm_emulator.engine.calendar import END
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import OneScheduler
from rm_emulator.engine.features.disorder import Disorder
from rm_emulator.engine.masters import Masters
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.ring import Ring
from rm_emulator.engine.simulation import Simulation
from schedulers.core import keyed
from schedulers.core.events import Heartbeat, JobChanged


class Beats(Profile):
    """Nodes beat every interval from phases of their own, application masters call every interval of theirs.

    A node is in the ring while its beat could change something. One that was offered work and got none, though
    something that waits would fit, is parked: it beats again when anything has changed.

    answer_ms: what a master hears in a call takes effect so long after it. begin_ms: nobody beats before.
    sleeps_at_once: nodes leave the ring when nobody waits any more, not each at its next turn.
    """

    offers = "heartbeat"
    has_masters = True
    sleeps_at_once: ClassVar[bool] = False

    engine: Simulation

    def __init__(self, engine: Simulation, *, answer_ms: int = 0, begin_ms: int = 0) -> None:
        super().__init__(engine)
        control = engine.control
        assert isinstance(control, OneScheduler)  # nodes are offered to nobody else
        self.control = control
        config = engine.config
        self._ids = [node.id for node in config.nodes]
        phases = keyed.generator(engine.seed, "phases").integers(0, config.heartbeat_ms, len(self._ids)).tolist()
        self._disorder = engine.feature(Disorder)
        beat = self._hear_beat if self._disorder is None else self._beat_in_disorder
        self.ring = Ring(engine.calendar, phases, config.heartbeat_ms, beat, begin=begin_ms)
        self._unheard = self.control.unheard
        self.masters = Masters(engine, config.am_heartbeat_ms, answer_ms, self.report_later)
        self._skip = config.skip and not self.control.triggers.every_beat
        self._again = self.control.triggers.every_offer  # refused offers are made again
        self._ended: list[list[Container]] = [[] for _ in self._ids]
        self._unreported = 0  # containers in all of these
        self._parked: dict[int, None] = {}
        self._parked_version = -1

    def begin(self) -> None:
        """See Profile. A naive run lets every node beat for ever."""
        if not self._skip:
            self.ring.add_all(range(len(self._ids)))
        self.ring.arm()

    # -- application masters --------------------------------------------------------------------

    def arrived(self, job: Master) -> None:
        """See Profile. A master in a container of its own is asked for first."""
        if job.source.am:
            self.engine.tell(JobChanged(self.engine.calendar.now, job.name, (job.own_stage,)))

    def launch(self, container: Container) -> int:
        """See Profile. The master hears of the grant in its next call; its own container need not wait for that."""
        if container.stage == container.master.own_stage:
            return self.engine.calendar.now
        return self.masters.answer(container.master)

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """See Profile. A master that hears at once what it hears calls half an interval later, on average."""
        return config.am_heartbeat_ms / 2

    def stage_ended(self, job: Master, stage: int) -> None:
        """See Profile. The master asks for the next stages when what it hears in its next call takes effect."""
        self.masters.ask(job, job.opened(stage), self.masters.answer(job))

    def master_started(self, container: Container) -> None:
        """See Profile."""
        self.masters.register(container)

    def finish_if_over(self, job: Master) -> None:
        """See Profile. A master in a container of its own ends the job."""
        if job.container is not None:
            self.masters.unregister(job)
        elif not job.state.left:
            self.engine.finish(job)

    # -- who beats ------------------------------------------------------------------------------

    def offer(self) -> None:
        """See Profile."""
        self._wake()
        self.ring.arm()

    def _wake(self) -> None:
        """Nodes that could now be given something beat."""
        if not self._skip:
            return
        control = self.control
        if self._unheard.at < len(self._unheard.entries):
            self.ring.add_all(control.woken())
        if control.urged:
            self.ring.add_all([index for index, name in enumerate(self._ids) if name in control.urged])
        elif self.sleeps_at_once and not self._unreported and not control.active:
            self.ring.clear()
        if self._parked and control.version != self._parked_version:
            self.ring.add_all(self._parked)
            self._parked.clear()

    def freed(self, node: int | None) -> None:
        """See Profile."""
        if node is not None:
            self.ring.add(node)
        else:
            could_place = self.control.could_place
            self.ring.add_all([index for index, name in enumerate(self._ids) if could_place(name)])

    def report_later(self, container: Container) -> None:
        """The next beat of its node reports the end."""
        self._ended[container.index].append(container)
        self._unreported += 1
        self.ring.add(container.index)

    def report(self, container: Container) -> None:
        """A beat reports an end."""
        self.engine.tell_end(container)

    # -- a beat ---------------------------------------------------------------------------------

    def _beat_in_disorder(self, node: int) -> None:
        """A node's turn to beat; it may be heard late, or twice."""
        assert self._disorder is not None
        delays = self._disorder.deliveries()
        for delay in delays:
            if delay:
                self.engine.calendar.at(self.engine.calendar.now + delay, END, node, self._beat_late, node)
        if 0 in delays:
            self._hear_beat(node)
        elif self._skip:
            self.ring.discard(node)  # the late beat decides whether the node beats on

    def _beat_late(self, node: int) -> None:
        self._hear_beat(node)
        self.engine.carry_on()

    def _hear_beat(self, node: int) -> None:
        """A node reports what has ended and is offered work."""
        engine, name = self.engine, self._ids[node]
        version = self.control.version
        ended = self._ended[node]
        if self._skip and not ended and not self.control.could_place(name):
            self.ring.discard(node)
            return  # nobody waits for what is free here: the beat would change nothing
        if ended:
            self._ended[node] = []
            self._unreported -= len(ended)
            for container in ended:
                self.report(container)
        engine.ask(Heartbeat(engine.calendar.now, name))
        self._settle(node, changed=self.control.version != version)

    def _settle(self, node: int, *, changed: bool) -> None:
        """After a beat: does the node beat on?"""
        if not self._skip:
            if not self.is_patient(changed=changed):
                self.ring.clear()
            return
        control = self.control
        if not control.could_place(self._ids[node]):
            self.ring.discard(node)
        elif changed or (self._again and self.is_patient(changed=False)):
            self.ring.add(node)
        else:
            self.ring.discard(node)
            self._parked[node] = None
            self._parked_version = control.version
        if changed:
            self._wake()
