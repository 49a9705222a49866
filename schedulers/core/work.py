"""Live jobs, and which of their tasks wait: stages open as their parents end, tasks are launched, succeed, return."""

from __future__ import annotations

from bisect import insort
from typing import Final

from schedulers.core.admission import Admission
from schedulers.core.journal import Journal
from schedulers.core.live import RUNNING, ContainerState, JobState, StageState
from schedulers.core.sizes import Sizes

#: Finished jobs remembered so that a repeated submission is not run again.
REMEMBERED: Final = 10_000


class Work:
    """The jobs of one cluster. admission: who is let in. sizes: counts what waits. journal: hears of changes."""

    __slots__ = ("_admission", "_doubt", "_sizes", "_touch", "finished", "jobs", "parted", "waiting")

    def __init__(self, admission: Admission, sizes: Sizes, journal: Journal) -> None:
        self._admission, self._sizes = admission, sizes
        self._touch, self._doubt = journal.orders.note, journal.reasons.note
        self.jobs: dict[str, JobState] = {}
        """Live jobs by id, in order of submission."""
        self.waiting: dict[str, JobState] = {}
        """Jobs with launchable tasks; from `jobs`, in the order in which they came to have some."""
        self.finished: dict[str, None] = {}
        """The last jobs that are over."""
        self.parted: dict[tuple[str, int], None] = {}
        """Gangs (job and stage) of which a member came back while others ran, and some that have ended since."""

    def parted_gangs(self) -> list[tuple[JobState, StageState]]:
        """Gangs of which some members run and others may start, the longest so in front."""
        gangs = []
        for key in list(self.parted):
            job = self.jobs.get(key[0])
            if job is None or not (stage := job.stages[key[1]]).running or not stage.waiting:
                del self.parted[key]
            elif stage.index in job.open:
                gangs.append((job, stage))
        return gangs

    # -- jobs come and go -----------------------------------------------------------------------

    def add(self, job: JobState) -> None:
        """A new job: it is let in, or waits outside its queue."""
        self.jobs[job.id] = job
        self._touch(job.id)
        self._doubt(job.id)
        if self._admission.may_enter(job):
            self._admit(job)
        else:
            job.admitted = False
            self._admission.wait(job)

    def enter(self, job: JobState) -> None:
        """Something of the job runs already by another's decision: it is in, whatever the limits say."""
        if not job.admitted:
            self._admission.leave(job)
            self._admit(job)

    def admit_pending(self) -> None:
        """Let in who may enter now."""
        while self._admission.pending and (job := self._admission.next()) is not None:
            self._admission.leave(job)
            self._admit(job)

    def _admit(self, job: JobState) -> None:
        """From now on the job counts as one that its queue runs, and its stages open."""
        job.admitted = True
        self._admission.count(job, 1)
        for stage in job.stages:
            if stage.is_open and stage.waiting:
                self.open(job, stage)

    def cancel(self, job: JobState) -> None:
        """Nothing more of the job is launched."""
        job.cancelled = True
        for index in list(job.open):
            self._close(job, job.stages[index])
        self._touch(job.id)
        self._forget_if_over(job)

    def _forget_if_over(self, job: JobState) -> None:
        if job.left and not (job.cancelled and not job.running):
            return
        del self.jobs[job.id]
        if job.admitted:  # its queue may run another
            self._admission.count(job, -1)
            self.admit_pending()
        else:
            self._admission.leave(job)
        self.finished[job.id] = None
        if len(self.finished) > REMEMBERED:
            del self.finished[next(iter(self.finished))]

    # -- stages ---------------------------------------------------------------------------------

    def open(self, job: JobState, stage: StageState) -> None:
        """The stage's tasks may start, if the job is in."""
        if not job.admitted:
            return
        insort(job.open, stage.index)
        job.waiting += stage.waiting
        self.waiting[job.id] = job
        self._touch(job.id)
        self._doubt(job.id)
        self._sizes.count(stage.size, stage.waiting)

    def ask(self, job: JobState, stage: StageState) -> None:
        """The stage's tasks are asked for."""
        stage.asked = True
        if stage.is_open and stage.waiting:
            self.open(job, stage)

    def withdraw(self, job: JobState, stage: StageState) -> None:
        """They are asked for no more."""
        stage.asked = False
        if stage.index in job.open:
            self._close(job, stage)
        self._touch(job.id)
        self._doubt(job.id)

    def _close(self, job: JobState, stage: StageState) -> None:
        job.open.remove(stage.index)
        job.waiting -= stage.waiting
        self._sizes.count(stage.size, -stage.waiting)
        if not job.waiting:
            self.waiting.pop(job.id, None)

    def _open_children(self, job: JobState, stage: StageState) -> None:
        for child in job.children[stage.index]:
            below = job.stages[child]
            below.parents_left -= 1
            self._doubt(job.spec.id)
            if below.is_open and not job.cancelled:
                self.open(job, below)

    # -- tasks ----------------------------------------------------------------------------------

    def launch(self, job: JobState, stage: StageState, task: int) -> bool:
        """Take one task out of the waiting ones; returns whether it is a pilot. Raises InvalidTransition."""
        pilot = False
        if task == stage.next and not stage.taken and not stage.pilots and not stage.returned:
            stage.next += 1  # by far the most frequent case
        else:
            pilot = stage.take_out(task, job.spec.id)
        stage.waiting -= 1
        job.waiting -= 1
        self._touch(job.spec.id)
        sizes, size = self._sizes, stage.size
        sizes.waiting[size] -= 1
        if not sizes.waiting[size]:
            del sizes.active[size]
            sizes.turns += 1
        if not stage.waiting:
            job.open.remove(stage.index)
            if not job.waiting:
                del self.waiting[job.spec.id]
        return pilot

    def succeed(self, job: JobState, stage: StageState, runtime_ms: int, speed: float, *, pilot: bool) -> None:
        """One more task is done, after so long on a node of this speed."""
        stage.finished += 1
        stage.done_ms += runtime_ms * speed
        job.left -= 1
        job.done_ms += runtime_ms
        if pilot:
            job.pilots_left -= 1
        if stage.finished == stage.tasks:
            self._open_children(job, stage)
        if not job.left or job.cancelled:
            self._forget_if_over(job)

    def fail(self, job: JobState, stage: StageState, container: ContainerState) -> None:
        """A container is gone before its task was done: the task waits again."""
        stage.put_back(container.task, container.attempt + 1, pilot=container.pilot)
        if job.spec.stages[stage.index].gang and stage.running:
            self.parted[job.id, stage.index] = None
        if job.cancelled:
            self._forget_if_over(job)
            return
        self._doubt(job.id)
        if not stage.is_open:
            return
        if stage.index not in job.open:
            insort(job.open, stage.index)
        job.waiting += 1
        self.waiting[job.id] = job
        self._sizes.count(stage.size, 1)

    @staticmethod
    def stop(job: JobState, stage: StageState, container: ContainerState) -> None:
        """A container's task is not under way any more: it has succeeded, or failed."""
        job.running -= 1
        stage.running -= 1
        if container.status == RUNNING:
            job.started -= 1
            job.started_sum -= container.started
