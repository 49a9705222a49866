"""Live jobs and their waiting tasks: stages open as their parents end, tasks are launched, succeed, return."""

from __future__ import annotations

from bisect import insort
from typing import Final

from schedulers.core.admission import Admission
from schedulers.core.decisions import Hold, Resume
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    JobCancelled,
    JobChanged,
    JobSubmitted,
    LinksSet,
    PilotsNamed,
    SizeEstimated,
    StageWithdrawn,
    TaskFound,
)
from schedulers.core.journal import Journal
from schedulers.core.live import RUNNING, ContainerState, Counts, JobState, StageState
from schedulers.core.model import Job, Links, check_job, check_links
from schedulers.core.queues import QueueTree
from schedulers.core.sizes import Sizes
from schedulers.core.ties import Ties, ties_of

#: Finished jobs remembered so that a repeated submission is not run again.
REMEMBERED: Final = 10_000


class Work:
    """The jobs of a cluster.

    admission: jobs let in. sizes: counts of waiting tasks. journal: hears of changes.
    """

    __slots__ = (
        "_width",
        "admission",
        "counts",
        "finished",
        "has_opened",
        "jobs",
        "links",
        "parted",
        "recheck_reason",
        "sizes",
        "stranded",
        "ties",
        "touch",
        "tree",
        "waiting",
    )

    def __init__(
        self, width: int, admission: Admission, sizes: Sizes, tree: QueueTree, journal: Journal, counts: Counts
    ) -> None:
        self._width, self.admission, self.sizes, self.tree = width, admission, sizes, tree
        self.touch, self.recheck_reason, self.counts = journal.orders.note, journal.reasons.note, counts
        self.jobs: dict[str, JobState] = {}
        """Live jobs by id, in order of submission."""
        self.waiting: dict[str, JobState] = {}
        """Jobs with launchable tasks; from `jobs`, in the order of getting some."""
        self.finished: dict[str, None] = {}
        """The last finished jobs."""
        self.parted: dict[tuple[str, int], None] = {}
        """Gangs (job and stage) with a returned member while other members ran; some may have ended since."""
        self.links: Links | None = None
        """Rates of data between nodes; None: data takes no time."""
        self.ties: dict[str, Ties] = {}
        """Edges of live jobs that are no barriers, by job; from the jobs and their containers."""
        self.stranded: dict[tuple[str, int], None] = {}
        """Stages (job and stage) begun early, of which a task of a parent waits again: their containers are to end."""
        self.has_opened = False
        """Whether the start of a task has opened a stage, in the present round."""

    def parted_gangs(self) -> list[tuple[JobState, StageState]]:
        """Gangs with some members running and others able to start, the longest so in front."""
        gangs = []
        for key in list(self.parted):
            job = self.jobs.get(key[0])
            if job is None or not (stage := job.stages[key[1]]).running or not stage.waiting:
                del self.parted[key]
            elif stage.index in job.open:
                gangs.append((job, stage))
        return gangs

    # -- jobs come and go -----------------------------------------------------------------------

    def submitted(self, event: JobSubmitted) -> str | None:
        """Take in a new job: let the job in, or keep it outside its queue."""
        spec, counts = event.job, self.counts
        if spec.id in self.jobs or (spec.id in self.finished and not event.again):
            return "duplicate"
        check_job(spec, self._width)
        self.finished.pop(spec.id, None)
        children: list[list[int]] = [[] for _ in spec.stages]
        for index, stage in enumerate(spec.stages):
            for parent in stage.above:
                children[parent].append(index)
        # Sizes are numbered after the check, so that a refused job leaves no size behind.
        if (ties := ties_of(spec)) is not None:
            self.ties[spec.id] = ties
        stages = self._stages_of(spec, event.asks, ties)
        job = JobState(spec, counts.next_job, event.at, stages, spec.tasks, [0] * self._width, children)
        counts.next_job += 1
        self.jobs[spec.id] = job
        self.touch(spec.id)
        self.recheck_reason(spec.id)
        if self.admission.may_enter(job):
            self._admit(job)
        else:
            job.admitted = False
            self.admission.wait(job)
        counts.version += 1
        return None

    def _stages_of(self, spec: Job, asks: str, ties: Ties | None) -> list[StageState]:
        group = self.tree.path(spec.queue, spec.user).group
        stages = [
            StageState(
                index=index,
                demand=stage.demand,
                size=self.sizes.number(stage.demand, stage.places, group),
                tasks=stage.tasks,
                waiting=stage.tasks,
                parents_left=len(stage.parents),
                asked=asks == "all" or (asks == "roots" and not stage.parents),
            )
            for index, stage in enumerate(spec.stages)
        ]
        if ties is not None:
            ties.tie(stages, asks)
        if self.links is not None:
            for feeding in {edge.parent for stage in spec.stages for edge in stage.edges if edge.data}:
                stages[feeding].outputs = {}
        return stages

    def cancelled(self, event: JobCancelled) -> str | None:
        """Nothing more of the job is launched."""
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "unknown" if job is None else "duplicate"
        job.cancelled = True
        for index in list(job.open):
            self._close(job, job.stages[index])
        self.touch(job.id)
        self._forget_if_over(job)
        self.counts.version += 1
        return None

    def enter(self, job: JobState, stage: StageState, task: int) -> bool:
        """A task runs, or is done, by another's decision: its job is in, whatever the limits say.

        Returns whether the task was waiting.
        """
        if job.cancelled:
            return False
        if not job.admitted:
            self.admission.leave(job)
            self._admit(job)
        return stage.index in job.open and stage.is_waiting(task)

    def admit_pending(self) -> None:
        """Let in all jobs that may enter now."""
        # One by one, because each admitted job may fill its queue.
        while self.admission.pending and (job := self.admission.next()) is not None:
            self.admission.leave(job)
            self._admit(job)

    def _admit(self, job: JobState) -> None:
        """Count the job as running in its queue from now on, and open its stages."""
        job.admitted = True
        self.admission.count(job, 1)
        for stage in job.stages:
            if stage.is_open and stage.waiting:
                self._open(job, stage)

    def _forget_if_over(self, job: JobState) -> None:
        if job.left and not (job.cancelled and not job.running):
            return
        del self.jobs[job.id]
        if self.ties:
            self.ties.pop(job.id, None)
        if job.admitted:  # its queue may run another
            self.admission.count(job, -1)
            self.admit_pending()
        else:
            self.admission.leave(job)
        # Remembered, so that a repeated submission after a restart is not run again.
        self.finished[job.id] = None
        if len(self.finished) > REMEMBERED:
            del self.finished[next(iter(self.finished))]

    def links_set(self, event: LinksSet) -> str | None:
        """Data takes time from node to node."""
        if event.links == self.links:
            return "duplicate"
        check_links(event.links)
        # Outputs are kept only with links; for stages already begun their places would be unknown.
        if self.counts.next_job:
            raise InvalidTransition("links are set once, before the first job")
        self.links = event.links
        return None

    # -- estimates and reasons ------------------------------------------------------------------

    def pilots_named(self, event: PilotsNamed) -> None:
        """Set some tasks of a job apart to run first, so that its size is learned from them."""
        job = self.jobs[event.job]
        for index, task in event.plan.pilots:
            stage = job.stages[index]
            # Below `next` nothing has started yet: the tasks are let in one by one, none of them before its parents.
            if not stage.next <= task < stage.tasks or task in stage.taken:
                raise InvalidTransition(f"job {job.id}: no task {task} in stage {index} to be a pilot")
            stage.make_pilot(task)
        for stage in job.stages:
            stage.skip_taken()
        job.plan, job.pilots_left = event.plan, len(event.plan.pilots)

    def size_estimated(self, event: SizeEstimated) -> None:
        """A job is expected to be so much work."""
        event.job.size_ms, event.job.size_source = event.size_ms, event.source
        self.touch(event.job.id)

    def hold(self, decision: Hold, now: int) -> None:
        """Note the reason last told for a job to wait."""
        self.jobs[decision.job].hold = decision.reason

    def resume(self, decision: Resume, now: int) -> None:
        """Nothing of a job waits any more."""
        self.jobs[decision.job].hold = None

    # -- stages ---------------------------------------------------------------------------------

    def changed(self, event: JobChanged) -> str | None:
        """Tasks of more stages are asked for."""
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        if not all(0 <= index < len(job.stages) for index in event.asked):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, asked for {event.asked}")
        fresh = [stage for index in event.asked if not (stage := job.stages[index]).asked]
        if not fresh:
            return "duplicate"
        for stage in fresh:
            stage.asked = True
            if stage.is_open and stage.waiting:
                self._open(job, stage)
        self.touch(job.id)
        self.recheck_reason(job.id)
        self.counts.version += 1
        return None

    def withdrawn(self, event: StageWithdrawn) -> str | None:
        """Tasks of a stage are asked for no more."""
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        if not 0 <= event.stage < len(job.stages):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, not {event.stage}")
        stage = job.stages[event.stage]
        if not stage.asked:
            return "duplicate"
        stage.asked = False
        if stage.index in job.open:
            self._close(job, stage)
        self.touch(job.id)
        self.recheck_reason(job.id)
        self.counts.version += 1
        return None

    def _open(self, job: JobState, stage: StageState) -> None:
        """The stage's tasks may start, if the job is in."""
        if not job.admitted:
            return
        insort(job.open, stage.index)
        job.waiting += stage.waiting
        self.waiting[job.id] = job
        self.touch(job.id)
        self.recheck_reason(job.id)
        self.sizes.count(stage.size, stage.waiting)

    def _close(self, job: JobState, stage: StageState) -> None:
        job.open.remove(stage.index)
        job.waiting -= stage.waiting
        self.sizes.count(stage.size, -stage.waiting)
        if not job.waiting:
            self.waiting.pop(job.id, None)

    def _open_children(self, job: JobState, children: list[int]) -> None:
        for child in children:
            below = job.stages[child]
            below.parents_left -= 1
            self.recheck_reason(job.spec.id)
            if below.is_open and below.waiting and not job.cancelled:
                self._open(job, below)

    def _follow_ties(self, ties: Ties, job: JobState, stage: StageState, done: int | None = None) -> None:
        """Tasks of the stage have begun, ended (`done` is the task) or wait again: open or close what is tied to it."""
        if done is not None:
            if stage.finished == stage.tasks:
                self._open_children(job, ties.barriers[stage.index])
            for child in ties.released(stage, done):
                job.stages[child].let_in(done)
                self._let_wait(job, job.stages[child])
        for child, met in ties.changed_shares(stage):
            below = job.stages[child]
            if met:
                self._open_children(job, [child])
                continue
            below.parents_left += 1
            if child in job.open:
                self._close(job, below)
            if below.running:
                self.stranded[job.id, child] = None
            self.recheck_reason(job.id)

    def _let_wait(self, job: JobState, stage: StageState) -> None:
        """Count another waiting task of a job that is in."""
        self.recheck_reason(job.id)
        if job.cancelled or not stage.is_open:
            return
        if stage.index not in job.open:
            insort(job.open, stage.index)
        job.waiting += 1
        self.waiting[job.id] = job
        self.sizes.count(stage.size, 1)

    # -- tasks ----------------------------------------------------------------------------------

    def launch(self, job: JobState, stage: StageState, task: int) -> bool:
        """Take a task out of the waiting tasks; returns whether the task is a pilot. Raises InvalidTransition."""
        pilot = False
        # In line, without a call: nearly every task of nearly every job starts this way.
        if task == stage.next and not stage.taken and not stage.pilots and not stage.returned:
            stage.next += 1  # by far the most frequent case
        else:
            pilot = stage.take_out(task, job.spec.id)
        stage.waiting -= 1
        job.waiting -= 1
        self.touch(job.spec.id)
        # As in `Sizes.count`, without its call, for the same reason.
        sizes, size = self.sizes, stage.size
        sizes.waiting[size] -= 1
        if not sizes.waiting[size]:
            del sizes.active[size]
            sizes.activity_version += 1
        # Right away: policies walk through `open` and would suggest tasks of an empty stage.
        if not stage.waiting:
            job.open.remove(stage.index)
            if not job.waiting:
                del self.waiting[job.spec.id]
        if self.ties and stage.waiting == len(stage.copies) and (ties := self.ties.get(job.spec.id)) is not None:
            there = len(job.open)
            self._follow_ties(ties, job, stage)
            self.has_opened |= len(job.open) > there
        return pilot

    def ask_copy(self, job: JobState, stage: StageState, task: int, apart: tuple[str, ...]) -> None:
        """Let one more container of a task wait. apart: nodes closed to the container."""
        stage.copies[task] = apart
        stage.waiting += 1
        self._let_wait(job, stage)
        self.touch(job.id)
        self.counts.version += 1

    def end_ask(self, job: JobState, stage: StageState, task: int) -> None:
        """Let one more container of a task wait no longer: it starts, or the task has ended."""
        if stage.index in job.open:
            self.launch(job, stage, task)
        else:
            stage.take_out(task, job.id)
            stage.waiting -= 1
        self.recheck_reason(job.id)

    def found(self, event: TaskFound) -> str | None:
        """Take in a task done unheard."""
        job = self.jobs.get(event.job)
        if job is None or not 0 <= event.stage < len(job.stages):
            return "unknown"
        stage = job.stages[event.stage]
        if not self.enter(job, stage, event.task):
            return "late"
        pilot = self.launch(job, stage, event.task)
        self.succeed(job, stage, event.task, event.runtime_ms, 1.0, pilot=pilot)
        self.counts.version += 1
        return None

    def succeed(
        self, job: JobState, stage: StageState, task: int, runtime_ms: int, speed: float, *, pilot: bool
    ) -> None:
        """Count a task as done, after its run time on a node of the given speed."""
        stage.finished += 1
        stage.done_ms += runtime_ms * speed
        job.left -= 1
        job.done_ms += runtime_ms
        if pilot:
            job.pilots_left -= 1
        if self.ties and (ties := self.ties.get(job.spec.id)) is not None:
            self._follow_ties(ties, job, stage, task)
        # A barrier: children open only with the last task of their parent.
        elif stage.finished == stage.tasks:
            self._open_children(job, job.children[stage.index])
        if not job.left or job.cancelled:
            self._forget_if_over(job)

    def fail(self, job: JobState, stage: StageState, container: ContainerState) -> None:
        """A container is gone before its task was done: the task waits again."""
        # First of all: whatever follows counts waiting tasks, this one included.
        stage.put_back(container.task, container.attempt + 1, pilot=container.pilot)
        if job.spec.stages[stage.index].gang and stage.running:
            self.parted[job.id, stage.index] = None
        if self.ties and (ties := self.ties.get(job.id)) is not None:
            self._follow_ties(ties, job, stage)
        if job.cancelled:
            self._forget_if_over(job)
        else:
            self._let_wait(job, stage)

    def stop(self, job: JobState, stage: StageState, container: ContainerState) -> None:
        """Count a container's task as no longer under way: succeeded, or failed."""
        if container.task in stage.copies:
            self.end_ask(job, stage, container.task)
        job.running -= 1
        stage.running -= 1
        if container.status == RUNNING:
            job.started -= 1
            job.started_sum -= container.started
