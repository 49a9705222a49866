"""The jobs known to the brain: the core's job, its API object, and the work done so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from operators.extender.ledger import Task
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.reasons import Reason
from schedulers.core.resources import Resources
from schedulers.objects.dagjob import DagJob, core_job
from schedulers.objects.meta import whole_number
from schedulers.objects.names import DEFAULT_QUEUE, INDEX_LABEL, QUEUE_LABEL, RECURRING_LABEL, STAGE_LABEL, USER_LABEL
from schedulers.objects.pod import Pod, demand, places
from schedulers.objects.podgroup import PodGroup
from schedulers.objects.service import pod_service

#: The only stage of a pod's own job, and of a PodGroup's.
_PLAIN_STAGE: Final = "pod"
_GANG_STAGE: Final = "gang"


class JobEntry:
    """One job.

    `owner` is the object's uid, `key` its `namespace/name`; `plain` marks a pod of its own, or a PodGroup, instead of a
    DagJob.
    """

    def __init__(self, job: Job, owner: str, key: str, submitted: int, *, plain: bool = False) -> None:
        self.job, self.owner, self.key, self.submitted, self.plain = job, owner, key, submitted, plain
        self.reason: Reason | None = None
        self.done = False
        self._stages = {stage.name: index for index, stage in enumerate(job.stages)}
        self._pods_seen: list[set[int]] = [set() for _ in job.stages]
        self.asked_stages: set[int] = set()
        """Stages of which the core knows that they may start."""
        self._ran: list[tuple[int, int]] = [(0, 0) for _ in job.stages]  # tasks, ms
        self.members: dict[str, int] = {}
        """Of a PodGroup: the number of each pod's task, by uid of the pod."""
        self.failed: set[str] = set()
        """Uids of the members that have failed, whose tasks wait for other pods."""

    def in_owners_words(self, sentence: str) -> str:
        """A sentence on the wait in the owner's words: the owner of a single pod has never heard of a stage."""
        if not self.plain:
            return sentence
        return sentence.replace(f"stage {_PLAIN_STAGE}", "the pod").replace(f"stage {_GANG_STAGE}", "the PodGroup")

    @property
    def live_members(self) -> set[int]:
        """Numbers of the tasks with a pod that has not failed."""
        return {number for uid, number in self.members.items() if uid not in self.failed}

    @property
    def is_pod_group(self) -> bool:
        """Whether the owner is a PodGroup."""
        return self.plain and self.job.stages[0].gang

    @property
    def id(self) -> str:
        """The core's id of the job."""
        return self.job.id

    def task(self, pod: Pod) -> Task | None:
        """The task of a pod of this job; None when the labels name none."""
        if self.plain:
            return Task(self.id, 0, self.members.get(pod.metadata.uid, 0))
        if pod.metadata.namespace != self.key.partition("/")[0]:
            return None  # owners and their pods share a namespace
        labels = pod.metadata.labels
        stage, index = self.stage(labels.get(STAGE_LABEL, "")), whole_number(labels.get(INDEX_LABEL, ""))
        if stage is None or index is None or index >= self.job.stages[stage].tasks:
            return None
        return Task(self.id, stage, index)

    def stage(self, name: str) -> int | None:
        """Index of the stage called `name`; None if there is none."""
        return self._stages.get(name)

    def mean_ms(self, stage: int) -> int:
        """Mean run time of the stage's tasks, ms; else the hinted one; 0 where nothing is known."""
        tasks, total = self._ran[stage]
        return total // tasks if tasks else self.job.stages[stage].hint_ms or 0

    def note_pod(self, stage: int, index: int) -> bool:
        """A pod of this task is there; returns whether all tasks of the stage have had a pod."""
        self._pods_seen[stage].add(index)
        return len(self._pods_seen[stage]) == self.job.stages[stage].tasks

    def note_missing(self, stage: int) -> None:
        """A task of the stage has lost its pod: the stage is asked for again once all its tasks have pods."""
        self.asked_stages.discard(stage)
        self._pods_seen[stage] = self.live_members

    def note_asked(self, stage: int) -> None:
        """Note that the core knows now: the stage may start."""
        self.asked_stages.add(stage)
        # Not needed after the stage's start: the set may hold thousands of tasks.
        self._pods_seen[stage] = set()

    def note_run(self, stage: int, runtime_ms: int) -> None:
        """A task of the stage has succeeded, after `runtime_ms` at node speed 1."""
        tasks, total = self._ran[stage]
        self._ran[stage] = (tasks + 1, total + runtime_ms)

    def as_past_job(self, now: int) -> PastJob:
        """The job as history remembers it. Stages without any run are left out."""
        job, ran = self.job, zip(self.job.stages, self._ran, strict=True)
        stages = tuple((stage.tasks, total / tasks) for stage, (tasks, total) in ran if tasks)
        return PastJob(
            name=job.name,
            submitted=self.submitted,
            finished=now,
            stages=stages,
            user=job.user,
            app=job.app,
            demand=job.stages[0].demand,
            queue=job.queue,
        )

    @property
    def all_ran(self) -> bool:
        """Whether every stage has had a task succeed."""
        return all(tasks for tasks, _ in self._ran)


class Jobs:
    """Jobs by the core's id and by the uid of their object."""

    def __init__(self) -> None:
        self._by_id: dict[str, JobEntry] = {}
        self._by_owner: dict[str, JobEntry] = {}
        self.to_report: dict[str, None] = {}  # jobs with a changed reason to wait; `StatusWriter` clears the dict

    def __iter__(self) -> Iterator[JobEntry]:
        # A copy, because callers drop jobs on the way.
        return iter(list(self._by_id.values()))

    def get(self, job: str) -> JobEntry | None:
        """The job of the core's id."""
        return self._by_id.get(job)

    def of_owner(self, uid: str) -> JobEntry | None:
        """The job of the DagJob or pod with this uid."""
        return self._by_owner.get(uid)

    def make(self, dagjob: DagJob, resources: Resources, now: int) -> JobEntry:
        """The entry of a DagJob, not entered yet. Raises InvalidJob for a malformed DagJob."""
        # The API server's time, so that every leader tells the same.
        submitted = dagjob.metadata.created_ms
        job = core_job(dagjob, resources)
        return JobEntry(job, dagjob.metadata.uid, dagjob.key, submitted if submitted is not None else now)

    def add(self, entry: JobEntry) -> JobEntry:
        """Enter a job."""
        self._by_id[entry.id] = self._by_owner[entry.owner] = entry
        return entry

    def join(self, entry: JobEntry, pod: str, number: int) -> None:
        """The pod of this uid stands for a task of a PodGroup's job."""
        entry.members[pod] = number
        self._by_owner[pod] = entry

    def leave(self, entry: JobEntry, pod: str) -> None:
        """The pod of this uid is no member of its PodGroup any more."""
        del entry.members[pod], self._by_owner[pod]
        entry.failed.discard(pod)

    def drop(self, job: str) -> None:
        """The job's object is gone."""
        entry = self._by_id.pop(job, None)
        if entry is not None:
            for uid in (entry.owner, *entry.members):
                self._by_owner.pop(uid, None)
            self.to_report.pop(job, None)

    def hold(self, job: str, reason: Reason) -> None:
        """The core gives the reason for the job's wait."""
        entry = self._by_id.get(job)
        if entry is not None:
            entry.reason = reason
            self.to_report[job] = None


def plain_id(item: Pod | PodGroup) -> str:
    """The core's id of a joining pod's job, or a PodGroup's."""
    return f"{item.key}.{item.metadata.uid[:8]}"


def plain_entry(pod: Pod, resources: Resources, now: int) -> JobEntry:
    """A joining pod as a job of one task, a Deployment's as a service. Raises InvalidJob for a pod without requests."""
    meta, labels = pod.metadata, pod.metadata.labels
    job = Job(
        id=plain_id(pod),
        name=labels.get(RECURRING_LABEL) or (meta.generateName or meta.name).rstrip("-"),
        user=labels.get(USER_LABEL, ""),
        queue=labels.get(QUEUE_LABEL, DEFAULT_QUEUE),
        stages=(Stage(name=_PLAIN_STAGE, tasks=1, demand=demand(pod.spec, resources), places=places(pod.spec)),),
        service=pod_service(meta),
    )
    return JobEntry(job, meta.uid, pod.key, now, plain=True)


def gang_entry(group: PodGroup, pod: Pod, resources: Resources, now: int) -> JobEntry:
    """A PodGroup as a job with a gang of its size, whose pods are like `pod`. Raises as `plain_entry`."""
    job = plain_entry(pod, resources, now).job
    gang = msgspec.structs.replace(job.stages[0], name=_GANG_STAGE, tasks=group.gang_size, gang=True)
    named = pod.metadata.labels.get(RECURRING_LABEL) or group.metadata.name
    job = msgspec.structs.replace(job, id=plain_id(group), name=named, stages=(gang,), service=None)
    return JobEntry(job, group.metadata.uid, group.key, now, plain=True)
