"""A DagJob's present needs: a pure function of the objects, so that a restart knows all that its predecessor knew.

A task is done once any of its pods has succeeded (and stays so when the pod is deleted: the status remembers).
Otherwise the task's pod of the highest attempt is current; if the current pod has failed, or is gone, another is made.
Failures are counted, and remembered in the status too; a pod stopped from outside has not failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from operators.events import Event
from schedulers.core.errors import InvalidJob
from schedulers.core.resources import Resources
from schedulers.objects.dagjob import (
    DagJob,
    DagJobStatus,
    StageSpec,
    StageStatus,
    WholeDagJob,
    core_job,
    read_indexes,
    read_tries,
    scheduled,
    show_indexes,
    write_tries,
)
from schedulers.objects.meta import label_value, to_ms, whole_number
from schedulers.objects.names import (
    API_VERSION,
    ATTEMPT_LABEL,
    DAGJOB_LABEL,
    DEFAULT_QUEUE,
    GATE,
    INDEX_LABEL,
    PODS_UNPLACED,
    QUEUE_LABEL,
    RESERVED_TAINT,
    SCHEDULER,
    STAGE_LABEL,
    USER_LABEL,
)
from schedulers.objects.pod import Condition, Pod, unknown_resource

#: A stage with its pod template as it was written.
Stage = StageSpec[dict[str, Any]]
#: Resources whose quantities are read where the configuration lets jobs ask for anything.
_RESOURCES: Final = ("cpu", "memory", "pods")
#: Names of pods are host names.
_LONGEST: Final = 63
#: `status.reason` of pods stopped or not let in by kubelets and Kubernetes' controllers.
_STOPPED: Final = frozenset(
    {"Evicted", "NodeLost", "Preempted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"}
)


class CreatePod(msgspec.Struct, frozen=True):
    """An order to make the pod of a task's attempt."""

    name: str
    body: dict[str, Any]
    attempt: int
    cause: str = "first"
    """As `rm_pods_created_total` counts."""
    event: Event | None = None
    """Reported once the pod is made."""


class DeletePod(msgspec.Struct, frozen=True):
    """An order to delete a pod, if unchanged since the decision."""

    name: str
    uid: str
    version: str
    why: str
    node: str = ""
    """A node gone with its kubelet, so that nobody is left to tell the pod's end; checked again before deleting."""
    event: Event | None = None
    """Reported once the pod is deleted."""


class Plan(msgspec.Struct):
    """Pods to make and delete, events to report, and the status as of now."""

    creates: list[CreatePod] = []
    deletes: list[DeletePod] = []
    events: list[Event] = []
    status: DagJobStatus = msgspec.field(default_factory=DagJobStatus)
    expired: bool = False
    """Whether the job itself is to be deleted."""
    requeue_after_s: float | None = None
    """Look again by then; None: when something changes."""


class PlanContext(msgspec.Struct, frozen=True):
    """Everything else a plan depends on."""

    now_ms: int
    heard_ms: int
    """For how long everything has been heard without a break, ms."""
    nodes: Collection[str]
    queues: Collection[str]
    unschedulable_since: Mapping[str, int]
    """By pod uid, when kube-scheduler was first heard to find no node for the pod (ms since the epoch)."""
    recreate_after_ms: int
    stamp: Callable[[int], str]
    """Turns ms since the epoch into RFC 3339 text."""
    resources: Collection[str] | None = None
    """Resources open to templates; None: all."""

    def unschedulable_ms(self, pod: Pod) -> int | None:
        """For how long kube-scheduler has found no node, as far as heard; None: no such word."""
        since = self.unschedulable_since.get(pod.metadata.uid)
        return min(self.now_ms - since, self.heard_ms) if since is not None else None


class _Task(msgspec.Struct):
    """A task's pods."""

    index: int
    done: bool
    current: Pod | None
    attempt: int
    """The highest attempt used, -1 for none."""
    failures: int
    ended: int = -1
    """The highest attempt with a bad end, -1 for none."""
    uncounted_failures: int = 0
    """Failures not yet in the status."""
    lost: str | None = None
    """Why the current pod has to go, or None."""
    unplaced: tuple[str, str] | None = None
    """Reason and message of the refusal by kube-scheduler or kubelet, or None."""


def plan(job: WholeDagJob, pods: Sequence[Pod], context: PlanContext) -> Plan:
    """The DagJob's needs now, given all pods that belong to the job."""
    if job.is_over:
        return _after_the_end(job, pods, context)
    todo = Plan(status=msgspec.structs.replace(job.status, observedGeneration=job.metadata.generation))
    refusal = _refusal(job, pods, context)
    if refusal is not None:
        _end(todo, context, "Failed", *refusal)
        return todo  # the stages are not looked at: they may have countless tasks, or parents that do not exist
    stages = {stage.name: list(_tasks(job, stage, pods, context)) for stage in job.spec.stages}
    for stage in job.spec.stages:
        _plan_stage(job, stage, stages, todo)
    _write_status(job, stages, pods, todo, context)
    if todo.status.phase == "Failed":
        todo.creates.clear()
        todo.deletes = [_delete(pod, "the job has failed") for pod in pods if not _is_ending(pod)]
    todo.requeue_after_s = _requeue_after_s(job, pods, context)
    return todo


def _refusal(job: WholeDagJob, pods: Sequence[Pod], context: PlanContext) -> tuple[str, str] | None:
    """Why a job not begun never will begin, as reason and sentence: a DagJob cannot be changed."""
    if pods or any(stage.started for stage in job.status.stages):
        return None
    try:
        read = scheduled(job)
        unknown = _unknown_resource(read, context.resources) if context.resources is not None else None
        if unknown is not None:
            return "UnknownResource", unknown
        core_job(read, Resources(context.resources or _RESOURCES))
    except InvalidJob as error:
        return "Unreadable", str(error)
    return None


def _unknown_resource(job: DagJob, resources: Collection[str]) -> str | None:
    """The first request outside the configured resources: such pods would be placed blindly."""
    for stage in job.spec.stages:
        name = unknown_resource(stage.template.spec, resources)
        if name is not None:
            return (
                f"stage {stage.name} asks for {name}, which is not among the configured resources "
                f"({', '.join(resources)}): add it there, or set unknownResources: leave"
            )
    return None


def _before(job: WholeDagJob, stage: Stage) -> StageStatus:
    """The stage's part of the status."""
    return next((status for status in job.status.stages if status.name == stage.name), StageStatus(stage.name))


def _tasks(job: WholeDagJob, stage: Stage, pods: Sequence[Pod], context: PlanContext) -> Iterator[_Task]:
    before = _before(job, stage)
    done, tries = read_indexes(before.completedIndexes, stage.tasks), read_tries(before.tries, stage.tasks)
    mine: dict[int, list[Pod]] = {}
    for pod in pods:
        number = whole_number(pod.metadata.labels.get(INDEX_LABEL, ""))
        if pod.metadata.labels.get(STAGE_LABEL) == stage.name and number is not None:
            mine.setdefault(number, []).append(pod)
    for index in range(stage.tasks):
        yield _task(index, index in done, tries.get(index, (0, -1)), mine.get(index, ()), context)


def _task(index: int, done: bool, known: tuple[int, int], pods: Sequence[Pod], context: PlanContext) -> _Task:
    """`known` has the failures, and the attempt up to which they are counted already."""
    failures, ended = known
    current = max(pods, key=lambda pod: pod.attempt, default=None)
    bad = [pod for pod in pods if pod.exit_code not in (None, 0)]
    news = 0 if done else sum(1 for pod in bad if pod.attempt > ended and not is_disrupted(pod))
    return _Task(
        index=index,
        done=done or any(pod.exit_code == 0 for pod in pods),
        current=current,
        attempt=max(ended, current.attempt if current is not None else -1),
        failures=failures + news,
        ended=max([ended, *(pod.attempt for pod in bad)]),
        uncounted_failures=news,
        lost=_lost(current, context) if current is not None else None,
        unplaced=_unplaced(pods, current) if current is not None else None,
    )


def _unplaced(pods: Iterable[Pod], current: Pod) -> tuple[str, str] | None:
    """(reason, message) of kube-scheduler on a task's pod, or of the kubelet that refused this pod or the last."""
    if (said := current.unbound) is not None:
        return said.reason, f"kube-scheduler cannot bind pod {current.metadata.name}: {said.message}"
    if current.spec.nodeName and current.refusal is None:
        return None
    late = sorted((pod for pod in pods if pod.attempt >= current.attempt - 1), key=lambda pod: -pod.attempt)
    refused = next((pod for pod in late if pod.refusal is not None), None)
    return (refused.status.reason, _refused(refused)) if refused is not None else None


def _refused(pod: Pod) -> str:
    return f"node {pod.spec.nodeName} refused pod {pod.metadata.name}: {pod.refusal}"


def is_disrupted(pod: Pod) -> bool:
    """Whether a failed pod was deleted, evicted, preempted or never let in, or lost its node: no failed try.

    The cases for `podFailurePolicy` of a batch Job to ignore (DisruptionTarget), and older signs of the same.
    """
    if pod.status.phase != "Failed":
        return False
    return (
        pod.metadata.deletionTimestamp is not None
        or pod.status.reason in _STOPPED
        or pod.refusal is not None
        or any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions)
    )


def _lost(pod: Pod, context: PlanContext) -> str | None:
    """Why a pod will never start (or never end), although nobody says so."""
    if pod.is_terminal or pod.metadata.deletionTimestamp:
        return None
    if pod.spec.nodeName:
        return None if pod.spec.nodeName in context.nodes else f"node {pod.spec.nodeName} is gone"
    if pod.narrowed_to is None or pod.spec.schedulingGates:
        return None
    if pod.narrowed_to not in context.nodes:
        return f"node {pod.narrowed_to} is gone"
    # A pod not tried yet, after a change of leaders or an outage, waits no longer than a new pod would.
    long = context.unschedulable_ms(pod)
    if long is not None and long >= context.recreate_after_ms:
        return f"kube-scheduler has found no room on node {pod.narrowed_to} for {long // 1000} s ({pod.verdict})"
    return None


def _plan_stage(job: WholeDagJob, stage: Stage, stages: Mapping[str, list[_Task]], todo: Plan) -> None:
    if not _may_start(stage, stages):
        return
    for task in stages[stage.name]:
        pod = task.current
        if task.done:
            continue
        if task.lost is not None and pod is not None:
            message = f"pod {pod.metadata.name}: {task.lost}; it is made anew"
            event = Event("Recreated", message, warning=True)
            todo.deletes.append(_delete(pod, task.lost, node=pod.spec.nodeName, event=event))
        elif (pod is None or pod.is_terminal) and task.failures <= job.spec.retries:
            todo.creates.append(_create(job, stage, task))
    if not _has_started(job, stage, stages):
        todo.events.append(Event("StageStarted", f"stage {stage.name}: {stage.tasks} tasks"))


def _may_start(stage: Stage, stages: Mapping[str, list[_Task]]) -> bool:
    return all(task.done for parent in stage.parents for task in stages[parent])


def _has_started(job: WholeDagJob, stage: Stage, stages: Mapping[str, list[_Task]]) -> bool:
    """Whether the stage had started before this look; later refusals of pods do not make a second start."""
    begun = any(task.current is not None or task.done for task in stages[stage.name])
    return _before(job, stage).started or begun


def _delete(pod: Pod, why: str, *, node: str = "", event: Event | None = None) -> DeletePod:
    return DeletePod(pod.metadata.name, pod.metadata.uid, pod.metadata.resourceVersion, why, node, event)


def _is_ending(pod: Pod) -> bool:
    return pod.is_terminal or pod.metadata.deletionTimestamp is not None


# -- pods ---------------------------------------------------------------------------------------


def pod_name(job: str, stage: str, index: int, attempt: int) -> str:
    """`job-stage-index-attempt`; a name too long is cut, and told apart by a hash."""
    tail = f"-{stage}-{index}-{attempt}"
    if len(job) + len(tail) <= _LONGEST:
        return job + tail
    digest = hashlib.sha256(f"{job}{tail}".encode()).hexdigest()[:8]
    return f"{job[: _LONGEST - len(tail) - 9].rstrip('.-')}-{digest}{tail}"


def _create(job: WholeDagJob, stage: Stage, task: _Task) -> CreatePod:
    """The pod of a task's next attempt."""
    attempt = task.attempt + 1
    name = pod_name(job.metadata.name, stage.name, task.index, attempt)
    cause, event = "first" if attempt == 0 else "retry", None
    if task.current is not None and task.current.refusal is not None:
        cause, event = "recreated", Event("PodRefused", f"{_refused(task.current)}; it is made anew", True)
    elif task.current is not None and is_disrupted(task.current):
        cause = "recreated"
        event = Event("Recreated", f"pod {task.current.metadata.name} was stopped from outside; it is made anew", True)
    elif task.current is not None:
        message = f"task {task.index} of stage {stage.name} ended with code {task.current.exit_code}"
        event = Event("TaskRetried", message, warning=True)
    return CreatePod(name, _body(job, stage, name, task.index, attempt), attempt, cause, event)


def _body(job: WholeDagJob, stage: Stage, name: str, index: int, attempt: int) -> dict[str, Any]:
    template = stage.template
    given = template.get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        QUEUE_LABEL: job.spec.queue,
        DAGJOB_LABEL: job.metadata.name,
        STAGE_LABEL: stage.name,
        INDEX_LABEL: str(index),
        ATTEMPT_LABEL: str(attempt),
    }
    if user := label_value(job.spec.user):
        labels[USER_LABEL] = user
    spec = dict(template["spec"])
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != GATE]
    tolerations = [t for t in spec.get("tolerations") or () if t.get("key") != RESERVED_TAINT]
    spec |= {"schedulerName": SCHEDULER, "schedulingGates": [{"name": GATE}, *gates]}
    spec["tolerations"] = [*tolerations, {"key": RESERVED_TAINT, "operator": "Exists"}]
    if spec.get("restartPolicy") not in ("Never", "OnFailure"):
        spec["restartPolicy"] = "Never"
    owner = {
        "apiVersion": API_VERSION,
        "kind": "DagJob",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": labels,
        "annotations": given.get("annotations") or {},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# -- status -------------------------------------------------------------------------------------


def _write_status(
    job: WholeDagJob,
    stages: Mapping[str, list[_Task]],
    pods: Sequence[Pod],
    todo: Plan,
    context: PlanContext,
) -> None:
    status = todo.status
    status.stages = [_stage_status(job, stage, stages) for stage in job.spec.stages]
    status.tasks = sum(stage.tasks for stage in job.spec.stages)
    status.succeeded = sum(stage.succeeded for stage in status.stages)
    started = any(pod.spec.nodeName for pod in pods)
    if started and status.startTime is None:
        status.startTime = context.stamp(context.now_ms)
    status.phase = "Running" if started or status.succeeded else "Pending"
    if status.succeeded == status.tasks:
        _end(todo, context, "Succeeded", "AllTasksSucceeded", "all tasks succeeded")
    elif (given_up := _given_up(job, stages)) is not None:
        _end(todo, context, "Failed", "TaskFailed", given_up)
    conditions = {condition.type: condition for condition in status.conditions}
    _set_unplaced(conditions, stages, context)
    known = job.spec.queue == DEFAULT_QUEUE or job.spec.queue in context.queues
    _set(conditions, context, "QueueKnown", known, "Found" if known else "NotFound", f"queue {job.spec.queue}")
    deadline = to_ms(job.spec.deadline)
    if deadline is not None and context.now_ms > deadline:
        _set(conditions, context, "DeadlineMissed", True, "Late", f"not done by {job.spec.deadline}")
    status.conditions = list(conditions.values())


def _end(todo: Plan, context: PlanContext, phase: str, reason: str, message: str) -> None:
    """The job is over: succeeded or failed, as its condition and an event say."""
    status = todo.status
    status.phase, status.completionTime = phase, context.stamp(context.now_ms)
    conditions = {condition.type: condition for condition in status.conditions}
    _set(conditions, context, "Complete" if phase == "Succeeded" else phase, True, reason, message)
    status.conditions = list(conditions.values())
    todo.events.append(Event(phase, message, warning=phase == "Failed"))


def _set(
    conditions: dict[str, Condition], context: PlanContext, kind: str, true: bool, reason: str, message: str
) -> None:
    condition = Condition(kind, "True" if true else "False", reason, message)
    conditions[kind] = condition.after(conditions.get(kind), context.stamp(context.now_ms))


def _set_unplaced(conditions: dict[str, Condition], stages: Mapping[str, list[_Task]], context: PlanContext) -> None:
    """The condition PodsUnplaced: released pods not taken, in the words of kube-scheduler or kubelet."""
    told = [task.unplaced for tasks in stages.values() for task in tasks if task.unplaced is not None and not task.done]
    if told:
        reason, message = told[0]
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        _set(conditions, context, PODS_UNPLACED, True, reason, message[:1000] + more)
    elif PODS_UNPLACED in conditions:
        _set(conditions, context, PODS_UNPLACED, False, "Placed", "every pod that was released is taken")


def _given_up(job: WholeDagJob, stages: Mapping[str, list[_Task]]) -> str | None:
    """The task with too many failures, in a sentence; None if there is none."""
    for stage in job.spec.stages:
        for task in stages[stage.name]:
            pod = task.current
            if task.done or task.failures <= job.spec.retries or not (pod is None or pod.is_terminal):
                continue
            times = f"task {task.index} of stage {stage.name} failed {task.failures} times"
            if pod is None or is_disrupted(pod):
                return times
            return f"{times}, the last time with code {pod.exit_code} on node {pod.spec.nodeName or '(none)'}"
    return None


def _stage_status(job: WholeDagJob, stage: Stage, stages: Mapping[str, list[_Task]]) -> StageStatus:
    tasks = stages[stage.name]
    done = {task.index for task in tasks if task.done}
    live = [task.current for task in tasks if not task.done and task.current is not None]
    live = [pod for pod in live if not pod.is_terminal]
    waiting = sum(1 for pod in live if pod.is_gated)
    running = sum(1 for pod in live if pod.is_running)
    return StageStatus(
        name=stage.name,
        tasks=stage.tasks,
        created=len(done) + len(live),
        waiting=waiting,
        released=len(live) - waiting - running,
        running=running,
        succeeded=len(done),
        failed=_before(job, stage).failed + sum(task.uncounted_failures for task in tasks),
        completedIndexes=show_indexes(done),
        started=_has_started(job, stage, stages) or _may_start(stage, stages),
        tries=write_tries({t.index: (t.failures, t.ended) for t in tasks if t.ended >= 0 and not t.done}),
    )


def _after_the_end(job: WholeDagJob, pods: Sequence[Pod], context: PlanContext) -> Plan:
    """Nothing starts any more; running pods of a failed job go; the job itself goes after its time."""
    todo = Plan(status=job.status)
    todo.deletes = [_delete(pod, "the job is over") for pod in pods if not _is_ending(pod)]
    ttl, ended = job.spec.ttlSecondsAfterFinished, to_ms(job.status.completionTime)
    if ttl is not None and ended is not None:
        left = ended + 1000 * ttl - context.now_ms
        todo.expired = left <= 0
        todo.requeue_after_s = max(0.0, left / 1000)
    return todo


def _requeue_after_s(job: WholeDagJob, pods: Sequence[Pod], context: PlanContext) -> float | None:
    """When time alone changes the job's needs."""
    due = [
        context.now_ms + context.recreate_after_ms - long
        for pod in pods
        if (long := context.unschedulable_ms(pod)) is not None
        and pod.narrowed_to is not None
        and not pod.spec.nodeName
        and not _is_ending(pod)
    ]
    deadline = to_ms(job.spec.deadline)
    if deadline is not None and deadline > context.now_ms:
        due.append(deadline)
    return max(0.1, (min(due) - context.now_ms) / 1000 + 0.05) if due else None
