"""The emulated resource manager: it turns decisions into simulated time and time into facts.

Decisions become starts and ends on the calendar, nodes beat, application masters ask; every fact goes
to the control (a `Scheduler`), which alone decides. The engine knows the true run times; the control
never sees them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from rm_emulator.engine.attempts import Attempt
from rm_emulator.engine.calendar import ARRIVE, ASK, END, START, TICK, Calendar
from rm_emulator.engine.config import Disorder, EngineConfig, Kubernetes
from rm_emulator.engine.control import Control, Stalled
from rm_emulator.engine.execution import Distances, Execution, WavesOf
from rm_emulator.engine.masters import Master, result
from rm_emulator.engine.overbooking import Sharers, overrun
from rm_emulator.engine.recording import Nothing, Recording
from rm_emulator.engine.ring import Ring
from rm_emulator.workload.model import Fixed, Workload
from schedulers.core import keyed
from schedulers.core.decisions import Commit, Decision, Move, Place, Preempt, Release, Run
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Estimated,
    Event,
    Heartbeat,
    HistoryPrimed,
    JobChanged,
    JobSubmitted,
    NodeAdded,
    QueueChanged,
    TaskEnded,
    Tick,
)
from schedulers.core.model import Job, Stage
from schedulers.core.policy import Offer
from schedulers.core.resources import Vector

#: Exit code of a preempted container (YARN).
PREEMPTED: Final = -102
_SAMPLE: Final = 15  # every 16th decision is timed
_REPORT_TASKS: Final = 512
#: So many beats of every node (or cycles) may pass without any change where these themselves count.
_PATIENCE: Final = 200
Entry = Any  # a SimPy event on the calendar; `_value` is what was entered with it


class Simulation:
    """One run of a workload on a cluster under a control.

    waves_of: looks up measured wave profiles. oracle: send the true means as `Estimated` before each job.
    progress: called now and then with the number of finished tasks.
    After `run`: end_ms, finished_tasks, decision_ns (a sample of wall times of rounds), facts (handled), locality.
    """

    def __init__(
        self,
        config: EngineConfig,
        workload: Workload,
        control: Control,
        record: Recording | None = None,
        *,
        seed: int = 0,
        waves_of: WavesOf | None = None,
        oracle: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        if config.executors is not None and config.profile != "events":
            raise ValueError(f"executors need the profile 'events', this cluster has '{config.profile}'")
        if not config.beats and any(job.am for job in workload.jobs):
            raise ValueError(
                f"application masters have containers in profiles 'yarn' and 'sls', not '{config.profile}'"
            )
        self.config, self.workload, self.control = config, workload, control
        self.record: Recording = record if record is not None else Nothing()
        self._seed, self._oracle, self._progress = seed, oracle, progress
        self._disorder = _Chaos(config.disorder, seed) if config.disorder is not None else None
        shuffle = keyed.generator(seed, "disorder", "order") if self._disorder and self._disorder.permute else None
        self.calendar = Calendar(shuffle)
        self._execution = Execution(config, seed, waves_of)
        excess = overrun(workload)
        shares = excess or any(any(node.slack) for node in config.nodes)
        self._sharers = Sharers(config.nodes, excess) if shares else None
        self._distances = Distances(config.nodes, workload.remote)
        self._node_ids = [node.id for node in config.nodes]
        self._index = {node.id: i for i, node in enumerate(config.nodes)}
        self._speeds = [node.speed for node in config.nodes]
        self._jobs: dict[str, Master] = {}
        self._containers: dict[int, Attempt] = {}
        self._ended: list[list[Attempt]] = [[] for _ in config.nodes]
        self._unreported = 0  # containers in all of these
        self._skip = config.skip and not control.policy.triggers.every_beat
        self._again = control.policy.triggers.every_offer  # refused offers are made again
        self._plans = control.policy.plans
        self._asks: Literal["all", "roots", "asked"] = "asked"
        if config.profile in ("events", "yarn"):
            self._asks = "all" if config.profile == "events" else "roots"
        self._parked: dict[int, None] = {}
        self._parked_version = -1
        self._idle_beats = self._idle_periods = 0
        # How long after the application master's tick a granted container is launched; None: at once.
        self._am_delay = {"yarn": 0, "sls": config.am_heartbeat_ms}.get(config.profile)
        self._pods = Pods(config.kubernetes, seed) if config.profile == "kubernetes" else None
        self._moving_ms = config.executors.moving_ms if config.executors is not None else 0
        self._kept = config.executors is not None
        self._record_task = self.record.task
        self._draws_startup = config.startup != Fixed(0)
        self._late = 0  # asks and late completions on the calendar
        self._next_job = 0
        self._tick_due = self._cycle_due = False
        phases = keyed.generator(seed, "phases").integers(0, config.heartbeat_ms, len(config.nodes)).tolist()
        # SLS registers a node in its first turn and lets it beat from the second on (NMSimulator.firstStep).
        begin = config.heartbeat_ms if config.profile == "sls" else 0
        self._ring = Ring(self.calendar, phases, config.heartbeat_ms, self._beat, begin=begin) if config.beats else None
        self._obeys: dict[type[Decision], Callable[[Any], None]] = {
            Place: self._place,
            Run: self._run,
            Move: self._move,
            Commit: self._commit,
            Release: self._release,
            Preempt: self._kill,
        }
        self.end_ms = 0
        self.finished_tasks = 0
        self.facts = 0
        self.decision_ns: list[int] = []

    @property
    def locality(self) -> dict[str, float] | None:
        """Shares of the tasks with input that ran on a node with it, in a rack with it, elsewhere; None: no such."""
        counts = self._distances.counts
        total = sum(counts)
        return {name: n / total for name, n in zip(("node", "rack", "off"), counts, strict=True)} if total else None

    # -- the run --------------------------------------------------------------------------------

    def run(self) -> None:
        """From the first event to the last. Raises Stalled when jobs are left that can never finish."""
        self._begin()
        self.calendar.env.run()
        self.record.finish(self.end_ms)
        if self._jobs:
            self._explain_stall()

    def _begin(self) -> None:
        for queue in self.config.queues:
            self._say(QueueChanged(0, queue))
        for node in self.config.nodes:
            self._say(NodeAdded(0, node))
        if self.workload.history:
            self._say(HistoryPrimed(0, self.workload.history))
        if self._ring is not None and not self._skip:
            self._ring.add_all(range(len(self._node_ids)))
        if (period := self.control.policy.triggers.period_ms) is not None:
            self.calendar.at(period, TICK, 1, self._period, period)
        self._expect_arrival()
        if self._ring is not None:
            self._ring.arm()

    def _expect_arrival(self) -> None:
        """Only the next arrival is on the calendar, so that a long workload costs no memory there."""
        jobs = self.workload.jobs
        if self._next_job < len(jobs):
            self.calendar.at(jobs[self._next_job].submit_ms, ARRIVE, self._next_job, self._arrive)

    def _arrive(self, entry: Entry) -> None:
        number = self._next_job
        self._next_job = number + 1
        self._expect_arrival()
        source = self.workload.jobs[number]
        now, spec = self.calendar.now, source.job
        times = self._execution.stages(source)
        if source.am:
            spec = _with_master(spec, source.am)
        if self._oracle:
            self._say(Estimated(now, spec.id, tuple(round(t.mean_ms) for t in times)))
        profile = self.config.profile
        decisions = self.control.handle(JobSubmitted(now, spec, "asked" if source.am else self._asks))
        self.facts += 1
        job = self._jobs[spec.id] = Master(source, number, times, self.control.state.jobs[spec.id])
        for index, stage in enumerate(spec.stages):
            self.record.demand(spec.id, index, stage.demand)
        self._obey(decisions)
        if source.am:
            self._say(JobChanged(now, spec.id, (len(spec.stages) - 1,)))
        elif self._pods is not None:
            for index in (i for i, stage in enumerate(spec.stages) if not stage.parents):
                self._create_pods(job, index)
        elif profile == "sls":
            job.asks = [i for i, stage in enumerate(spec.stages) if not stage.parents]
            self._late += 1
            self.calendar.at(now + self.config.am_heartbeat_ms, ASK, number, self._ask, job)
        self._carry_on()

    # -- facts ----------------------------------------------------------------------------------

    def _say(self, event: Event) -> list[Decision]:
        """Tell the control a fact and do what it decides."""
        self.facts += 1
        decisions = self.control.handle(event)
        self._obey(decisions)
        return decisions

    def _wake(self) -> None:
        """After a fact: let nodes beat that could now be given something; ask for a cycle in profile `events`."""
        state, ring = self.control.state, self._ring
        if ring is None:
            if state.waiting and not self._tick_due and Offer(state, None).has_room():
                self._tick_due = True
                gather = self._pods.settings.cycle_ms if self._pods is not None else 0
                self.calendar.at(self.calendar.now + gather, TICK, 0, self._tick)
            return
        if self._skip:
            if state.woken:
                for size in state.woken:
                    ring.add_all([node.index for node in state.fitting(size)])
                state.woken.clear()
            if not state.active_sizes and self._am_delay == 0 and not self._unreported:
                ring.clear()  # nobody waits for anything, and no beat has an end to report
            self._unpark()

    def _carry_on(self) -> None:
        """After the facts of one calendar entry."""
        if self._plans:
            self._record_plans()
        self._wake()
        if self._ring is not None:
            self._ring.arm()

    def _record_plans(self) -> None:
        for name, planned in self.control.policy.new_plans().items():
            self.record.plan(self.control.state.jobs[name].spec, self.calendar.now, planned)

    def _unpark(self) -> None:
        if self._parked and self.control.state.version != self._parked_version:
            assert self._ring is not None
            self._ring.add_all(self._parked)
            self._parked.clear()

    def _period(self, entry: Entry) -> None:
        """A policy's own period; it ends with the last job, or when nothing has come of it for long."""
        version = self.control.state.version
        self._say(Tick(self.calendar.now))
        arrivals = self._next_job < len(self.workload.jobs)
        busy = self.control.state.version != version or self._containers or self._late or arrivals
        self._idle_periods = 0 if busy else self._idle_periods + 1
        if arrivals or (self._jobs and self._idle_periods <= _PATIENCE):
            self.calendar.at(self.calendar.now + entry._value, TICK, 1, self._period, entry._value)
        self._carry_on()

    def _tick(self, entry: Entry) -> None:
        self._tick_due = False
        version = self.control.state.version
        started = time.perf_counter_ns()
        decisions = self.control.handle(Tick(self.calendar.now))
        self._clock(started)
        self._obey(decisions)
        if self._again and not self._cycle_due:
            self._offer_again(changed=self.control.state.version != version)

    def _offer_again(self, *, changed: bool) -> None:
        """What was refused in a cycle is offered once more, an interval later."""
        if Offer(self.control.state, None).has_room() and self._is_patient(changed=changed):
            self._cycle_due = True
            self.calendar.at(self.calendar.now + self.config.heartbeat_ms, TICK, 2, self._tick_again)

    def _tick_again(self, entry: Entry) -> None:
        self._cycle_due = False
        self._tick(entry)

    def _beat(self, node: int) -> None:
        """A node's turn to beat; with disorder it may be heard late, or twice."""
        if self._disorder is None:
            self._hear_beat(node)
            return
        delays = self._disorder.deliveries()
        for delay in delays:
            if delay:
                self.calendar.at(self.calendar.now + delay, END, node, self._beat_late, node)
        if 0 in delays:
            self._hear_beat(node)
        elif self._skip and self._ring is not None:
            self._ring.discard(node)  # the late beat decides whether the node beats on

    def _beat_late(self, entry: Entry) -> None:
        self._hear_beat(entry._value)
        self._carry_on()

    def _hear_beat(self, node: int) -> None:
        """A node reports what has ended and is offered work."""
        state = self.control.state
        version = state.version
        ended = self._ended[node]
        if self._skip and not ended and not state.could_place(state.nodes[self._node_ids[node]]):
            assert self._ring is not None
            self._ring.discard(node)
            return  # nobody waits for what is free here: the beat would change nothing
        if ended:
            self._ended[node] = []
            self._unreported -= len(ended)
            for container in ended:
                self._report_end(container)
        started = time.perf_counter_ns()
        decisions = self.control.handle(Heartbeat(self.calendar.now, self._node_ids[node]))
        self._clock(started)
        if decisions:
            self._obey(decisions)
        self._settle(node, changed=state.version != version)

    def _settle(self, node: int, *, changed: bool) -> None:
        """After a beat: does the node beat on?"""
        ring, state = self._ring, self.control.state
        assert ring is not None
        if self._skip:
            if not state.could_place(state.nodes[self._node_ids[node]]):
                ring.discard(node)
            elif changed or (self._again and self._is_patient(changed=False)):
                ring.add(node)
            else:
                ring.discard(node)
                self._parked[node] = None
                self._parked_version = state.version
            if changed:
                self._wake()
            return
        if not self._is_patient(changed=changed):
            ring.clear()

    def _is_patient(self, *, changed: bool) -> bool:
        """Whether something may still come of going on as now, after a beat or a cycle."""
        busy = changed or self._containers or self._late or self._next_job < len(self.workload.jobs)
        self._idle_beats = 0 if busy else self._idle_beats + 1
        triggers = self.control.policy.triggers
        counts = (triggers.every_beat or triggers.every_offer) and self._jobs
        return self._idle_beats <= (_PATIENCE if counts else 1) * len(self._node_ids)

    def _clock(self, started: int) -> None:
        self.facts += 1
        if self.facts & _SAMPLE == 0:
            self.decision_ns.append(time.perf_counter_ns() - started)

    # -- decisions ------------------------------------------------------------------------------

    def _obey(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            obey = self._obeys.get(type(decision))
            if obey is not None:
                obey(decision)

    def _release(self, decision: Release) -> None:
        del self._containers[decision.container]

    def _place(self, decision: Place) -> None:
        container = Attempt(decision.container, self._index[decision.node])
        self._containers[decision.container] = container
        self._grant(container, decision)

    def _run(self, decision: Run) -> None:
        container = self._containers[decision.container]
        if container.started is None or self.calendar.now > container.started + container.runtime:
            container.wave = "fresh"  # an executor that has waited counts as new (decima-sim: detach_node)
        else:
            container.wave = "rest" if container.stage == decision.stage else "first"
        self._assign(container, decision)
        self._start(container, container.granted)

    def _move(self, decision: Move) -> None:
        container = self._containers[decision.container]
        container.wave = "fresh"
        self._grant(container, decision)

    def _commit(self, decision: Commit) -> None:
        """An executor sets out for a job that will have tasks for it."""
        number, now = decision.container, self.calendar.now
        if decision.node:
            self._containers[number] = Attempt(number, self._index[decision.node])
        container = self._containers[number]
        container.job, container.stage, container.started = self._jobs[decision.job], -1, None
        late = self._moving_ms + (self._disorder.lateness() if self._disorder is not None else 0)
        if self._draws_startup:
            late += self._execution.startup_ms(self.config.startup, decision.job, decision.stage, -1, number)
        self.calendar.at(now + late, START, number, self._arrived, container)

    def _arrived(self, entry: Entry) -> None:
        container: Attempt = entry._value
        if self._containers.get(container.id) is container:
            self._say(ContainerStarted(self.calendar.now, container.id))
            self._carry_on()

    def _assign(self, container: Attempt, decision: Place | Run | Move) -> None:
        container.job = self._jobs[decision.job]
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        container.granted = self.calendar.now
        container.started = container.distance = None
        container.pilot = self.control.state.containers[decision.container].pilot

    def _grant(self, container: Attempt, decision: Place | Move) -> None:
        """A container is granted: when will its task start?"""
        self._assign(container, decision)
        start = container.granted
        if container.stage == container.job.own_stage:
            pass  # launched by the resource manager, which need not wait for anybody's tick
        elif self._am_delay is not None:
            start = self._am_tick(container.job, start) + self._am_delay
        if self._pods is not None:
            start = self._pods.released(start)
        start += self._moving_ms
        if self._draws_startup:
            ids = (decision.job, decision.stage, decision.task, decision.attempt)
            start += self._execution.startup_ms(self.config.startup, *ids)
        if self._disorder is not None:
            start += self._disorder.lateness()
        self.calendar.at(start, START, container.id, self._started, container)

    def _am_tick(self, job: Master, now: int) -> int:
        """The application master's first allocate call after `now`; it calls every interval since submission."""
        interval = self.config.am_heartbeat_ms
        return now + interval - (now - job.source.submit_ms) % interval

    def _started(self, entry: Entry) -> None:
        container: Attempt = entry._value
        if container.id not in self._containers:
            return
        now = self.calendar.now
        self.facts += 1
        self.control.handle(ContainerStarted(now, container.id))
        self._start(container, now)

    def _start(self, container: Attempt, now: int) -> None:
        """The task's first instant: its end is now a fact of the future."""
        job = container.job
        container.started = now
        if container.stage == job.own_stage:
            self._start_master(job, container)
            return
        if job.first_start is None:
            job.first_start = now
        runtime = job.times[container.stage].ms(container.task, job.state.executors, container.wave, container.attempt)
        job.work += runtime
        speed = self._speeds[container.node]
        container.runtime = runtime if speed == 1.0 else max(1, round(runtime / speed))
        stage = job.source.job.stages[container.stage]
        if stage.hosts:
            container.distance = self._distances.of(stage, container.task, container.node)
            container.runtime = self._distances.stretched(runtime / speed, container.distance)
        if self._pods is not None:
            container.runtime = self._pods.runs(now, container.runtime)
        if self._sharers is None:
            self.calendar.at(now + container.runtime, END, container.id, self._over, container)
        else:
            self._share(container, job.source.uses(container.stage), container.runtime)

    def _share(self, container: Attempt, use: Vector, runtime: float) -> None:
        """A container uses so much of its node from now on."""
        assert self._sharers is not None
        self._foretell(self._sharers.start(container.node, container.id, use, runtime, self.calendar.now))

    def _foretell(self, ends: list[tuple[int, int]]) -> None:
        """Tasks that share an overrun node end at other times than was thought."""
        for number, end in ends:
            container = self._containers[number]
            container.turn += 1
            self.calendar.at(end, END, number, self._over_shared, (container, container.turn))

    def _over_shared(self, entry: Entry) -> None:
        """As `_over`, unless the end was moved since."""
        container, turn = entry._value
        if container.turn == turn and container.started is not None:
            container.runtime = self.calendar.now - container.started
            self._leave_node(container)
            self._complete(container)

    def _leave_node(self, container: Attempt) -> None:
        if self._sharers is not None:
            container.turn += 1
            self._foretell(self._sharers.end(container.node, container.id, self.calendar.now))

    def _start_master(self, job: Master, container: Attempt) -> None:
        """An application master registers, and asks at its next tick."""
        job.master = container
        if self._sharers is not None:
            self._share(container, job.source.am, math.inf)
        job.asks = [i for i, stage in enumerate(job.source.job.stages) if not stage.parents]
        self._late += 1
        self.calendar.at(self._am_tick(job, self.calendar.now), ASK, job.number, self._ask, job)

    # -- ends -----------------------------------------------------------------------------------

    def _over(self, entry: Entry) -> None:
        """A task's last instant, on its node."""
        self._complete(entry._value)

    def _complete(self, container: Attempt) -> None:
        if self._containers.get(container.id) is not container or container.started is None:
            return
        now = self.calendar.now
        self._record(container, now, 0)
        if container.distance is not None:
            self._distances.counts[container.distance] += 1
        if self.config.profile != "sls":
            self._count(container.job, container.stage)
        if self._kept:
            if self._hear_task(container, now):
                return  # it went on with the same stage: nothing else has changed
        elif self.config.profile == "sls":
            self._report_later(container)
        else:
            self._hear_end(container)
        self._carry_on()

    def _record(self, container: Attempt, now: int, code: int) -> None:
        self._record_task(
            container.job.name,
            container.stage,
            container.task,
            container.attempt,
            self._node_ids[container.node],
            container.id,
            container.granted,
            container.started,
            now,
            container.pilot,
            code,
        )

    def _hear_task(self, container: Attempt, now: int) -> bool:
        """An executor reports a finished task; True when it got the next one of the stage."""
        job = container.job
        ended = (container.id, job.name, container.stage, container.task, container.attempt, container.runtime)
        if self._disorder is not None:
            self._tell_sometime(lambda: TaskEnded(self.calendar.now, *ended))
        else:
            decisions = self._say(TaskEnded(now, *ended))
            if decisions and type(decisions[0]) is Run:
                return True
        self._finish_if_over(job)
        return False

    def _hear_end(self, container: Attempt) -> None:
        """All profiles but `sls`: the end is heard at once; in `yarn` by an out-of-band heartbeat."""
        self._report_end(container)
        ring = self._ring
        if ring is not None:
            if self._parked or self.control.state.woken:  # a sleeper whose turn is this very instant comes first
                self._wake()
                ring.arm()
            ring.beat_now(container.node)

    def _report_later(self, container: Attempt) -> None:
        """The next beat of its node reports the end."""
        self._ended[container.node].append(container)
        self._unreported += 1
        self._call_in(container.node)

    def _call_in(self, node: int) -> None:
        assert self._ring is not None
        self._ring.add(node)

    def _report_end(self, container: Attempt) -> None:
        del self._containers[container.id]
        if container is container.job.master:
            self._say(ContainerEnded(self.calendar.now, container.id, 0, container.runtime))
            return
        if self.config.profile == "sls":
            self._count(container.job, container.stage)  # only now does the application master hear of it
        number, runtime = container.id, container.runtime
        if self._disorder is None:
            self._say(ContainerEnded(self.calendar.now, number, 0, runtime))
        else:
            self._tell_sometime(lambda: ContainerEnded(self.calendar.now, number, 0, runtime))
        self._finish_if_over(container.job)

    def _tell_sometime(self, event: Callable[[], Event]) -> None:
        """Disorder: a completion is heard late, or twice."""
        assert self._disorder is not None
        for delay in self._disorder.deliveries():
            if delay == 0:
                self._say(event())
            else:
                self._late += 1
                self.calendar.at(self.calendar.now + delay, END, 0, self._tell_late, event)

    def _tell_late(self, entry: Entry) -> None:
        self._late -= 1
        self._say(entry._value())
        for job in list(self._jobs.values()):
            self._finish_if_over(job)
        if self._ring is not None:
            state = self.control.state
            self._ring.add_all(node.index for node in state.nodes.values() if state.could_place(node))
        self._carry_on()

    def _kill(self, decision: Preempt) -> None:
        """A preempted container ends at once; its task will run again."""
        number = decision.container
        container = self._containers.pop(number)
        self._leave_node(container)
        container.job.failed += 1
        self._record(container, self.calendar.now, PREEMPTED)
        self._late += 1
        self.calendar.at(self.calendar.now + 1, END, number, self._say_killed, (number, container.node))

    def _say_killed(self, entry: Entry) -> None:
        number, node = entry._value
        self._late -= 1
        self._say(ContainerEnded(self.calendar.now, number, PREEMPTED))
        if self._ring is not None:
            self._call_in(node)
        self._carry_on()

    # -- application masters --------------------------------------------------------------------

    def _count(self, job: Master, stage: int) -> None:
        """The application master counts a finished task; a finished stage lets it ask for the next ones."""
        self.finished_tasks += 1
        if self._progress is not None and self.finished_tasks % _REPORT_TASKS == 0:
            self._progress(self.finished_tasks)
        job.left[stage] -= 1
        if job.left[stage] or self.config.profile == "events":
            return
        if self._pods is not None:
            self._create_children(job, stage)
            return
        ready = []
        for child in job.state.children[stage]:
            job.parents_left[child] -= 1
            if job.parents_left[child] == 0:
                ready.append(child)
        if ready:
            if not job.asks:
                # SLS takes the end at one tick and counts it at the next (measured on real runs); YARN's asks at once.
                at = self._am_tick(job, self.calendar.now) + (self._am_delay or 0)
                self._late += 1
                self.calendar.at(at, ASK, job.number, self._ask, job)
            job.asks.extend(ready)

    def _create_children(self, job: Master, stage: int) -> None:
        for child in job.state.children[stage]:
            job.parents_left[child] -= 1
            if job.parents_left[child] == 0:
                self._create_pods(job, child)

    def _create_pods(self, job: Master, stage: int) -> None:
        """The controllers create a stage's pods; it may start once all of them have been seen."""
        assert self._pods is not None
        self._late += 1
        at = self._pods.created(self.calendar.now, job.source.job.stages[stage].tasks)
        self.calendar.at(at, ASK, job.number, self._ask_stage, (job, stage))

    def _ask_stage(self, entry: Entry) -> None:
        job, stage = entry._value
        self._late -= 1
        self._say(JobChanged(self.calendar.now, job.source.job.id, (stage,)))
        self._carry_on()

    def _ask(self, entry: Entry) -> None:
        job = entry._value
        self._late -= 1
        asked, job.asks = tuple(sorted(job.asks)), []
        self._say(JobChanged(self.calendar.now, job.source.job.id, asked))
        self._carry_on()

    def _finish_if_over(self, job: Master) -> None:
        if job.master is not None:
            if not any(job.left) and not job.unregisters:
                job.unregisters = True
                at = self._am_tick(job, self.calendar.now) + (self._am_delay or 0)
                self._late += 1
                self.calendar.at(at, ASK, job.number, self._unregister, job)
        elif not job.state.left:
            self._finish(job)

    def _unregister(self, entry: Entry) -> None:
        """An application master has counted its last task: the job is done; its container is reported by a beat."""
        job = entry._value
        self._late -= 1
        self._finish(job)
        container, now = job.master, self.calendar.now
        container.runtime = now - container.started
        self._leave_node(container)
        self._record(container, now, 0)
        self._report_later(container)
        self._carry_on()

    def _finish(self, job: Master) -> None:
        if self._jobs.pop(job.name, None) is not None:
            self.end_ms = self.calendar.now
            self.record.job(result(job, self.calendar.now))

    def _explain_stall(self) -> None:
        for job in self._jobs.values():
            self.record.job(result(job, None))
        name = next(iter(self._jobs))
        why = "; ".join(because.sentence for because in self.control.explain(name).reasons) or "no reason is known"
        raise Stalled(f"{len(self._jobs)} jobs can never finish; the first is '{name}': {why}")


class Pods:
    """When pods are there, released, running and seen to end, in profile `kubernetes`.

    Creations and releases each pass through one queue with a fixed rate, as they do through one process's client.
    """

    def __init__(self, settings: Kubernetes, seed: int) -> None:
        self.settings = settings
        self._phase = int(keyed.uniform(seed, "whole-seconds") * 1000)
        self._creating = self._releasing = 0.0  # until when each queue is busy

    def created(self, now: int, pods: int) -> int:
        """When the last of so many pods, wanted now, has been seen."""
        begin = max(now + self.settings.create_ms, self._creating)
        self._creating = begin + 1000 * pods / self.settings.create_rate
        return round(self._creating) + self.settings.seen_ms

    def released(self, now: int) -> int:
        """When a pod that is decided on now has been seen running."""
        self._releasing = max(float(now), self._releasing) + 1000 / self.settings.release_rate
        return round(self._releasing) + self.settings.start_ms + self.settings.seen_ms

    def runs(self, now: int, runtime: int) -> int:
        """How long a pod that was seen running now is seen to run."""
        if not self.settings.whole_seconds:
            return runtime
        since = (now - self.settings.seen_ms - self._phase) % 1000
        return max(1, 1000 * -(-runtime // 1000) - since)


class _Chaos:
    """Seeded draws of `Disorder`, in the order of the run."""

    def __init__(self, settings: Disorder, seed: int) -> None:
        self._settings = settings
        self._draw = keyed.generator(seed, "disorder", "delays")
        self.permute = settings.permute

    def deliveries(self) -> list[int]:
        """Delays in ms at which a fact is heard; 0 is now, two entries a repetition."""
        settings, draw = self._settings, self._draw
        late = draw.random() < settings.delay
        twice = draw.random() < settings.duplicate
        delays = [int(draw.integers(1, settings.delay_ms + 1)) if late else 0]
        if twice:
            delays.append(delays[0] + int(draw.integers(1, settings.delay_ms + 1)))
        return delays

    def lateness(self) -> int:
        """By how many ms a decision takes effect late."""
        if self._draw.random() >= self._settings.late:
            return 0
        return int(self._draw.integers(1, self._settings.late_ms + 1))


def _with_master(job: Job, demand: Vector) -> Job:
    """A job whose last stage is its application master."""
    master = Stage(name="application-master", tasks=1, demand=demand, master=True)
    return msgspec.structs.replace(job, stages=(*job.stages, master))
