"""The emulated resource manager: it turns decisions into simulated time and time into facts.

Decisions become starts and ends on the calendar; every fact goes to the decider (a `Scheduler`), and only the decider
decides. The profile sets the times at which facts are heard and decisions take effect (`profile.py`). The engine knows
the true run times; the decider never sees a true run time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from rm_emulator.engine import containers
from rm_emulator.engine.arrivals import Arrivals, first_facts
from rm_emulator.engine.assemble import settled, timing
from rm_emulator.engine.calendar import END, START, Calendar, Enter
from rm_emulator.engine.clock import Clock
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import Control, OneScheduler, Scheduling, Stalled
from rm_emulator.engine.execution import Execution, WavesOf
from rm_emulator.engine.features import features_of
from rm_emulator.engine.features.disorder import shuffle
from rm_emulator.engine.features.feature import HELD, Hooks
from rm_emulator.engine.preemptions import Preemptions
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.recording import Recording
from rm_emulator.workload.model import Workload
from schedulers.core.decisions import Decision, Place, Preempt
from schedulers.core.events import ContainerEnded, ContainerStarted, Event
from schedulers.core.old_names import OldName

F = TypeVar("F")
_SAMPLE: Final = 15  # every 16th decision is timed
_REPORT_TASKS: Final = 512
_YOUNG: Final = 100_000


class Simulation:
    """A run of a workload on a cluster under a decider.

    `waves_of` looks up measured wave profiles. With `oracle`, the true means are sent as `Estimated` before each job.
    `progress` is called now and then with the number of finished tasks. After `run`: `end_ms`, `finished_tasks`,
    `decision_ns` (a sample of wall times of rounds), `facts` (handled).
    For profiles and features: live `jobs` and `containers`; `arrivals`, the jobs to come; `actions`, the method for
    each class of decisions; `enter_end`, the entry of a task's end on the calendar.
    """

    # Profiles from outside the tree call the engine by these names.
    obey = OldName("carry_out")
    obeys = OldName("actions")
    contain = OldName("make_container")

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
        config = settled(config, workload)
        self.config, self.workload, self.seed = config, workload, seed
        self.control = control if isinstance(control, Control) else OneScheduler(control)
        self.listen(record if record is not None else Recording())
        self._core_containers = self.control.containers
        self._progress = progress
        self.calendar = Calendar(shuffle(config.disorder, seed))
        self.enter_end: Enter = self.calendar.at
        self._index = {node.id: i for i, node in enumerate(config.nodes)}
        self.jobs: dict[str, Master] = {}
        self.containers: dict[int, Container] = {}
        self.actions: dict[type[Decision], Callable[[Any], None]] = {Place: self._place, Preempt: Preemptions(self).end}
        self.facts_to_come = 0
        self.until: int | None = None
        self.arrivals = Arrivals(self, Execution(config, seed, waves_of), oracle=oracle)
        self._clock = Clock(self)
        # Most policies never look at the clock: the check after each fact is then a test for None.
        self._check_clock = self._clock.enter_next_change if self.control.next_change is not None else None
        # Features before the profile: a profile looks up features while it is made.
        self._features = features_of(self)
        self._hooks = hooks = Hooks(self._features)
        self.profile: Profile = timing(config)(self)
        # Methods called for each task are bound once; a grant without any delay starts in the same step.
        self.hear_end: Callable[[Container], bool] = hooks.ended or self.profile.ended
        self.tell_completion: Callable[[Event], list[Decision]] = hooks.completed or self.tell
        self.begins_anew = hooks.begins_anew
        prompt = self.profile.prompt and not hooks.granted
        self.launch: Callable[[Container], None] = self.started if prompt else self._launch
        self._launches = self.profile.launch
        self.stretches = hooks.run_time
        """From a task's own run time to the one in its container, as seen from outside; mostly empty."""
        made = type(self.profile)
        if made.runs is not Profile.runs or made.runs_from is not Profile.runs_from:
            self.stretches += (lambda c, runtime: self.profile.runs_from(c.started_ms or 0, runtime),)
        self.enters_ends = hooks.runs is None and config.executors is None
        """Whether the end of a task is one entry of the calendar, and nobody looks at the end before."""
        self.end_ms = self.finished_tasks = self.facts = 0
        self.decision_ns: list[int] = []

    def listen(self, record: Recording) -> None:
        """Let a recording receive all results from now on."""
        self.record, self._record_task = record, record.task

    def feature(self, kind: type[F]) -> F | None:
        """The run's feature of this kind, or None."""
        return next((each for each in self._features if isinstance(each, kind)), None)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs, or is sure to be heard."""
        sure = self.facts_to_come or self.arrivals.are_left or self._clock.is_set  # cheap looks first
        return bool(sure or self._hooks.is_any_to_come() or len(self.containers) > self._hooks.count_endless())

    def run(self, until: int | None = None) -> None:
        """Begin, and go on to the end. Raises Stalled when jobs can never finish."""
        with few_collections():
            self.begin(until)
            self.go_on()

    def begin(self, until: int | None = None) -> None:
        """Enter the first events of a run to `until` (ms), or to the last job; services end with the last batch job."""
        # Queues and nodes before the first beat: the scheduler must know a node that beats.
        for fact in first_facts(self.config, self.workload):
            self.tell(fact)
        self.enter_first(until)

    def enter_first(self, until: int | None) -> None:
        """Enter what comes by time alone from the present moment on; queues, nodes and present jobs are told."""
        self._clock.begin()
        self.arrivals.expect()
        self.profile.begin()
        self.until = until

    def go_on(self) -> None:
        """From the present moment, after `begin`, to the end. Raises Stalled when jobs can never finish."""
        self.calendar.run(self.until)
        for feature in self._features:
            feature.finish()
        self.record.finish(self.end_ms)
        for job in self.jobs.values():
            self.record.job(containers.job_row(job, None))
        if self.jobs and self.until is None:
            raise _stalled(self.jobs, self.control)

    def handle(self, event: Event) -> list[Decision]:
        """Let the decider hear a fact; its decisions are not carried out yet."""
        self.facts += 1
        return self.control.handle(event)

    def tell(self, event: Event) -> list[Decision]:
        """Tell a fact and carry out the decisions."""
        self.facts += 1
        decisions = self.control.handle(event)
        self.carry_out(decisions)
        return decisions

    def ask(self, event: Event) -> list[Decision]:
        """Tell a fact that offers room, and carry out the decisions; every 16th call is timed."""
        self.facts += 1
        # Reading the clock twice for each decision would slow the run, so only a sample is timed.
        if self.facts & _SAMPLE:
            decisions = self.control.handle(event)
        else:
            started = time.perf_counter_ns()
            decisions = self.control.handle(event)
            self.decision_ns.append(time.perf_counter_ns() - started)
        self.carry_out(decisions)
        if self._check_clock is not None:
            self._check_clock()
        return decisions

    def later(self, at: int, rank: int, key: int, tell: Callable[[Any], None], about: Any) -> None:
        """Call `tell(about)`, which tells facts, at time `at`. A run with such facts to come is not stalled."""
        self.facts_to_come += 1
        self.calendar.at(at, rank, key, self.tell_due, (tell, about))

    def tell_due(self, due: tuple[Callable[[Any], None], Any]) -> None:
        """Carry out an entry of `later`."""
        tell, about = due
        self.facts_to_come -= 1
        tell(about)
        self.carry_on()

    def tell_end(self, container: Container) -> None:
        """Tell the end of a container."""
        number, job = container.container, container.master
        del self.containers[number]
        ended = ContainerEnded(self.calendar.now, number, container.code, container.runtime)
        # The master's own container is no task: nothing is counted or finished by its end.
        if container is job.container:
            self.tell(ended)
            for master_ended in self._hooks.master_ended:
                master_ended(container)
            return
        self.tell_completion(ended)
        for end_heard in self._hooks.end_heard:
            end_heard(job)
        self.profile.finish_if_over(job)

    def carry_on(self) -> None:
        """Record new plans and offer free room, after the facts of one calendar entry."""
        if self.control.plans:
            for job, planned in self.control.new_plans():
                self.record.plan(job, self.calendar.now, planned)
        self.profile.offer()
        if self._check_clock is not None:
            self._check_clock()

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Carry decisions out."""
        for decision in decisions:
            # Decisions without a method (holds, plans) matter to the log alone.
            if (action := self.actions.get(type(decision))) is not None:
                action(decision)

    def _place(self, place: Place) -> None:
        """Grant a container on a node, and enter the start of the task."""
        job, number, node, now = place.job, place.container, place.node, self.calendar.now
        pilot, index, master = self._core_containers[number].pilot, self._index[node], self.jobs[job]
        # Positional arguments, since keywords are slower: a container is made for each task.
        container = self.containers[number] = Container(
            job, place.stage, place.task, place.attempt, node, number, now, None, 0, pilot, 0, index, master
        )
        self.launch(container)

    def make_container(self, number: int, node: str, job: str) -> Container:
        """Make a container on its way to a job, without a task as yet."""
        made = self.containers[number] = containers.new_container(number, node, self._index[node], self.jobs[job])
        return made

    def _launch(self, container: Container) -> None:
        start = self._launches(container)
        for granted in self._hooks.granted:
            start = granted(container, start)
        if start != HELD:
            self.calendar.at(start, START, container.container, self.started, container)

    def start_of(self, container: Container, at: int) -> int:
        """Start in ms of a grant that would start at time `at`."""
        for granted in self._hooks.granted:
            at = granted(container, at)
        return at

    def started(self, container: Container) -> None:
        """Handle the first instant of a granted container, unless preempted or started already."""
        if self.containers.get(container.container) is not container or container.started_ms is not None:
            return
        now = self.calendar.now
        self.facts += 1
        self.control.handle(ContainerStarted(now, container.container))
        self.start(container, now)

    def start(self, container: Container, now: int) -> None:
        """Handle the first instant of a task, and enter its end on the calendar."""
        job = container.master
        container.started_ms = now
        is_master = container.stage == job.master_stage
        if not is_master and job.first_start_ms is None:
            job.first_start_ms = now
        for started in self._hooks.started:
            if started(container):
                return
        if is_master:  # after the hooks, so that the master's use of its node counts before its first ask
            self.profile.master_started(container)
            return
        runtime = self.set_run_time(container)
        # A copy repeats work, and the work of a job is counted once.
        if not container.copy:
            job.work_ms += runtime
        if self._hooks.runs is None:
            self.enter_end(now + container.runtime, END, container.container, self.over, container)
        else:
            self._hooks.runs(container)

    def set_run_time(self, container: Container) -> int:
        """Set the run time of a task in its container; returns the task's own, at node speed 1, ms."""
        job, task, wave = container.master, container.task, container.wave
        own = runtime = job.times[container.stage].ms(task, job.state.executors, wave, container.attempt)
        for stretch in self.stretches:
            runtime = stretch(container, runtime)
        container.runtime = runtime
        return own

    def over(self, container: Container) -> None:
        """Handle the last instant of a task on its node."""
        # Preempted meanwhile: the calendar has no removal, so the entry of the end is void.
        if self.containers.get(container.container) is not container or container.started_ms is None:
            return
        container.ended_ms = self.calendar.now
        self._record_task(container)
        for over in self._hooks.over:
            over(container)
        if self.hear_end(container):
            self.carry_on()

    def tell_removal(self, container: Container) -> None:
        """Tell features that a container leaves its node before its end."""
        for removed in self._hooks.removed:
            removed(container)

    def record_end(self, container: Container, code: int = 0) -> None:
        """Record an attempt with its end now."""
        container.ended_ms, container.code = self.calendar.now, code
        self._record_task(container)

    def count(self, container: Container) -> None:
        """Count a finished task in its job; of several copies, only the first."""
        for counts in self._hooks.counts:
            if not counts(container):
                return
        self.finished_tasks += 1
        # Every 512 tasks: a call for each task would slow the run.
        if self._progress is not None and self.finished_tasks % _REPORT_TASKS == 0:
            self._progress(self.finished_tasks)
        job, stage = container.master, container.stage
        job.tasks_left[stage] -= 1
        if not job.tasks_left[stage]:
            self.profile.stage_ended(job, stage)

    def finish(self, job: Master) -> None:
        """End a job, finished or failed: record the job and drop its state."""
        # A late or repeated fact (disorder) may end a job twice.
        if self.jobs.pop(job.name, None) is not None:
            self.end_ms = self.calendar.now
            self.record.job(containers.job_row(job, self.end_ms if job.failed_ms is None else None))
            self.tell_job_over()

    def tell_job_over(self) -> None:
        """Tell features that a batch job has ended, or was given up."""
        for job_over in self._hooks.job_over:
            job_over()


@contextmanager
def few_collections() -> Iterator[None]:
    """Let Python look for circles of garbage after each 100,000 objects instead of 700: a run makes next to none."""
    # A threshold of 0 means that the collector is off, and stays off.
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _YOUNG) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _stalled(jobs: Mapping[str, Master], control: Control) -> Stalled:
    """The error for unfinished jobs in a run without further events."""
    name = next(name for name, job in jobs.items() if not job.is_service)
    reasons = [*(because.sentence for because in control.explain(name).reasons), control.mistakes]
    why = "; ".join(filter(None, reasons)) or "no reason is known"
    return Stalled(f"{len(jobs)} jobs can never finish; the first is '{name}': {why}")
