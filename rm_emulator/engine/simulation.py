"""The emulated resource manager: it turns decisions into simulated time and time into facts.

Decisions become starts and ends on the calendar; every fact goes to who decides (a `Scheduler`), which alone
does. When facts are heard and decisions take effect is the profile's affair (`profile.py`). The engine knows the true
run times; whoever decides never sees them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from rm_emulator.engine import containers, execution
from rm_emulator.engine.calendar import ARRIVE, ASK, END, START, TICK, Calendar
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import PATIENCE, Control, OneScheduler, Scheduling, Stalled
from rm_emulator.engine.disorder import DisorderDraws
from rm_emulator.engine.execution import ByNode, Distances, Execution, WavesOf
from rm_emulator.engine.known import profile, with_trait
from rm_emulator.engine.overbooking import SharedNodes, Sharers, overrun
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.recording import NullRecording, Recording
from rm_emulator.workload.model import Fixed, PerNode, Workload
from schedulers.core import keyed
from schedulers.core.copies import COPY
from schedulers.core.decisions import Copy, Decision, Move, Place, Preempt
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Estimated,
    Event,
    HistoryPrimed,
    JobSubmitted,
    LinksSet,
    NodeAdded,
    QueueChanged,
    Tick,
)

#: Why no data moves between executors that outlive tasks.
NO_LINKS: Final = "links do not go with executors that outlive tasks: what waits for data holds a container of its own"
#: Why services need room of their own.
NO_SERVICES: Final = "services go neither with executors that outlive tasks nor with nodes that are overbooked"
#: Exit code of a preempted container (YARN).
PREEMPTED: Final = -102
_SAMPLE: Final = 15  # every 16th decision is timed
_REPORT_TASKS: Final = 512
_YOUNG: Final = 100_000


class Simulation:
    """One run of a workload on a cluster under one that decides.

    waves_of: looks up measured wave profiles. oracle: send the true means as `Estimated` before each job.
    progress: called now and then with the number of finished tasks.
    After `run`: end_ms, finished_tasks, decision_ns (a sample of wall times of rounds), facts (handled), locality.

    For profiles and execution models: jobs and containers that live; obeys, which says who carries out a decision;
    at_end, which enters the end of a task on the calendar.
    """

    def __init__(
        self,
        config: EngineConfig,
        workload: Workload,
        control: Scheduling | Control,
        record: Recording | None = None,
        *,
        seed: int = 0,
        waves_of: WavesOf | None = None,
        oracle: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        _check(config, workload)
        config = config.when.settled(config, workload)
        self.config, self.workload, self.seed = config, workload, seed
        self.control = control if isinstance(control, Control) else OneScheduler(control)
        self.record: Recording = record if record is not None else NullRecording()
        self._record_task, self._held = self.record.task, self.control.held
        self._next_change = self.control.next_change
        self._oracle, self._progress = oracle, progress
        self.disorder = DisorderDraws(config.disorder, seed) if config.disorder is not None else None
        permute = config.disorder is not None and config.disorder.permute
        self.calendar = Calendar(keyed.generator(seed, "disorder", "order") if permute else None)
        self.at_end, self._execution = self.calendar.at, Execution(config, seed, waves_of)
        self._draws_startup = config.startup != Fixed(0)
        self._delays = self._draws_startup or self.disorder is not None
        # Where no data takes time, nobody waits for any.
        takers = any(stage.takes_data for source in workload.jobs for stage in source.job.stages)
        self._moves_data = config.links is not None and takers
        self._distances = Distances(config.nodes, workload.remote)
        excess = overrun(workload)
        shares = excess or any(any(node.slack) for node in config.nodes)
        self.shared = SharedNodes(self.calendar, Sharers(config.nodes, excess), self.over) if shares else None
        self._index = {node.id: i for i, node in enumerate(config.nodes)}
        self._speeds = [node.speed for node in config.nodes]
        # Where no node is faster, no task has input and none minds its gang, a run time is the same on every node.
        near = all(source.apart == 1.0 and not any(s.hosts for s in source.job.stages) for source in workload.jobs)
        related = not any(isinstance(times, PerNode) for source in workload.jobs for times in source.runtimes)
        self._alike = near and related and all(speed == 1.0 for speed in self._speeds)
        self.jobs: dict[str, Master] = {}
        self.containers: dict[int, Container] = {}
        self.obeys: dict[type[Decision], Callable[[Any], None]] = {Place: self._place, Preempt: self._kill}
        self._copies = self.control.copies
        if self._copies:
            self.obeys[Copy] = self._copy
        self._next_job = self._idle_periods = 0
        self._lasting = 0  # containers of services that run
        self._batch_left = sum(1 for source in workload.jobs if source.job.kind == "batch")
        self._has_services = self._batch_left < len(workload.jobs)
        self._coming = 0  # facts on the calendar that are sure to come
        self._until: int | None = None
        self._due: int | None = None  # when time alone changes what is decided, as said last
        self._idle_turns = 0  # in a row, of time alone
        self.profile: Profile = config.when(self)
        self._ended, self._launches = self.profile.ended, self.profile.launch
        if self.profile.prompt and not (self._delays or self._moves_data):
            self._launch = self._started  # type: ignore[method-assign]
        self._runs = self.profile.runs if type(self.profile).runs is not Profile.runs else None
        self.end_ms = self.finished_tasks = self.facts = 0
        self.decision_ns: list[int] = []

    @property
    def locality(self) -> dict[str, float] | None:
        """Shares of the tasks with input that ran on a node with it, in a rack with it, elsewhere; None: no such."""
        counts = self._distances.counts
        total = sum(counts)
        return {name: n / total for name, n in zip(("node", "rack", "off"), counts, strict=True)} if total else None

    @property
    def finished_jobs(self) -> int:
        """Of those that have arrived."""
        return self._next_job - len(self.jobs)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs, or is sure to be heard."""
        due = self._due is not None and self._idle_turns <= PATIENCE
        passing = len(self.containers) > self._lasting
        return bool(passing or self._coming or due or self._next_job < len(self.workload.jobs))

    # -- the run --------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> None:
        """From the first event to the last, or to `until` (ms). Raises Stalled when jobs can never finish.

        Services run until then, or until the last other job is over.
        """
        with few_collections():
            self.go(until)

    def go(self, until: int | None = None) -> None:
        """As `run`, with the garbage collector as it is: for a run that is left and gone on with (a coroutine)."""
        self._begin()
        self._until = until
        self.calendar.run(until)
        if self._has_services:
            self._end_services(until)
        self.record.finish(self.end_ms)
        if until is not None:
            for job in self.jobs.values():
                self.record.job(containers.result(job, None))
        elif self.jobs:
            self._explain_stall()

    def _end_services(self, until: int | None) -> None:
        """The run is over: what runs of services was there until now."""
        self.end_ms = self.calendar.now if until is None else until
        for container in self.containers.values():
            if container.master.lasts and container.started_ms is not None:
                container.master.work += self.end_ms - container.started_ms
                container.ended_ms = self.end_ms
                self._record_task(container)
        if until is None and not self._batch_left:
            for name in [name for name, job in self.jobs.items() if job.lasts]:
                self.record.job(containers.result(self.jobs.pop(name), None))

    def _begin(self) -> None:
        for queue in self.config.queues:
            self.tell(QueueChanged(0, queue))
        for node in self.config.nodes:
            self.tell(NodeAdded(0, node))
        if self.config.links is not None:
            self.tell(LinksSet(0, self.config.links))
        if self.workload.history:
            self.tell(HistoryPrimed(0, self.workload.history))
        if (period := self.control.triggers.period_ms) is not None:
            self.calendar.at(period, TICK, 1, self._period, period)
        self._expect_arrival()
        self.profile.begin()

    def _expect_arrival(self) -> None:
        """Only the next arrival is on the calendar, so that a long workload costs no memory there."""
        jobs = self.workload.jobs
        if self._next_job < len(jobs):
            self.calendar.at(jobs[self._next_job].submit_ms, ARRIVE, self._next_job, self._arrive, self._next_job)

    def _arrive(self, number: int) -> None:
        self._next_job = number + 1
        self._expect_arrival()
        source = self.workload.jobs[number]
        now, spec = self.calendar.now, source.job
        times = self._execution.stages(source)
        if source.am:
            spec = containers.with_master(spec, source.am)
        if self._oracle and spec.kind == "batch":
            self.tell(Estimated(now, spec.id, tuple(round(t.mean_ms) for t in times), execution.by_node(times)))
        decisions = self.handle(JobSubmitted(now, spec, "asked" if source.am else self.profile.asks))
        job = self.jobs[spec.id] = Master(source, number, times, self.control.job(spec.id))
        for index, stage in enumerate(spec.stages):
            self.record.demand(spec.id, index, stage.demand)
        self.obey(decisions)
        self.profile.arrived(job)
        self.carry_on()

    def _period(self, period: int) -> None:
        """A policy's own period; it ends with the last job, or when nothing has come of it for long."""
        version = self.control.version
        self.tell(Tick(self.calendar.now))
        busy = self.control.version != version or self.is_busy
        self._idle_periods = 0 if busy else self._idle_periods + 1
        arrivals = self._next_job < len(self.workload.jobs)
        if arrivals or (self.jobs and self._idle_periods <= PATIENCE):
            self.calendar.at(self.calendar.now + period, TICK, 1, self._period, period)
        self.carry_on()

    def _explain_stall(self) -> None:
        for job in self.jobs.values():
            self.record.job(containers.result(job, None))
        name = next(name for name, job in self.jobs.items() if not job.lasts)
        why = "; ".join(because.sentence for because in self.control.explain(name).reasons) or "no reason is known"
        raise Stalled(f"{len(self.jobs)} jobs can never finish; the first is '{name}': {why}")

    # -- facts ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Decision]:
        """Who decides hears a fact; its decisions are not carried out yet."""
        self.facts += 1
        return self.control.handle(event)

    def tell(self, event: Event) -> list[Decision]:
        """Tell a fact and do what is decided."""
        self.facts += 1
        decisions = self.control.handle(event)
        self.obey(decisions)
        return decisions

    def ask(self, event: Event) -> list[Decision]:
        """Tell a fact that offers something, and do what is decided; it is timed now and then."""
        self.facts += 1
        if self.facts & _SAMPLE:
            decisions = self.control.handle(event)
        else:
            started = time.perf_counter_ns()
            decisions = self.control.handle(event)
            self.decision_ns.append(time.perf_counter_ns() - started)
        self.obey(decisions)
        if self._next_change is not None:
            self._mind_the_clock(self._next_change)
        return decisions

    def later(self, at: int, rank: int, key: int, tell: Callable[[Any], None], about: Any) -> None:
        """At that time `tell(about)` tells facts. As long as any such are to come, nobody waits in vain."""
        self._coming += 1
        self.calendar.at(at, rank, key, self._now_due, (tell, about))

    def _now_due(self, due: tuple[Callable[[Any], None], Any]) -> None:
        tell, about = due
        self._coming -= 1
        tell(about)
        self.carry_on()

    def tell_completion(self, event: Event) -> list[Decision]:
        """Tell a completion; with disorder it is heard late, or twice."""
        if self.disorder is None:
            self.facts += 1
            decisions = self.control.handle(event)
            self.obey(decisions)
            return decisions
        for delay in self.disorder.deliveries():
            if delay == 0:
                self.tell(event)
            else:
                self.later(self.calendar.now + delay, END, 0, self._tell_late, event)
        return []

    def _tell_late(self, event: Event) -> None:
        self.tell(msgspec.structs.replace(event, at=self.calendar.now))
        for job in list(self.jobs.values()):
            self.profile.finish_if_over(job)
        self.profile.freed(None)

    def tell_end(self, container: Container) -> None:
        """Tell that a container has ended."""
        number, job = container.container, container.master
        del self.containers[number]
        ended = ContainerEnded(self.calendar.now, number, 0, container.runtime)
        if container is job.container:
            self.tell(ended)
            return
        self.tell_completion(ended)
        if self._copies and self._moves_data:
            self._hasten(job)
        self.profile.finish_if_over(job)

    def carry_on(self) -> None:
        """After the facts of one calendar entry."""
        if self.control.plans:
            for job, planned in self.control.new_plans():
                self.record.plan(job, self.calendar.now, planned)
        self.profile.offer()
        if self._next_change is not None:
            self._mind_the_clock(self._next_change)

    def _mind_the_clock(self, next_change: Callable[[], int | None]) -> None:
        """Be there when time alone changes what is decided; what was asked for an earlier time comes first."""
        due, now = next_change(), self.calendar.now
        if due is not None and now < due and (self._due is None or due < self._due):
            self._due = due
            self.calendar.at(due, ASK, 0, self._time_has_come, (due, self.control.version))

    def _time_has_come(self, entered: tuple[int, int]) -> None:
        """Whatever was refused is offered anew, as if room were given back; not for ever when nothing comes of it."""
        due, version = entered
        if due != self._due:
            return
        self._due = None
        busy = self.control.version != version or self.is_busy
        self._idle_turns = 0 if busy else self._idle_turns + 1
        if self._idle_turns <= PATIENCE:
            self.profile.freed(None)
            self.carry_on()

    # -- decisions ------------------------------------------------------------------------------

    def obey(self, decisions: Iterable[Decision]) -> None:
        """Carry decisions out."""
        for decision in decisions:
            obey = self.obeys.get(type(decision))
            if obey is not None:
                obey(decision)

    def _place(self, decision: Place) -> None:
        """A container is granted on a node: when will its task start?"""
        number, node, master = decision.container, decision.node, self.jobs[decision.job]
        container = self.containers[number] = Container(
            decision.job,
            decision.stage,
            decision.task,
            decision.attempt,
            node,
            number,
            self.calendar.now,
            None,
            0,
            self._held[number].pilot,
            0,
            self._index[node],
            master,
        )
        self._launch(container)

    def _copy(self, decision: Copy) -> None:
        """One more container is granted to a task."""
        container = self.contain(decision.container, decision.node, decision.job)
        container.take(decision, container.master, self.calendar.now, False)
        container.copy = True
        self._launch(container)

    def contain(self, number: int, node: str, job: str) -> Container:
        """A new container on its way to a job, without a task as yet."""
        made = containers.empty(number, node, self._index[node], self.jobs[job])
        self.containers[number] = made
        return made

    def grant(self, container: Container, decision: Move) -> None:
        """A container that is there is granted another task."""
        pilot = self._held[decision.container].pilot
        container.take(decision, self.jobs[decision.job], self.calendar.now, pilot)
        self._launch(container)

    def _launch(self, container: Container) -> None:
        start = self._launches(container)
        if self._delays:
            start = self.delayed(start, container.job, container.stage, container.task, container.attempt)
        if self._moves_data:
            container.ready = start
            start = max(start, self._arrival(container))
        self.calendar.at(start, START, container.container, self._started, container)

    def _arrival(self, container: Container) -> int:
        """When the data that its task takes is on the container's node; it waits there for it."""
        job, stage = container.master, container.stage
        if stage == job.own_stage or not job.source.job.stages[stage].takes_data:
            return 0
        container.arrived_ms = self.control.arrival(job.state, stage, container.node)
        return container.arrived_ms

    def _hasten(self, job: Master) -> None:
        """What the job's containers wait for is there sooner where a copy has made it meanwhile."""
        for container in self.containers.values():
            before = container.arrived_ms
            if container.master is not job or container.started_ms is not None or before is None:
                continue
            start = max(container.ready, self.calendar.now, self._arrival(container))
            if start < max(container.ready, before):
                self.calendar.at(start, START, container.container, self._started, container)

    def delayed(self, at: int, job: str, stage: int, task: int, attempt: int) -> int:
        """When what is launched at that time is there: after its start-up, and with disorder even later."""
        if self._draws_startup:
            at += self._execution.startup_ms(self.config.startup, job, stage, task, attempt)
        return at if self.disorder is None else at + self.disorder.lateness()

    def _kill(self, decision: Preempt) -> None:
        """A preempted container ends at once; its task will run again, unless it was a copy."""
        number = decision.container
        container = self.containers.get(number)
        if container is None or (container.started_ms is not None and container.ended_ms > container.started_ms):
            return  # it has ended by itself, which is yet to be heard
        del self.containers[number]
        if container.master.lasts and container.started_ms is not None:
            self._lasting -= 1
            container.master.work += self.calendar.now - container.started_ms
        self.leave(container)
        if decision.rule != COPY:
            container.master.failed += 1
        self.note(container, PREEMPTED)
        self.later(self.calendar.now + 1, END, number, self._tell_killed, container)

    def _tell_killed(self, container: Container) -> None:
        self.tell(ContainerEnded(self.calendar.now, container.container, PREEMPTED))
        self.profile.freed(container.index)

    # -- a task's life --------------------------------------------------------------------------

    def _started(self, container: Container) -> None:
        if container.container not in self.containers or (self._moves_data and container.started_ms is not None):
            return
        now = self.calendar.now
        self.facts += 1
        self.control.handle(ContainerStarted(now, container.container))
        self.start(container, now)

    def start(self, container: Container, now: int) -> None:
        """The task's first instant: its end is now a fact of the future."""
        job = container.master
        container.started_ms = now
        if self._has_services and job.lasts:
            self._lasting += 1
        if container.stage == job.own_stage:
            self.profile.master_started(container)
            return
        if job.first_start is None:
            job.first_start = now
        if self._has_services and job.lasts:
            job.begin(container, now)
            return
        runtime = job.times[container.stage].ms(container.task, job.state.executors, container.wave, container.attempt)
        if not container.copy:
            job.work += runtime
        if not self._alike:
            runtime = self._on_its_node(container, runtime)
        container.runtime = runtime if self._runs is None else self._runs(runtime)
        if self.shared is None:
            self.at_end(now + container.runtime, END, container.container, self.over, container)
        else:
            self.shared.start(container, job.source.uses(container.stage), container.runtime)

    def _on_its_node(self, container: Container, runtime: int) -> int:
        """A run time at the speed of the container's node, at its distances from the task's input and gang."""
        times = container.master.times[container.stage]
        if isinstance(times, ByNode):
            runtime = times.on(container.node, container.task)
        speed = 1.0 if isinstance(times, ByNode) else self._speeds[container.index]
        source = container.master.source
        stage = source.job.stages[container.stage]
        if source.apart != 1.0 and stage.gang:
            gang = (c.index for c in self.containers.values() if c.job == container.job and c.stage == container.stage)
            speed /= source.apart if self._distances.apart(gang) else 1.0
        container.distance = self._distances.of(stage, container.task, container.index) if stage.hosts else None
        if stage.hosts:
            return self._distances.stretched(runtime / speed, container.distance)
        return runtime if speed == 1.0 else max(1, round(runtime / speed))

    def over(self, container: Container) -> None:
        """The task's last instant, on its node."""
        if self.containers.get(container.container) is not container or container.started_ms is None:
            return
        container.ended_ms = self.calendar.now
        self._record_task(container)
        if container.distance is not None:
            self._distances.counts[container.distance] += 1
        if self._ended(container):
            self.carry_on()

    def leave(self, container: Container) -> None:
        """A container that is not over yet uses nothing of its node any more."""
        if self.shared is not None:
            self.shared.end(container)

    def note(self, container: Container, code: int = 0) -> None:
        """Record an attempt that ends now."""
        container.ended_ms, container.code = self.calendar.now, code
        self._record_task(container)

    def count(self, container: Container) -> None:
        """Whoever runs the job counts a finished task, whichever of its copies was first."""
        if self._copies:
            task, counted = (container.stage, container.task), container.master.counted
            if task in counted:
                return
            counted.add(task)
        self.finished_tasks += 1
        if self._progress is not None and self.finished_tasks % _REPORT_TASKS == 0:
            self._progress(self.finished_tasks)
        job, stage = container.master, container.stage
        job.left[stage] -= 1
        if not job.left[stage]:
            self.profile.stage_ended(job, stage)

    def finish(self, job: Master) -> None:
        """A job is over."""
        if self.jobs.pop(job.name, None) is not None:
            self.end_ms = self.calendar.now
            self.record.job(containers.result(job, self.end_ms))
            self.one_is_over()

    def one_is_over(self) -> None:
        """A job that was no service has ended, or was given up; with the last one the run ends, services or not."""
        self._batch_left -= 1
        if not self._batch_left and self._has_services and self._until is None:
            self.calendar.stop()


@contextmanager
def few_collections() -> Iterator[None]:
    """Python looks for circles of garbage after each 100,000 objects instead of 700: a run makes next to none."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _YOUNG) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _check(config: EngineConfig, workload: Workload) -> None:
    """Raises ValueError for what the profile does not have."""
    there = profile(config.profile)
    if config.executors is not None and not there.has_executors:
        raise ValueError(
            f"executors need the profile {with_trait('has_executors')}, this cluster has '{config.profile}'"
        )
    if config.links is not None and config.executors is not None:
        raise ValueError(NO_LINKS)
    if any(source.job.kind == "service" for source in workload.jobs) and (
        config.executors is not None or overrun(workload) or any(any(node.slack) for node in config.nodes)
    ):
        raise ValueError(NO_SERVICES)
    names = {node.id for node in config.nodes}
    for job in workload.jobs:
        for stage, times in zip(job.job.stages, job.runtimes, strict=True):
            if isinstance(times, PerNode) and (missing := names.difference(times.nodes)):
                raise ValueError(
                    f"job '{job.job.id}' stage '{stage.name}' has run times by node, but none for '{min(missing)}'"
                )
    if not there.has_masters and any(job.am for job in workload.jobs):
        raise ValueError(
            f"application masters have containers in profiles {with_trait('has_masters')}, not '{config.profile}'"
        )
