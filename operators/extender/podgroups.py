"""Pods that name a PodGroup with a gang policy: together they are one job, whose tasks start all or none.

The gang has as many tasks as the PodGroup's `minCount`, and each task is one of the pods. Pods beyond that number are
jobs of their own, as plain pods are. Where the API server serves no PodGroups, all pods are plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from operators.extender.driver import CoreDriver
from operators.extender.intake import Intake, SetAside
from operators.extender.jobs import JobEntry, gang_entry
from operators.extender.ledger import Task
from schedulers.core.errors import InvalidJob
from schedulers.core.events import JobSubmitted, StageWithdrawn
from schedulers.objects.names import DEFAULT_QUEUE, QUEUE_LABEL
from schedulers.objects.pod import Pod, demand, places
from schedulers.objects.podgroup import PodGroup

#: Reasons for a pod to wait outside the core: its PodGroup does not exist, or has too few pods that are alike so far.
GROUP_NOT_FOUND: Final = "PodGroupNotFound"
GROUP_INCOMPLETE: Final = "PodGroupIncomplete"


class PodGroups:
    """The pods of each PodGroup, and the jobs made of them."""

    def __init__(self, driver: CoreDriver, intake: Intake) -> None:
        self._driver, self._intake = driver, intake
        self._pods: dict[str, set[str]] = {}  # key of a PodGroup -> keys of the pods that name it

    def note(self, pod: Pod, *, gone: bool) -> None:
        """A pod that names a PodGroup was made, changed, or is gone."""
        keys = self._pods.setdefault(pod.group_key, set())
        if not gone:
            keys.add(pod.key)
            return
        keys.discard(pod.key)
        if not keys:
            del self._pods[pod.group_key]

    def pods_of(self, group: str) -> list[Pod]:
        """The pods that name the PodGroup with this key, oldest first."""
        pods = self._driver.cache.pods
        there = [pods[key] for key in self._pods.get(group, ()) if key in pods]
        return sorted(there, key=lambda pod: (pod.metadata.creationTimestamp or "", pod.key))

    def join(self, pod: Pod) -> JobEntry | None:
        """The job of the pod's PodGroup, with the pod as a member; None for a pod that is a job of its own.

        Raises SetAside while the gang is not complete, and InvalidJob for requests that cannot be read.
        """
        groups = self._driver.cache.pod_groups
        if groups is None or not pod.wants_gate:
            return None
        group = groups.get(pod.group_key)
        if group is None:
            # A pod that has left the gate is accounted for, whatever has become of its PodGroup.
            if not pod.is_gated:
                return None
            message = f"PodGroup '{pod.group_key}' does not exist; the pod waits until that PodGroup is there"
            raise SetAside(GROUP_NOT_FOUND, message, is_usual=True)
        if group.gang_size <= 1:
            return None
        entry = self._driver.jobs.of_owner(group.metadata.uid)
        if entry is None:
            return self._made(group, pod)
        return entry if self._is_alike(entry, pod) and self._enter(entry, pod) else None

    def _made(self, group: PodGroup, pod: Pod) -> JobEntry | None:
        """The job of a PodGroup that has all its pods now, or that has begun."""
        driver = self._driver
        entry = gang_entry(group, pod, driver.resources, driver.now())
        there = [each for each in self.pods_of(group.key) if self._is_alike(entry, each)]
        members = [each for each in there if not each.is_terminal or self._number(entry, each) is not None]
        begun = entry.id in driver.scheduler.state.jobs or any(not each.is_gated for each in members)
        if not begun:
            if len(members) < group.gang_size:
                message = (
                    f"PodGroup '{group.key}' has {len(members)} of the {group.gang_size} pods that start together "
                    "(with equal queues, requests and constraints)"
                )
                raise SetAside(GROUP_INCOMPLETE, message, is_usual=True)
            self._intake.check_queue(group.metadata.namespace, entry.job.queue)
        driver.jobs.add(entry)
        # Pods of which the snapshot knows the task come first: each stays the task that it is.
        for each in sorted(members, key=lambda each: self._number(entry, each) is None):
            self._enter(entry, each)
        driver.tell(JobSubmitted(driver.now(), entry.job, asks="asked"))
        return entry if pod.metadata.uid in entry.members else None

    def _number(self, entry: JobEntry, pod: Pod) -> int | None:
        """The number of the pod's task, where the ledger knows of the pod, and not of its end."""
        known = self._driver.ledger.pods.get(pod.metadata.uid)
        return known.task.number if known is not None and known.task.job == entry.id and not known.ended else None

    def _enter(self, entry: JobEntry, pod: Pod) -> bool:
        """Make the pod stand for a task, if any task is without a pod."""
        number = self._number(entry, pod)
        if number is None and not pod.is_terminal:
            number = next(self._free(entry), None)
        if number is not None:
            self._driver.jobs.join(entry, pod.metadata.uid, number)
        return number is not None

    def _free(self, entry: JobEntry) -> Iterator[int]:
        """Numbers of the tasks without a pod."""
        taken, job = entry.live_members, self._driver.scheduler.state.jobs.get(entry.id)
        for number in range(entry.job.stages[0].tasks):
            awaited = self._driver.ledger.container_without_pod(Task(entry.id, 0, number)) is not None
            if number not in taken and (job is None or awaited or job.stages[0].is_waiting(number)):
                yield number

    def _is_alike(self, entry: JobEntry, pod: Pod) -> bool:
        """Whether the pod can be a task of the gang: to the core, the tasks of a gang are equal."""
        stage, queue = entry.job.stages[0], pod.metadata.labels.get(QUEUE_LABEL, DEFAULT_QUEUE)
        try:
            asked = demand(pod.spec, self._driver.resources)
        except InvalidJob:
            return False
        return (queue, asked, places(pod.spec)) == (entry.job.queue, stage.demand, stage.places)

    def lose(self, entry: JobEntry, pod: Pod, *, gone: bool) -> bool:
        """A member has failed or is gone; returns whether the job is over: no member is left, and no PodGroup.

        The gang waits for another pod in place of the lost one, unless the lost pod's task is done. A PodGroup without
        pods keeps its job, because the core takes no second job of the same id.
        """
        driver, uid = self._driver, pod.metadata.uid
        number, job = entry.members[uid], driver.scheduler.state.jobs.get(entry.id)
        entry.failed.add(uid)
        if gone:
            driver.jobs.leave(entry, uid)
        if job is not None and job.stages[0].is_waiting(number) and number not in entry.live_members:
            entry.note_missing(0)
            driver.tell(StageWithdrawn(driver.now(), entry.id, 0))
        return not entry.members and not self._is_there(entry)

    def _is_there(self, entry: JobEntry) -> bool:
        """Whether the job's PodGroup exists."""
        group = (self._driver.cache.pod_groups or {}).get(entry.key)
        return group is not None and group.metadata.uid == entry.owner
