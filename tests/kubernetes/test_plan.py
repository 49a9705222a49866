"""What a DagJob needs now, from any state of its pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.controllers.plan import CreatePod, Plan, PlanContext, plan, pod_name
from operators.events import Event
from schedulers.objects import names
from schedulers.objects.dagjob import (
    DagJobSpec,
    DagJobStatus,
    StageSpec,
    Tries,
    WholeDagJob,
    read_indexes,
    read_tries,
    show_indexes,
    write_tries,
)
from schedulers.objects.meta import Meta, OwnerReference
from schedulers.objects.pod import (
    Condition,
    ContainerPhase,
    ContainerStatus,
    Gate,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
)
from tests.kubernetes.world import only

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "etl"}, "annotations": {names.RUN_SECONDS: "5"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "schedulingGates": [{"name": "theirs"}]},
}


def job(*stages: StageSpec, retries: int = 1, status: DagJobStatus | None = None, **spec: Any) -> WholeDagJob:
    wanted = stages or (StageSpec("a", TEMPLATE, 2),)
    return WholeDagJob(
        Meta(name="j", namespace="ns", uid="uid-j", generation=1),
        DagJobSpec(stages=wanted, retries=retries, **spec),
        status or DagJobStatus(),
    )


def around(
    now: int = 100_000,
    *,
    nodes: tuple[str, ...] = ("n1",),
    unschedulable: dict[str, int] | None = None,
    heard: int = 10**9,
) -> PlanContext:
    return PlanContext(now, heard, nodes, ("default",), unschedulable or {}, 30_000, lambda ms: f"t{ms}")


def pod(stage: str, index: int, attempt: int = 0, *, phase: str = "Pending", code: int = 0, **spec: Any) -> Pod:
    name = pod_name("j", stage, index, attempt)
    labels = {
        names.STAGE_LABEL: stage,
        names.INDEX_LABEL: str(index),
        names.ATTEMPT_LABEL: str(attempt),
        names.DAGJOB_LABEL: "j",
    }
    meta = Meta(
        name=name,
        namespace="ns",
        uid=f"uid-{name}",
        labels=labels,
        ownerReferences=(OwnerReference("DagJob", "j", "uid-j", controller=True),),
    )
    ended = [ContainerStatus("c", ContainerPhase(terminated=Terminated(exitCode=code)))] if code else []
    return Pod(meta, PodSpec(**spec), PodStatus(phase=phase, containerStatuses=ended))


GATED: dict[str, Any] = {"schedulingGates": (Gate(names.GATE),)}


def made(todo: Plan) -> list[str]:
    return [create.name for create in todo.creates]


def test_the_pods_of_a_root_stage_are_made_at_once() -> None:
    assert made(plan(job(), [], around())) == ["j-a-0-0", "j-a-1-0"]


def test_a_stage_waits_until_every_task_of_its_parents_has_succeeded() -> None:
    two = job(StageSpec("a", TEMPLATE, 2), StageSpec("b", TEMPLATE, 1, ("a",)))
    half = [pod("a", 0, phase="Succeeded"), pod("a", 1, phase="Running", nodeName="n1")]
    assert made(plan(two, half, around())) == []
    assert made(plan(two, [pod("a", i, phase="Succeeded") for i in (0, 1)], around())) == ["j-b-0-0"]


def test_a_pod_carries_gates_labels_and_its_owner() -> None:
    (create, _) = plan(job(user="ann"), [], around()).creates
    body = create.body
    assert body["spec"]["schedulingGates"] == [{"name": names.GATE}, {"name": "theirs"}]
    assert (body["spec"]["schedulerName"], body["spec"]["restartPolicy"]) == (names.SCHEDULER, "Never")
    assert body["metadata"]["labels"] == {
        "app": "etl",
        names.QUEUE_LABEL: "default",
        names.DAGJOB_LABEL: "j",
        names.STAGE_LABEL: "a",
        names.INDEX_LABEL: "0",
        names.ATTEMPT_LABEL: "0",
        names.USER_LABEL: "ann",
    }
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-j"
    assert body["metadata"]["annotations"] == {names.RUN_SECONDS: "5"}


def test_a_users_name_that_no_label_can_hold_is_made_one() -> None:
    (create, _) = plan(job(user="system:serviceaccount:team-a:bot@x/"), [], around()).creates
    assert create.body["metadata"]["labels"][names.USER_LABEL] == "system_serviceaccount_team-a_bot_x"


def test_a_pod_tolerates_reserved_nodes_beside_what_its_template_tolerates() -> None:
    theirs = {"key": "dedicated", "operator": "Exists"}
    template = {"spec": {**TEMPLATE["spec"], "tolerations": [theirs]}}
    (create,) = plan(job(StageSpec("a", template)), [], around()).creates
    assert create.body["spec"]["tolerations"] == [theirs, {"key": names.RESERVED_TAINT, "operator": "Exists"}]


def test_the_template_itself_stays_as_it_was() -> None:
    before = msgspec.json.encode(TEMPLATE)
    plan(job(), [], around())
    assert msgspec.json.encode(TEMPLATE) == before


def test_a_failed_task_is_tried_again() -> None:
    pods = [pod("a", 0, phase="Failed", code=3, nodeName="n1"), pod("a", 1, phase="Running", nodeName="n1")]
    assert made(plan(job(), pods, around())) == ["j-a-0-1"]


def test_a_task_that_fails_too_often_fails_the_job_and_says_which() -> None:
    pods = [pod("a", 0, n, phase="Failed", code=3, nodeName="n1") for n in (0, 1)]
    pods.append(pod("a", 1, phase="Running", nodeName="n1"))
    todo = plan(job(), pods, around())
    assert todo.status.phase == "Failed"
    assert [d.name for d in todo.deletes] == ["j-a-1-0"]
    assert made(todo) == []
    (failed,) = [c for c in todo.status.conditions if c.type == "Failed"]
    assert failed.message == "task 0 of stage a failed 2 times, the last time with code 3 on node n1"


def test_a_deleted_pod_comes_back() -> None:
    assert made(plan(job(), [pod("a", 0, **GATED)], around())) == ["j-a-1-0"]


def test_a_pod_that_is_being_deleted_is_waited_for() -> None:
    going = pod("a", 0, nodeName="n1")
    going.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    assert made(plan(job(StageSpec("a", TEMPLATE)), [going], around())) == []


def test_a_narrowed_pod_for_which_kube_scheduler_finds_no_room_on_its_node_is_made_anew() -> None:
    stuck = unbindable(affinity=only("n1"))
    one = job(StageSpec("a", TEMPLATE))
    early = around(100_000, unschedulable={stuck.metadata.uid: 80_000})
    late = around(111_000, unschedulable={stuck.metadata.uid: 80_000})
    assert plan(one, [stuck], early).deletes == []
    assert plan(one, [stuck], early).requeue_after_s == pytest.approx(10, abs=0.1)
    (delete,) = plan(one, [stuck], late).deletes
    words = "kube-scheduler has found no room on node n1 for 31 s (Unschedulable: 0/1 nodes are available: no volume.)"
    assert (delete.why, delete.node) == (words, "")


def test_a_narrowed_pod_that_kube_scheduler_has_not_tried_is_left_to_it() -> None:
    untried = pod("a", 0, affinity=only("n1"))
    todo = plan(job(StageSpec("a", TEMPLATE)), [untried], around(10_000_000))
    assert (todo.deletes, todo.requeue_after_s) == ([], None)


def test_time_in_which_nothing_was_heard_is_no_time_in_which_no_room_was_found() -> None:
    stuck = unbindable(affinity=only("n1"))
    back = around(200_000, unschedulable={stuck.metadata.uid: 80_000}, heard=5_000)
    todo = plan(job(StageSpec("a", TEMPLATE)), [stuck], back)
    assert (todo.deletes, todo.requeue_after_s) == ([], pytest.approx(25, abs=0.1))


def test_a_pod_on_a_node_that_is_gone_is_made_anew_without_counting_as_a_try() -> None:
    lost = pod("a", 0, phase="Running", nodeName="n9")
    todo = plan(job(StageSpec("a", TEMPLATE), retries=0), [lost], around())
    assert [(d.why, d.node) for d in todo.deletes] == [("node n9 is gone", "n9")]
    assert todo.status.phase != "Failed"


def test_what_has_succeeded_stays_done_when_its_pod_is_deleted() -> None:
    first = plan(job(), [pod("a", 0, phase="Succeeded"), pod("a", 1, **GATED)], around())
    again = plan(job(status=first.status), [pod("a", 1, **GATED)], around())
    assert (made(again), again.status.succeeded, again.status.stages[0].completedIndexes) == ([], 1, "0")


def test_a_missed_deadline_is_told_and_stops_nothing() -> None:
    late = job(deadline="1970-01-01T00:00:50Z")
    todo = plan(late, [pod("a", 0, **GATED), pod("a", 1, **GATED)], around())
    assert "DeadlineMissed" in {c.type for c in todo.status.conditions}
    assert todo.deletes == []


def test_a_finished_job_goes_after_its_time() -> None:
    over = DagJobStatus(phase="Succeeded", completionTime="1970-01-01T00:01:00Z")
    gone = job(status=over, ttlSecondsAfterFinished=30)
    assert not plan(gone, [], around(89_000)).expired
    assert plan(gone, [], around(90_000)).expired


def test_an_unknown_queue_is_told_by_a_condition() -> None:
    (condition,) = [c for c in plan(job(queue="nowhere"), [], around()).status.conditions if c.type == "QueueKnown"]
    assert (condition.status, condition.message) == ("False", "queue nowhere")


# -- stopped from outside -----------------------------------------------------------------------


def stopped(how: str) -> Pod:
    """A failed pod that was stopped from outside."""
    one = pod("a", 0, phase="Failed", code=137, nodeName="n1")
    if how == "deleted":
        one.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    elif how == "condition":
        one.status.conditions = [Condition("DisruptionTarget", "True", "PreemptionByScheduler")]
    else:
        one.status.reason = how
    return one


@pytest.mark.parametrize("how", ["deleted", "condition", "Evicted", "NodeLost", "Shutdown", "Preempting", "Terminated"])
def test_a_pod_that_was_stopped_from_outside_uses_up_no_retry(how: str) -> None:
    todo = plan(job(StageSpec("a", TEMPLATE), retries=0), [stopped(how)], around())
    assert (made(todo), todo.status.phase, todo.status.stages[0].failed) == (["j-a-0-1"], "Running", 0)
    assert [(c.cause, c.event and c.event.reason) for c in todo.creates] == [("recreated", "Recreated")]


def test_a_disruption_that_did_not_come_about_is_none() -> None:
    one = pod("a", 0, phase="Failed", code=3, nodeName="n1")
    one.status.conditions = [Condition("DisruptionTarget", "False")]
    one.status.reason = "DeadlineExceeded"
    assert plan(job(StageSpec("a", TEMPLATE), retries=0), [one], around()).status.phase == "Failed"


def test_a_failure_still_counts_when_its_pod_is_deleted_afterwards() -> None:
    one = pod("a", 0, phase="Failed", code=3, nodeName="n1")
    seen = plan(job(StageSpec("a", TEMPLATE)), [one], around())
    one.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    assert plan(job(StageSpec("a", TEMPLATE), status=seen.status), [one], around()).status.stages[0].failed == 1


def test_a_bound_pod_on_a_node_that_is_gone_and_failed_by_the_pod_collector_is_no_failure() -> None:
    lost = stopped("condition")
    lost.spec.nodeName = "n9"
    todo = plan(job(StageSpec("a", TEMPLATE), retries=0), [lost], around())
    assert (made(todo), todo.deletes, todo.status.stages[0].failed) == (["j-a-0-1"], [], 0)


def test_a_pod_that_waits_for_the_gate_of_another_is_not_made_anew() -> None:
    stuck = pod("a", 0, affinity=only("n1"), schedulingGates=(Gate("theirs"),))
    late = around(200_000, unschedulable={stuck.metadata.uid: 80_000})
    assert plan(job(StageSpec("a", TEMPLATE)), [stuck], late).deletes == []


@pytest.mark.parametrize("narrowed", [True, False])
def test_a_pod_for_which_nothing_can_be_done_is_not_looked_at_all_the_time(narrowed: bool) -> None:
    stuck = pod("a", 0, affinity=only("n1") if narrowed else None)
    if narrowed:
        stuck.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    late = around(200_000, unschedulable={stuck.metadata.uid: 80_000})
    todo = plan(job(StageSpec("a", TEMPLATE)), [stuck], late)
    assert (todo.deletes, todo.requeue_after_s) == ([], None)


# -- what is not taken --------------------------------------------------------------------------


def refused(attempt: int = 0, reason: str = "OutOfcpu") -> Pod:
    """A pod that its kubelet has not let in."""
    one = pod("a", 0, attempt, phase="Failed", nodeName="n1")
    one.status.reason, one.status.message = reason, "Node didn't have enough resource"
    return one


def told(todo: Plan, kind: str) -> tuple[str, str, str] | None:
    return next(((c.status, c.reason, c.message) for c in todo.status.conditions if c.type == kind), None)


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfpods", "NodeAffinity", "UnexpectedAdmissionError", "Evicted"])
def test_a_pod_that_a_kubelet_refused_is_made_anew_and_has_not_failed(reason: str) -> None:
    todo = plan(job(StageSpec("a", TEMPLATE), retries=0), [refused(n, reason) for n in range(3)], around())
    (create,) = todo.creates
    message = f"node n1 refused pod j-a-0-2: {reason}: Node didn't have enough resource"
    assert (create.name, create.cause) == ("j-a-0-3", "recreated")
    assert create.event == Event("PodRefused", f"{message}; it is made anew", warning=True)
    assert todo.status.stages[0].failed == 0
    assert told(todo, "PodsUnplaced") == ("True", reason, message)


def test_a_pod_of_which_a_container_ran_was_not_refused() -> None:
    ran = pod("a", 0, phase="Failed", code=3, nodeName="n1")
    ran.status.reason = "OutOfcpu"
    assert plan(job(StageSpec("a", TEMPLATE), retries=0), [ran], around()).status.phase == "Failed"


def test_that_pods_were_refused_is_said_until_the_next_is_taken() -> None:
    one = job(StageSpec("a", TEMPLATE))
    one.status = plan(one, [refused(), pod("a", 0, 1, **GATED)], around()).status
    assert (told(plan(one, [], around()), "PodsUnplaced") or ("",))[0] == "False"
    taken = plan(one, [refused(), pod("a", 0, 1, nodeName="n1")], around())
    assert told(taken, "PodsUnplaced") == ("False", "Placed", "every pod that was released is taken")


def unbindable(**spec: Any) -> Pod:
    one = pod("a", 0, **spec)
    one.status.conditions = [Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: no volume.")]
    return one


def test_what_kube_scheduler_cannot_bind_is_told_in_its_own_words() -> None:
    todo = plan(job(StageSpec("a", TEMPLATE)), [unbindable()], around())
    message = "kube-scheduler cannot bind pod j-a-0-0: 0/1 nodes are available: no volume."
    assert told(todo, "PodsUnplaced") == ("True", "Unschedulable", message)


GPU: dict[str, Any] = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": 1}}}]}}


def known(*resources: str) -> PlanContext:
    return msgspec.structs.replace(around(), resources=resources)


def test_a_job_that_asks_for_what_is_not_configured_is_refused_and_told_so() -> None:
    todo = plan(job(StageSpec("a", TEMPLATE), StageSpec("b", GPU)), [], known("cpu", "memory"))
    assert (made(todo), todo.status.phase) == ([], "Failed")
    message = (
        "stage b asks for example.com/gpu, which is not among the configured resources (cpu, memory): "
        "add it there, or set unknownResources: leave"
    )
    assert told(todo, "Failed") == ("True", "UnknownResource", message)
    assert [event.reason for event in todo.events] == ["Failed"]


@pytest.mark.parametrize("surroundings", [around(), known("cpu", "example.com/gpu")], ids=["left", "configured"])
def test_it_is_not_refused_where_that_is_left_to_kube_scheduler_or_configured(surroundings: PlanContext) -> None:
    assert made(plan(job(StageSpec("b", GPU)), [], surroundings)) == ["j-b-0-0"]


def test_a_job_that_has_begun_is_not_refused_any_more() -> None:
    one = job(StageSpec("b", GPU, 2))
    one.status = plan(one, [], around()).status
    assert made(plan(one, [pod("b", 0, nodeName="n1")], known("cpu"))) == ["j-b-1-0"]


# -- memory -------------------------------------------------------------------------------------


def test_failures_outlive_their_pods() -> None:
    one = job(StageSpec("a", TEMPLATE), retries=1)
    one.status = plan(one, [pod("a", 0, 0, phase="Failed", code=3, nodeName="n1")], around()).status
    again = plan(one, [], around())
    assert (made(again), again.status.stages[0].failed) == (["j-a-0-1"], 1)
    one.status = plan(one, [pod("a", 0, 1, phase="Failed", code=3, nodeName="n1")], around()).status
    assert one.status.phase == "Failed"


def test_a_job_fails_although_the_last_pod_is_gone() -> None:
    one = job(StageSpec("a", TEMPLATE), retries=0)
    one.status = plan(one, [], around()).status
    one.status.stages[0].tries = [Tries(1, 0, "0")]
    todo = plan(one, [], around())
    assert (todo.status.phase, made(todo)) == ("Failed", [])
    assert [c.message for c in todo.status.conditions if c.type == "Failed"] == ["task 0 of stage a failed 1 times"]


def test_looking_twice_counts_once() -> None:
    one, pods = job(), [pod("a", 0, phase="Failed", code=3, nodeName="n1"), pod("a", 1, **GATED)]
    for _ in range(3):
        one.status = plan(one, pods, around()).status
    assert (one.status.stages[0].failed, one.status.stages[0].tries) == (1, [Tries(1, 0, "0")])


def test_names_of_stopped_pods_are_not_used_again() -> None:
    one = job(StageSpec("a", TEMPLATE))
    one.status = plan(one, [stopped("Evicted")], around()).status
    assert made(plan(one, [], around())) == ["j-a-0-1"]


def test_what_is_done_is_forgotten_but_its_failures_are_still_shown() -> None:
    one = job(StageSpec("a", TEMPLATE), StageSpec("b", TEMPLATE, parents=("a",)))
    pods = [pod("a", 0, phase="Failed", code=3, nodeName="n1"), pod("a", 0, 1, phase="Succeeded")]
    for look in (pods, pods, []):
        one.status = plan(one, look, around()).status
    assert (one.status.stages[0].failed, one.status.stages[0].tries) == (1, [])


def test_the_memory_of_a_large_stage_is_small() -> None:
    spread = {index: (1 + index % 3, index % 3) for index in range(0, 100_000, 100)}
    assert len(msgspec.json.encode(write_tries(spread))) < 8_000
    assert len(msgspec.json.encode(write_tries(dict.fromkeys(range(100_000), (1, 0))))) < 100


@given(st.dictionaries(st.integers(0, 200), st.tuples(st.integers(0, 3), st.integers(0, 4))))
def test_tries_survive_being_written(tries: dict[int, tuple[int, int]]) -> None:
    assert read_tries(write_tries(tries), 100_000) == tries


def test_that_a_stage_has_started_is_told_once_also_if_its_pods_are_refused() -> None:
    one = job(StageSpec("a", TEMPLATE), StageSpec("b", TEMPLATE), StageSpec("c", TEMPLATE, parents=("a",)))
    first = plan(one, [], around())
    assert [event.message for event in first.events] == ["stage a: 1 tasks", "stage b: 1 tasks"]
    assert [stage.started for stage in first.status.stages] == [True, True, False]
    one.status = first.status
    again = plan(one, [], around())
    assert (again.events, made(again)) == ([], ["j-a-0-0", "j-b-0-0"])


@pytest.mark.parametrize("name", ["j", "a" * 63, "x" * 40])
def test_names_are_host_names_and_differ(name: str) -> None:
    made_names = {pod_name(name, stage, index, 0) for stage in ("map", "reduce") for index in range(20)}
    assert len(made_names) == 40
    assert max(map(len, made_names)) <= 63


@given(st.sets(st.integers(0, 200)))
def test_indexes_survive_being_written(indexes: set[int]) -> None:
    assert read_indexes(show_indexes(indexes), 1 + max(indexes, default=0)) == indexes


class Cluster:
    """Pods of one job, and what may happen to them."""

    def __init__(self, retries: int) -> None:
        self.job = job(StageSpec("a", TEMPLATE, 3), StageSpec("b", TEMPLATE, 2, ("a",)), retries=retries)
        self.pods: dict[str, Pod] = {}
        self.ended: set[str] = set()
        self.failures: dict[tuple[str, str], int] = {}

    def reconcile(self) -> Plan:
        todo = plan(self.job, list(self.pods.values()), around())
        for create in todo.creates:
            self.create(create)
        for delete in todo.deletes:
            self.pods.pop(delete.name, None)
        self.job.status = todo.status
        return todo

    def create(self, create: CreatePod) -> None:
        assert create.name not in self.pods
        assert create.name not in self.ended
        labels = create.body["metadata"]["labels"]
        one = pod(labels[names.STAGE_LABEL], int(labels[names.INDEX_LABEL]), create.attempt, **GATED)
        self.pods[one.metadata.name] = one

    def happen(self, what: str, pick: int) -> None:
        if what == "collect":
            self.reconcile()
            self.pods = {name: p for name, p in self.pods.items() if not p.is_terminal}
        live = [p for p in self.pods.values() if not p.is_terminal]
        if not live or what == "collect":
            return
        one = live[pick % len(live)]
        name = one.metadata.name
        if what == "delete":
            del self.pods[name]
        else:
            stage, index = one.metadata.labels[names.STAGE_LABEL], int(one.metadata.labels[names.INDEX_LABEL])
            phase, code = {
                "run": ("Running", 0),
                "succeed": ("Succeeded", 0),
                "fail": ("Failed", 2),
                "evict": ("Failed", 137),
            }[what]
            self.pods[name] = pod(stage, index, one.attempt, phase=phase, code=code, nodeName="n1")
            if what == "evict":
                self.pods[name].status.reason = "Evicted"
            if what == "fail":
                self.failures[stage, str(index)] = self.failures.get((stage, str(index)), 0) + 1
            if code:
                self.ended.add(name)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["run", "succeed", "fail", "evict", "delete", "collect", "look"]), st.integers(0, 9))
    ),
    retries=st.integers(0, 2),
)
def test_from_any_state_the_job_ends_and_no_task_has_two_pods(steps: list[tuple[str, int]], retries: int) -> None:
    cluster = Cluster(retries)
    for what, pick in steps:
        if what == "look":
            cluster.reconcile()
        else:
            cluster.happen(what, pick)
        live = [
            (p.metadata.labels[names.STAGE_LABEL], p.metadata.labels[names.INDEX_LABEL])
            for p in cluster.pods.values()
            if not p.is_terminal
        ]
        assert len(live) == len(set(live))
    for _ in range(30):
        cluster.reconcile()
        for _ in range(len(cluster.pods)):
            cluster.happen("succeed", 0)
    assert cluster.job.is_over
    assert (cluster.job.status.phase == "Failed") == (max(cluster.failures.values(), default=0) > retries)
    if cluster.job.status.phase == "Succeeded":
        assert cluster.job.status.succeeded == 5
