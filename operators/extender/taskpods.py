"""The life of a task's pod as facts for the core: waiting, bound, running, ended, gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from operators.extender.driver import CoreDriver
from operators.extender.jobs import JobEntry
from operators.extender.ledger import Task, runtime_ms
from schedulers.core.events import ContainerStarted, JobChanged, TaskFound
from schedulers.core.model import PastJob
from schedulers.core.state import GRANTED
from schedulers.objects.pod import Pod

log = structlog.get_logger()

#: Exit code of a failed pod without one.
FAILED: Final = 1


class TaskPods:
    """Tells the core how the containers behind the pods fare. `remember` is explained in `ChangeTranslator`."""

    def __init__(self, driver: CoreDriver, remember: Callable[[PastJob], None]) -> None:
        self.scheduler, self.ledger = driver.scheduler, driver.ledger
        self.tell, self.now = driver.tell, driver.now
        self._driver, self._remember_job = driver, remember

    def hear(self, entry: JobEntry, task: Task, pod: Pod, *, gone: bool) -> None:
        """The pod of a task was made, changed, or is gone."""
        uid = pod.metadata.uid
        # The window first: room for another release does not depend on what the core makes of this pod.
        if gone or pod.is_terminal or pod.verdict is not None:
            self._driver.releases.stop_waiting(uid)
        elif pod.spec.nodeName:
            self._driver.releases.bound(uid)
        if gone:
            # The last state may be the first news of the end: a pod can end and go between two events.
            if pod.is_terminal and uid in self.ledger.pods:
                self._pod_ended(entry, task, pod)
            placed = self._driver.container_of(uid)
            self.lose(uid)
            if placed is not None and pod.verdict is not None:
                self._driver.back_off(task, placed.granted, f"pod {pod.metadata.name}: {pod.verdict}")
            return
        self.ledger.put(uid, pod.key, task, pod.attempt)
        self.ask(entry, task, pod)
        if pod.is_terminal:
            self._pod_ended(entry, task, pod)
        elif pod.is_gated:
            self._pod_waits(task, pod)
        elif pod.spec.nodeName:
            self._pod_bound(task, pod)
        elif pod.narrowed_to:
            self._pod_narrowed(task, pod, pod.narrowed_to)
        else:
            self._pod_unbound(task, pod)

    def ask(self, entry: JobEntry, task: Task, pod: Pod) -> None:
        """A stage may start once all its pods are there (or, after a change of leaders, if any of them has started)."""
        if task.stage in entry.asked_stages:
            return
        # Not before all pods are there: a gang asked for with half its pods could not start as a whole.
        if entry.note_pod(task.stage, task.number) or not pod.is_gated:
            self._open(entry, task.stage)

    def _open(self, entry: JobEntry, stage: int) -> None:
        if stage not in entry.asked_stages:
            entry.note_asked(stage)
            if not entry.plain or entry.is_pod_group:
                self.tell(JobChanged(self.now(), entry.id, (stage,)))

    def _pod_waits(self, task: Task, pod: Pod) -> None:
        container = self.ledger.container_without_pod(task)
        if container is not None and not pod.metadata.deletionTimestamp and self.ledger.is_current(pod.metadata.uid):
            self.ledger.assign(container, pod.metadata.uid)
            self._driver.release(pod, self.scheduler.state.containers[container].node)

    def _pod_narrowed(self, task: Task, pod: Pod, node: str) -> None:
        """Narrowing is one-way: the node in the pod holds, whoever decided on the node."""
        container = self._driver.container_of(pod.metadata.uid)
        if container is not None and container.node != node:
            self._driver.end(container.id)
            container = None
        if container is None:
            self._driver.adopt(task, pod, node)

    def _pod_unbound(self, task: Task, pod: Pod) -> None:
        """kube-scheduler chooses the node, and may know why there is none: then nothing is kept for the pod.

        A verdict is told once; a verdict on room given later is read from the silence (see `expire`).
        """
        known, verdict = self.ledger.pods[pod.metadata.uid], pod.verdict
        container, is_news = self._driver.container(known.container), verdict != known.verdict
        known.verdict = verdict
        if container is not None and verdict is not None and is_news:
            self._driver.give_up(container.id)
            self._driver.back_off(task, container.granted, f"pod {pod.metadata.name}: {verdict}")

    def _pod_bound(self, task: Task, pod: Pod) -> None:
        known = self.ledger.pods[pod.metadata.uid]
        container = self._driver.container(known.container)
        if container is not None and container.node != pod.spec.nodeName:
            log.warning(
                "a pod is on another node than decided", pod=pod.key, node=pod.spec.nodeName, not_on=container.node
            )
            self._driver.end(container.id)
            container = None
        if container is None:
            container = self._driver.adopt(task, pod, pod.spec.nodeName)
        if container is not None and container.status == GRANTED and pod.is_running:
            # Heard here, in ms: the object's own stamps are whole seconds.
            known.started = self.now()
            self.tell(ContainerStarted(known.started, container.id))
            self._driver.backoffs.clear((task.job, task.stage))

    def _pod_ended(self, entry: JobEntry, task: Task, pod: Pod) -> None:
        known = self.ledger.pods[pod.metadata.uid]
        if known.ended:
            return
        # An end counts once, however often the pod is heard of afterwards.
        known.ended = True
        container, code = self._driver.container(known.container), pod.exit_code
        if container is None and code == 0:  # granted before its pod was known, by us or in the snapshot
            container = self._driver.container(self.ledger.container_without_pod(task))
            if container is not None:
                self.ledger.assign(container.id, pod.metadata.uid)
        runtime = runtime_ms(known.started, pod, self.now())
        work = self._at_speed_one(runtime, pod.spec.nodeName)
        if code == 0:
            entry.note_run(task.stage, work)
        if container is None:
            if code == 0:
                self.tell(TaskFound(self.now(), task.job, task.stage, task.number, work))
        else:
            # A short task may end before it was seen running; the core expects a start before every end.
            if container.status == GRANTED and code == 0:
                self.tell(ContainerStarted(self.now(), container.id))
            self._driver.end(container.id, code if code is not None else FAILED, runtime if code == 0 else 0)
            if pod.refusal is not None:
                why = f"node {pod.spec.nodeName} refused pod {pod.metadata.name}: {pod.refusal}"
                self._driver.back_off(task, container.granted, why)
        self._remember(entry)

    def _at_speed_one(self, runtime: int, node: str) -> int:
        """A run time on this node at history's speed of 1; a node no longer known counts as one of speed 1."""
        there = self.scheduler.state.nodes.get(node)
        return round(runtime * there.spec.speed) if there is not None else runtime

    def hear_done(self, entry: JobEntry, stage: int, numbers: Iterable[int]) -> None:
        """Tasks succeeded by their job's status; a task already heard of by its pod is skipped.

        The status has no run times, so the mean of the stage's other tasks is taken.
        """
        for number in numbers:
            job = self.scheduler.state.jobs.get(entry.id)
            if job is None or not job.stages[stage].is_waiting(number):
                continue
            self._open(entry, stage)
            self.tell(TaskFound(self.now(), entry.id, stage, number, entry.mean_ms(stage)))

    def lose(self, uid: str) -> None:
        """A pod is gone, or over without a known owner: its room is free."""
        container = self._driver.container_of(uid)
        self.ledger.drop(uid)
        if container is not None:
            self._driver.end(container.id)

    def _remember(self, entry: JobEntry) -> None:
        """Hand a finished job to history."""
        if not entry.done and entry.id not in self.scheduler.state.jobs and entry.all_ran:
            entry.done = True
            self._remember_job(entry.as_past_job(self.now()))
