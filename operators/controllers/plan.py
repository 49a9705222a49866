"""What a DagJob needs now: a pure function of the objects, so that a restart knows all that its predecessor knew.

A task is done once one of its pods has succeeded (and stays so when that pod is deleted: the status remembers).
Otherwise its pod of the highest attempt is its current one; if that has failed, or is gone, another is made.
Failures are counted, and remembered in the status too; a pod that was stopped from outside has not failed.
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
#: Of these the quantities are read where the configuration lets jobs ask for anything.
_RESOURCES: Final = ("cpu", "memory", "pods")
#: Names of pods are host names.
_LONGEST: Final = 63
#: `status.reason` of pods that kubelets and Kubernetes' controllers have stopped, or not let in.
_STOPPED: Final = frozenset(
    {"Evicted", "NodeLost", "Preempted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"}
)


class CreatePod(msgspec.Struct, frozen=True):
    """Make the pod of a task's attempt. cause: as `rm_pods_created_total` counts it. event: once it is made."""

    name: str
    body: dict[str, Any]
    attempt: int
    cause: str = "first"
    event: Event | None = None


class DeletePod(msgspec.Struct, frozen=True):
    """Delete a pod, if it is still this one, and as it was when this was decided.

    node: is gone, and the pod's kubelet with it, so nobody is left who could say that it has ended; only if it truly
    is. event: once it is deleted.
    """

    name: str
    uid: str
    version: str
    why: str
    node: str = ""
    event: Event | None = None


class Plan(msgspec.Struct):
    """What is to be done, and the status that is true now.

    expired: the job itself is to be deleted. again_s: look again by then; None: when something changes.
    """

    creates: list[CreatePod] = []
    deletes: list[DeletePod] = []
    events: list[Event] = []
    status: DagJobStatus = msgspec.field(default_factory=DagJobStatus)
    expired: bool = False
    again_s: float | None = None


class Surroundings(msgspec.Struct, frozen=True):
    """What else matters. heard_ms: for how long everything has been heard without a break.

    unschedulable_since: by a pod's uid, when kube-scheduler was first heard to find no node for the pod (ms since the
    epoch). stamp: ms to RFC 3339.
    resources: what templates may ask for; None: anything.
    """

    now_ms: int
    heard_ms: int
    nodes: Collection[str]
    queues: Collection[str]
    unschedulable_since: Mapping[str, int]
    recreate_after_ms: int
    stamp: Callable[[int], str]
    resources: Collection[str] | None = None

    def unschedulable_ms(self, pod: Pod) -> int | None:
        """For how long kube-scheduler has found no node for the pod, as far as heard; None: it does not say so."""
        since = self.unschedulable_since.get(pod.metadata.uid)
        return min(self.now_ms - since, self.heard_ms) if since is not None else None


class _Task(msgspec.Struct):
    """A task's pods. attempt: the highest used, -1 for none. ended: the highest that has ended badly, likewise.

    news: failures that the status does not know of yet. lost: why its current pod has to go, or None. unplaced: reason
    and message of whoever did not take it, or None.
    """

    index: int
    done: bool
    current: Pod | None
    attempt: int
    failures: int
    ended: int = -1
    news: int = 0
    lost: str | None = None
    unplaced: tuple[str, str] | None = None


def plan(job: WholeDagJob, pods: Sequence[Pod], around: Surroundings) -> Plan:
    """What the DagJob needs now. pods: all that belong to it."""
    if job.is_over:
        return _after_the_end(job, pods, around)
    todo = Plan(status=msgspec.structs.replace(job.status, observedGeneration=job.metadata.generation))
    refusal = _refusal(job, pods, around)
    if refusal is not None:
        _end(todo, around, "Failed", *refusal)
        return todo  # its stages are not looked at: they may have more tasks than anybody can count, or no such parents
    stages = {stage.name: list(_tasks(job, stage, pods, around)) for stage in job.spec.stages}
    for stage in job.spec.stages:
        _plan_stage(job, stage, stages, todo)
    _write_status(job, stages, pods, todo, around)
    if todo.status.phase == "Failed":
        todo.creates.clear()
        todo.deletes = [_delete(pod, "the job has failed") for pod in pods if not _is_ending(pod)]
    todo.again_s = _again_s(job, pods, around)
    return todo


def _refusal(job: WholeDagJob, pods: Sequence[Pod], around: Surroundings) -> tuple[str, str] | None:
    """Why a job that has not begun never will, as reason and sentence: a DagJob cannot be changed."""
    if pods or any(stage.started for stage in job.status.stages):
        return None
    try:
        read = scheduled(job)
        unknown = _unknown_resource(read, around.resources) if around.resources is not None else None
        if unknown is not None:
            return "UnknownResource", unknown
        core_job(read, Resources(around.resources or _RESOURCES))
    except InvalidJob as error:
        return "Unreadable", str(error)
    return None


def _unknown_resource(job: DagJob, resources: Collection[str]) -> str | None:
    """What a job asks for and the configuration does not know: its pods would be placed blindly."""
    for stage in job.spec.stages:
        name = unknown_resource(stage.template.spec, resources)
        if name is not None:
            return (
                f"stage {stage.name} asks for {name}, which is not among the configured resources "
                f"({', '.join(resources)}): add it there, or set unknownResources: leave"
            )
    return None


def _before(job: WholeDagJob, stage: Stage) -> StageStatus:
    """What the status says of a stage."""
    return next((status for status in job.status.stages if status.name == stage.name), StageStatus(stage.name))


def _tasks(job: WholeDagJob, stage: Stage, pods: Sequence[Pod], around: Surroundings) -> Iterator[_Task]:
    before = _before(job, stage)
    done, tries = read_indexes(before.completedIndexes, stage.tasks), read_tries(before.tries, stage.tasks)
    mine: dict[int, list[Pod]] = {}
    for pod in pods:
        number = whole_number(pod.metadata.labels.get(INDEX_LABEL, ""))
        if pod.metadata.labels.get(STAGE_LABEL) == stage.name and number is not None:
            mine.setdefault(number, []).append(pod)
    for index in range(stage.tasks):
        yield _task(index, index in done, tries.get(index, (0, -1)), mine.get(index, ()), around)


def _task(index: int, done: bool, known: tuple[int, int], pods: Sequence[Pod], around: Surroundings) -> _Task:
    """known: failures, and up to which attempt they are counted already."""
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
        news=news,
        lost=_lost(current, around) if current is not None else None,
        unplaced=_unplaced(pods, current) if current is not None else None,
    )


def _unplaced(pods: Iterable[Pod], current: Pod) -> tuple[str, str] | None:
    """What kube-scheduler says of a task's pod, or the kubelet that refused it or the one before: (reason, message)."""
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
    """Whether a pod that failed was deleted, evicted, preempted or never let in, or its node was gone: no failed try.

    What `podFailurePolicy` of a batch Job can ignore (DisruptionTarget), and the same told in older ways.
    """
    if pod.status.phase != "Failed":
        return False
    return (
        pod.metadata.deletionTimestamp is not None
        or pod.status.reason in _STOPPED
        or pod.refusal is not None
        or any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions)
    )


def _lost(pod: Pod, around: Surroundings) -> str | None:
    """Why a pod will never start (or never end), although nobody says so."""
    if pod.is_terminal or pod.metadata.deletionTimestamp:
        return None
    if pod.spec.nodeName:
        return None if pod.spec.nodeName in around.nodes else f"node {pod.spec.nodeName} is gone"
    if pod.narrowed_to is None or pod.spec.schedulingGates:
        return None
    if pod.narrowed_to not in around.nodes:
        return f"node {pod.narrowed_to} is gone"
    # What kube-scheduler has not tried yet, after a change of leaders or an outage, a new pod would wait for as well.
    long = around.unschedulable_ms(pod)
    if long is not None and long >= around.recreate_after_ms:
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
    """Whether it had before this look; that pods are refused since does not make it start again."""
    begun = any(task.current is not None or task.done for task in stages[stage.name])
    return _before(job, stage).started or begun


def _delete(pod: Pod, why: str, *, node: str = "", event: Event | None = None) -> DeletePod:
    return DeletePod(pod.metadata.name, pod.metadata.uid, pod.metadata.resourceVersion, why, node, event)


def _is_ending(pod: Pod) -> bool:
    return pod.is_terminal or pod.metadata.deletionTimestamp is not None


# -- pods ---------------------------------------------------------------------------------------


def pod_name(job: str, stage: str, index: int, attempt: int) -> str:
    """`job-stage-index-attempt`; a name that would be too long is cut, and told apart by a hash."""
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
    around: Surroundings,
) -> None:
    status = todo.status
    status.stages = [_stage_status(job, stage, stages) for stage in job.spec.stages]
    status.tasks = sum(stage.tasks for stage in job.spec.stages)
    status.succeeded = sum(stage.succeeded for stage in status.stages)
    started = any(pod.spec.nodeName for pod in pods)
    if started and status.startTime is None:
        status.startTime = around.stamp(around.now_ms)
    status.phase = "Running" if started or status.succeeded else "Pending"
    if status.succeeded == status.tasks:
        _end(todo, around, "Succeeded", "AllTasksSucceeded", "all tasks succeeded")
    elif (given_up := _given_up(job, stages)) is not None:
        _end(todo, around, "Failed", "TaskFailed", given_up)
    conditions = {condition.type: condition for condition in status.conditions}
    _tell_unplaced(conditions, stages, around)
    known = job.spec.queue == DEFAULT_QUEUE or job.spec.queue in around.queues
    _set(conditions, around, "QueueKnown", known, "Found" if known else "NotFound", f"queue {job.spec.queue}")
    deadline = to_ms(job.spec.deadline)
    if deadline is not None and around.now_ms > deadline:
        _set(conditions, around, "DeadlineMissed", True, "Late", f"not done by {job.spec.deadline}")
    status.conditions = list(conditions.values())


def _end(todo: Plan, around: Surroundings, phase: str, reason: str, message: str) -> None:
    """The job is over: it has succeeded, or it has failed, which its condition and an event say."""
    status = todo.status
    status.phase, status.completionTime = phase, around.stamp(around.now_ms)
    conditions = {condition.type: condition for condition in status.conditions}
    _set(conditions, around, "Complete" if phase == "Succeeded" else phase, True, reason, message)
    status.conditions = list(conditions.values())
    todo.events.append(Event(phase, message, warning=phase == "Failed"))


def _set(
    conditions: dict[str, Condition], around: Surroundings, kind: str, true: bool, reason: str, message: str
) -> None:
    condition = Condition(kind, "True" if true else "False", reason, message)
    conditions[kind] = condition.after(conditions.get(kind), around.stamp(around.now_ms))


def _tell_unplaced(conditions: dict[str, Condition], stages: Mapping[str, list[_Task]], around: Surroundings) -> None:
    """The condition PodsUnplaced: whose pods were released and not taken, in the words of who did not take them."""
    told = [task.unplaced for tasks in stages.values() for task in tasks if task.unplaced is not None and not task.done]
    if told:
        reason, message = told[0]
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        _set(conditions, around, PODS_UNPLACED, True, reason, message[:1000] + more)
    elif PODS_UNPLACED in conditions:
        _set(conditions, around, PODS_UNPLACED, False, "Placed", "every pod that was released is taken")


def _given_up(job: WholeDagJob, stages: Mapping[str, list[_Task]]) -> str | None:
    """Which task has failed too often."""
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
        failed=_before(job, stage).failed + sum(task.news for task in tasks),
        completedIndexes=show_indexes(done),
        started=_has_started(job, stage, stages) or _may_start(stage, stages),
        tries=write_tries({t.index: (t.failures, t.ended) for t in tasks if t.ended >= 0 and not t.done}),
    )


def _after_the_end(job: WholeDagJob, pods: Sequence[Pod], around: Surroundings) -> Plan:
    """Nothing starts any more; what still runs of a failed job goes; the job itself after its time."""
    todo = Plan(status=job.status)
    todo.deletes = [_delete(pod, "the job is over") for pod in pods if not _is_ending(pod)]
    ttl, ended = job.spec.ttlSecondsAfterFinished, to_ms(job.status.completionTime)
    if ttl is not None and ended is not None:
        left = ended + 1000 * ttl - around.now_ms
        todo.expired = left <= 0
        todo.again_s = max(0.0, left / 1000)
    return todo


def _again_s(job: WholeDagJob, pods: Sequence[Pod], around: Surroundings) -> float | None:
    """When time alone changes what is needed."""
    due = [
        around.now_ms + around.recreate_after_ms - long
        for pod in pods
        if (long := around.unschedulable_ms(pod)) is not None
        and pod.narrowed_to is not None
        and not pod.spec.nodeName
        and not _is_ending(pod)
    ]
    deadline = to_ms(job.spec.deadline)
    if deadline is not None and deadline > around.now_ms:
        due.append(deadline)
    return max(0.1, (min(due) - around.now_ms) / 1000 + 0.05) if due else None
