"""Profiles with heartbeats: a node that beats reports the ends of its tasks and is offered work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rm_emulator.engine.calendar import END
from rm_emulator.engine.config import EngineConfig, Faults
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import OneScheduler
from rm_emulator.engine.features.disorder import DisorderFeature
from rm_emulator.engine.masters import Masters
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.ring import Ring
from rm_emulator.engine.simulation import Simulation
from schedulers.core import keyed
from schedulers.core.events import Heartbeat, JobChanged


class Beats(Profile):
    """Nodes beat every interval from phases of their own, application masters call every interval of theirs.

    A node is in the ring while its beat could change something. A node that was offered work and got none, although
    a waiting task would fit, is parked until anything changes.

    `answer_ms`: time from an application master's call to its effect, ms. `begin_ms`: time of the first beats, ms.
    """

    offers = "heartbeat"
    has_masters = True
    settle_ms = 10_000
    """Source: hadoop-yarn 3.3, yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms."""
    sleeps_at_once: ClassVar[bool] = False
    """Whether all nodes leave the ring with the last waiting task, instead of each at its next turn."""

    engine: Simulation

    def __init__(self, engine: Simulation, *, answer_ms: int = 0, begin_ms: int = 0) -> None:
        super().__init__(engine)
        control = engine.control
        assert isinstance(control, OneScheduler)  # nodes are offered to nobody else
        self.control = control
        config = engine.config
        self._ids = [node.id for node in config.nodes]
        phases = keyed.generator(engine.seed, "phases").integers(0, config.heartbeat_ms, len(self._ids)).tolist()
        self._disorder = engine.feature(DisorderFeature)
        self._beat = beat = self._hear_beat if self._disorder is None else self._beat_in_disorder
        self._idle_beats = self.control.idle_beats
        idle = self._beats_pass if self._disorder is None and self._idle_beats is not None else None
        self._idle = idle
        self.ring = Ring(
            engine.calendar, phases, config.heartbeat_ms, beat, begin=begin_ms, idle=idle, let_pass=self._let_pass
        )
        self._unheard = self.control.woken_sizes
        self.masters = Masters(engine, config.am_heartbeat_ms, answer_ms, self.report_later)
        self._skip = config.skip and not self.control.triggers.every_beat
        self._again = self.control.triggers.every_offer  # refused offers are made again
        self._ended: list[list[Container]] = [[] for _ in self._ids]
        self._unreported = 0  # containers in all of these
        self._parked: dict[int, None] = {}
        self._parked_version = -1

    def begin(self) -> None:
        """Put nodes on the ring; a naive run lets every node beat for ever."""
        if not self._skip:
            self.ring.add_all(range(len(self._ids)))
        self.ring.arm()

    def take_over(self, former: Profile) -> None:
        """Let nodes beat and masters call at the same times as before."""
        assert isinstance(former, Beats)  # of the same cluster
        # Phases change during a run: a beat out of band begins a new interval.
        self.ring.take_phases(former.ring)
        for job in self.engine.jobs.values():
            self.masters.take_over(job)
        for container in self.engine.containers.values():
            # The report was left to a beat of the former ring.
            if container.has_ended:
                self.report_later(container)
        self.ring.arm()

    # -- application masters --------------------------------------------------------------------

    def arrived(self, job: Master) -> None:
        """Ask for the container of an application master first, before any task."""
        if job.source.am:
            self.engine.tell(JobChanged(self.engine.calendar.now, job.name, (job.master_stage,)))

    def launch(self, container: Container) -> int:
        """Start a task after the master's next call; the master's own container starts at once."""
        if container.stage == container.master.master_stage:
            return self.engine.calendar.now
        return self.masters.answer(container.master)

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """Half an interval of calls, the mean wait of a grant for the master's next call."""
        return config.am_heartbeat_ms / 2

    def stage_ended(self, job: Master, stage: int) -> None:
        """Let the master ask for the next stages after its next call."""
        self.masters.ask(job, job.end_stage(stage), self.masters.answer(job))

    def master_started(self, container: Container) -> None:
        """Let the master register, and ask for its first stages."""
        self.masters.register(container)

    def finish_if_over(self, job: Master) -> None:
        """End the job, through the master where the master has a container of its own."""
        if job.container is not None:
            self.masters.unregister(job)
        elif not job.state.left:
            self.engine.finish(job)

    # -- nodes that beat ------------------------------------------------------------------------------

    def offer(self) -> None:
        """Wake nodes, then enter the next beat on the calendar."""
        self._wake()
        self.ring.arm()

    def _wake(self) -> None:
        """Put nodes on the ring that could now be given work."""
        if not self._skip:
            return
        control = self.control
        # The length of the list first: the question comes after every fact, and mostly nothing is new.
        if self._unheard.at < len(self._unheard.entries):
            self.ring.add_all(control.woken_nodes())
        if control.urged_nodes:
            self.ring.add_all([index for index, name in enumerate(self._ids) if name in control.urged_nodes])
        # Without waiting tasks a beat changes nothing, and a ring of sleepers costs nothing.
        elif self.sleeps_at_once and not self._unreported and not control.waiting_sizes:
            self.ring.clear()
        # Any change may let a parked node be served, so all parked nodes try once.
        if self._parked and control.version != self._parked_version:
            self.ring.add_all(self._parked)
            self._parked.clear()

    def freed(self, node: int | None) -> None:
        """Put the node on the ring, or all nodes with room for a waiting task."""
        if node is not None:
            self.ring.add(node)
        else:
            # Only nodes with room for a waiting task, since a beat of any other would be skipped.
            could_place = self.control.could_place
            self.ring.add_all([index for index, name in enumerate(self._ids) if could_place(name)])

    @classmethod
    def notices(cls, faults: Faults, at: int) -> tuple[int, int]:
        """At the first check, three in each expiry interval, beyond 600 s without a beat.

        Source: hadoop-yarn 3.3, AbstractLivelinessMonitor, whose checks are taken to begin with the run.
        """
        expiry = 600_000 if faults.noticed_after_ms is None else faults.noticed_after_ms
        check = max(1, expiry // 3)
        return (at + expiry) // check * check + check, faults.evicted_after_ms or 0

    def silenced(self, node: int) -> None:
        """Let the node beat no more, after a last report."""
        self._hear_reports(node)
        self.ring.mute(node)

    def heard_again(self, node: int) -> None:
        """Let the node beat again, from its next turn on."""
        self.ring.unmute(node)

    def report_later(self, container: Container) -> None:
        """Leave the report of an end to the next beat of the node."""
        self._ended[container.index].append(container)
        self._unreported += 1
        self.ring.add(container.index)

    def report(self, container: Container) -> None:
        """Report an end in a beat."""
        self.engine.tell_end(container)

    def has_reached(self, container: Container, at: int) -> bool:
        """Whether the master had taken the grant in a call before."""
        job = container.master
        return container.stage == job.master_stage or self.masters.answer(job, container.granted_ms) < at

    def back(self, *, recovered: bool) -> None:
        """See Profile.back; phases stay."""
        if not recovered:
            self._ended, self._unreported = [[] for _ in self._ids], 0
        self.ring.begin_anew(self._hear_reports, None)

    def ready(self) -> None:
        """See Profile.ready."""
        self.ring.begin_anew(self._beat, self._idle)
        self.freed(None)

    # -- a beat ---------------------------------------------------------------------------------

    def _beat_in_disorder(self, node: int) -> None:
        """Take a node's turn to beat under disorder; the beat may be heard late, or twice."""
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
        """Hear a beat: the node reports ends and is offered work."""
        engine, name = self.engine, self._ids[node]
        version = self.control.version
        ended = self._ended[node]
        if self._skip and not ended and not self.control.could_place(name):
            self.ring.discard(node)
            return  # no waiting task fits the free room: the beat would change nothing
        if ended:
            self._hear_reports(node)
        # Fast path: most ends leave nothing to start, and the beat that told of the end changes nothing more.
        if self._idle is not None and self._idle():
            self._let_pass(((engine.calendar.now, node),))
            return
        engine.ask(Heartbeat(engine.calendar.now, name))
        self._settle(node, changed=self.control.version != version)

    def _hear_reports(self, node: int) -> None:
        """Hear of the ends on a node."""
        # Emptied before the reports: a report may enter further ends of the same node.
        ended, self._ended[node] = self._ended[node], []
        self._unreported -= len(ended)
        for container in ended:
            self.report(container)

    def _beats_pass(self) -> bool:
        """Whether beats change nothing before the next entry of the calendar: no report, no count."""
        # Only while the engine is busy, since else beats are counted, until the run has stalled.
        assert self._idle_beats is not None
        return not self._unreported and self._idle_beats.may_pass and self.engine.is_busy

    def _let_pass(self, beats: Sequence[tuple[int, int]]) -> None:
        """Hear beats, each a time and a node, that change nothing."""
        # One by one, a cluster's idle beats would be nine of ten facts, and most of the run.
        names = self._ids
        assert self._idle_beats is not None
        self._idle_beats.take_in([Heartbeat(at, names[node]) for at, node in beats])
        self.engine.facts += len(beats)
        self._idle_offers = 0

    def _settle(self, node: int, *, changed: bool) -> None:
        """Decide after a beat whether the node stays on the ring."""
        if not self._skip:
            if not self.is_patient(changed=changed):
                self.ring.clear()
            return
        control = self.control
        if not control.could_place(self._ids[node]):
            self.ring.discard(node)
        # Served, or counted as refused by a policy that counts: the next offer may differ.
        elif changed or (self._again and self.is_patient(changed=False)):
            self.ring.add(node)
        else:
            self.ring.discard(node)
            self._parked[node] = None
            self._parked_version = control.version
        if changed:
            self._wake()
