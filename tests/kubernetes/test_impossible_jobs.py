"""Jobs that can never start as things are: each says so with its reason, and in words that are true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from operators.controllers.plan import plan
from operators.extender.status import StatusWriter
from schedulers.core.log import SchedulerConfig
from schedulers.objects import names
from schedulers.objects.dagjob import Progress
from schedulers.objects.pod import Pod
from tests.kubernetes.hostile import LONG
from tests.kubernetes.installed import dagjob
from tests.kubernetes.test_hostile import CONFIG, RESOURCES, Cluster, around

Item = dict[str, Any]
#: Why an object waits or has failed: reason and message.
Said = tuple[str, str]
CLOSED: Item = {"namespaces": {"matchLabels": {"team": "a"}}}


class Words:
    """What is said last of each job and pod, in place of a writer of conditions."""

    def __init__(self) -> None:
        self.jobs: dict[str, Said] = {}
        self.pods: dict[str, Said] = {}

    def report_dagjob(self, key: str, *, reason: str = "", message: str = "", **_: Any) -> None:
        self.jobs[key] = reason, message

    def report_pod(self, pod: Pod, reason: str, message: str) -> None:
        self.pods[pod.key] = reason, message

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class Watched(Cluster):
    """Brain and controllers with what they write: pods of stages that may start, status, words of waiting."""

    def __init__(
        self,
        nodes: Sequence[Item],
        queues: Mapping[str, Item],
        *,
        reserved: bool = False,
        config: SchedulerConfig = CONFIG,
    ) -> None:
        super().__init__(nodes, reserved=reserved, config=config)
        for name, spec in queues.items():
            self.send("Queue", {"metadata": {"name": name}, "spec": spec})
        self.words = Words()
        reports: Any = self.words
        self.writer = StatusWriter(self.brain, reports)

    def settle(self, job: Item | None) -> None:
        """Everybody does their part until nothing changes any more; job: the DagJob that is there, if any."""
        for _ in range(3):
            if job is not None:
                self.control(job)
            self.brain.cycle()
            self.writer.go_round()

    def control(self, job: Item) -> None:
        """What the controllers do for the one DagJob."""
        (whole,) = self.whole.dagjobs.values()
        known: Any = whole
        surroundings = msgspec.structs.replace(around(), resources=RESOURCES, queues=self.whole.queues)
        todo = plan(known, list(self.whole.pods.values()), surroundings)
        for create in todo.creates:
            self.send("Pod", create.body | {"status": {"phase": "Pending"}})
        status = msgspec.to_builtins(todo.status)
        self.send("DagJob", job | {"status": {name: status[name] for name in Progress.__struct_fields__}})

    def conditions(self) -> dict[str, Said]:
        """Those of the DagJob that are true."""
        (job,) = self.whole.dagjobs.values()
        return {each.type: (each.reason, each.message) for each in job.status.conditions if each.status == "True"}


def node(name: str, labels: Mapping[str, str] = {}, taints: Sequence[str] = (), **spec: Any) -> Item:
    """Of 4 CPUs and 8 GiB."""
    tainted = [{"key": key, "effect": "NoSchedule"} for key in taints]
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"taints": tainted, **spec}, "status": status}


def asks(cpu: Any = "1", memory: Any = "1Gi", **more: Any) -> Item:
    """The resources of a container."""
    return {"requests": {"cpu": cpu, "memory": memory, **more}}


def stage(resources: Item | None = None, *, tasks: int = 1, parents: Sequence[str] = (), **spec: Any) -> Item:
    """Stage a; spec: of its pods, `gang` apart."""
    more = {"gang": spec.pop("gang")} if "gang" in spec else {}
    container = {"name": "main", "image": "busybox", "resources": resources or asks()}
    template = {"spec": {"containers": [container], **spec}}
    return {"name": "a", "tasks": tasks, "parents": list(parents), "template": template, **more}


def requires(*terms: Item) -> Item:
    """A node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


class Case(NamedTuple):
    """What a job of these stages says (reason, message), in the first of these queues or in `queue`."""

    said: Said
    stages: Sequence[Item]
    queues: Mapping[str, Item] = {}
    nodes: Sequence[Item] = (node("n0"), node("n1"))
    reserved: bool = False
    queue: str = ""
    user: str = ""

    @property
    def job(self) -> Item:
        queue = self.queue or next(iter(self.queues), "default")
        return dagjob("job", "ns", list(self.stages), queue=queue, user=self.user)


CASES = {
    "more CPU than any node has": Case(
        ("TooLarge", "stage a asks for 8 cpu, more than any of the 2 nodes has in all; the nearest has 4 cpu"),
        [stage(asks("8"))],
    ),
    "more CPU than the one node has": Case(
        ("TooLarge", "stage a asks for 4500m cpu, more than the one node has in all: 4 cpu"),
        [stage(asks("4500m"))],
        nodes=[node("n0")],
    ),
    "more memory than any node has": Case(
        (
            "TooLarge",
            "stage a asks for 16Gi memory, more than any of the 2 nodes has in all; the nearest has 8Gi memory",
        ),
        [stage(asks(memory="16Gi"))],
    ),
    "more of both than any node has": Case(
        (
            "TooLarge",
            "stage a asks for 8 cpu and 16Gi memory, more than any of the 2 nodes has in all; "
            "the nearest has 4 cpu and 8Gi memory",
        ),
        [stage(asks("8", "16Gi"))],
    ),
    "more than its queue may hold": Case(
        (
            "QueueAtLimit",
            "queue etl holds 0 of cpu (0.0% of the cluster) and may hold 2: "
            "3 more for stage a would be over its limit, even if nothing else were held",
        ),
        [stage(asks("3"))],
        queues={"etl": {"max": {"cpu": 2}}},
    ),
    "more than the queue above its queue may hold": Case(
        (
            "QueueAtLimit",
            "queue data holds 0 of memory (0.0% of the cluster) and may hold 4Gi: "
            "6Gi more for stage a would be over its limit, even if nothing else were held",
        ),
        [stage(asks(memory="6Gi"))],
        queues={"etl": {"parent": "data"}, "data": {"max": "25%"}},
    ),
    "its queue may hold nothing": Case(
        (
            "QueueAtLimit",
            "queue etl holds 0 of cpu (0.0% of the cluster) and may hold 0: "
            "1 more for stage a would be over its limit, even if nothing else were held",
        ),
        [stage()],
        queues={"etl": {"max": {"cpu": 0}}},
    ),
    "a gang of more members than the cluster holds": Case(
        (
            "TooLarge",
            "stage a asks for 9 tasks of 1 cpu at once, "
            "more than the 8 that the 2 nodes hold when nothing else runs there",
        ),
        [stage(tasks=9, gang=True)],
    ),
    "a gang whose members fit in sum and not on nodes": Case(
        (
            "TooLarge",
            "stage a asks for 3 tasks of 2500m cpu at once, "
            "more than the 2 that the 2 nodes hold when nothing else runs there",
        ),
        [stage(asks("2500m"), tasks=3, gang=True)],
    ),
    "a gang that the one node does not hold": Case(
        (
            "TooLarge",
            "stage a asks for 3 tasks of 1 cpu and 2Gi memory at once, "
            "more than the 2 that the one node that it may use holds when nothing else runs there",
        ),
        [stage(asks("1", "2Gi"), tasks=3, gang=True, nodeSelector={"disk": "ssd"})],
        nodes=[
            node("n0"),
            node("n1", {"disk": "ssd"}) | {"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9"}}},
        ],
    ),
    "a gang larger than its queue may hold": Case(
        (
            "QueueAtLimit",
            "queue etl holds 0 of cpu (0.0% of the cluster) and may hold 2: "
            "3 more for stage a would be over its limit, even if nothing else were held: "
            "the 3 tasks of stage a start together, and the limit allows 2",
        ),
        [stage(tasks=3, gang=True)],
        queues={"etl": {"max": {"cpu": 2}}},
    ),
    "no such queue": Case(
        ("QueueNotFound", "queue 'etl' does not exist; the job waits until that queue is there"), [stage()], queue="etl"
    ),
    "a queue whose parent is missing": Case(
        ("QueueNotFound", "queue 'etl' names parent 'data', which does not exist; the job waits until it is there"),
        [stage()],
        queues={"etl": {"parent": "data"}},
    ),
    "a queue that is closed to its namespace": Case(
        ("QueueNotAllowed", "queue 'etl' is not for namespace 'ns' (see spec.namespaces of Queue etl)"),
        [stage()],
        queues={"etl": CLOSED},
    ),
    "a queue below one that is closed": Case(
        (
            "QueueNotAllowed",
            "queue 'etl', which is below queue 'data', is not for namespace 'ns' (see spec.namespaces of Queue data)",
        ),
        [stage()],
        queues={"etl": {"parent": "data"}, "data": CLOSED},
    ),
    "an amount that is none": Case(
        ("Unreadable", "DagJob ns/job: stage 'a': cpu: not a quantity: 'x' (write a number such as 4, 500m, 1.5Gi)"),
        [stage(asks("x"))],
    ),
    "an amount below zero": Case(
        ("Unreadable", "DagJob ns/job: stage 'a': memory: negative quantity: '-1' (a resource is never below zero)"),
        [stage(asks(memory="-1"))],
    ),
    "an amount of 5,000 digits": Case(
        (
            "Unreadable",
            "DagJob ns/job: stage 'a': cpu: quantity too long: '9999999999999999...' has 5000 characters "
            "(64 at most, as 500m or 1.5Gi)",
        ),
        [stage(asks(LONG))],
    ),
    "a number of 4,001 digits": Case(
        (
            "Unreadable",
            "DagJob ns/job: stage 'a': cpu: quantity out of range: a whole number of some 4001 digits (2e21 at most)",
        ),
        [stage(asks(10**4000))],
    ),
    "tolerations that are no list": Case(
        (
            "Unreadable",
            "DagJob ns/job: Expected `array`, got `str` - at `$.spec.stages[0].template.spec.tolerations`",
        ),
        [stage(tolerations="x")],
    ),
    "a resource that is not configured": Case(
        (
            "UnknownResource",
            "stage a asks for nvidia.com/gpu, which is not among the configured resources (cpu, memory, pods): "
            "add it there, or set unknownResources: leave",
        ),
        [stage({"limits": {"nvidia.com/gpu": "1"}})],
    ),
    "a node selector that no node matches": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (2 with other labels); it asks for nodes with zone in (nowhere)",
        ),
        [stage(nodeSelector={"zone": "nowhere"})],
    ),
    "a node affinity that no node matches": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (2 with other labels); "
            "it asks for nodes with disk in (ssd, nvme) or cores > 64",
        ),
        [
            stage(
                affinity=requires(
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
                    {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["64"]}]},
                )
            )
        ],
    ),
    "a node affinity to a node that is gone": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (2 with other names); it asks for nodes with metadata.name in (gone)",
        ),
        [stage(affinity=requires({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}))],
    ),
    "a node affinity that says nothing": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (2 with other labels); "
            "its node affinity has no requirement, and so no node meets it",
        ),
        [stage(affinity=requires({}))],
    ),
    "taints that it does not tolerate": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (1 with taint gpu, 1 with taint node.kubernetes.io/unschedulable)",
        ),
        [stage()],
        nodes=[node("n0", taints=["gpu"]), node("n1", unschedulable=True)],
    ),
    "the one node is not ready": Case(
        ("NoNodeMatches", "stage a may not use the one node (1 with taint node.kubernetes.io/not-ready)"),
        [stage()],
        nodes=[node("n0", taints=["node.kubernetes.io/not-ready"])],
    ),
    "the one node that it asks for has a taint": Case(
        (
            "NoNodeMatches",
            "stage a may use none of the 2 nodes (1 with other labels, 1 with taint gpu); "
            "it asks for nodes with zone in (a)",
        ),
        [stage(nodeSelector={"zone": "a"})],
        nodes=[node("n0", {"zone": "a"}, taints=["gpu"]), node("n1")],
    ),
    "only nodes that are not reserved": Case(
        (
            "NoNodes",
            "none of the 2 nodes has the taint rm-emulator.io/reserved, and with `nodes: reserved` no other is used",
        ),
        [stage()],
        reserved=True,
    ),
    "no node": Case(("NoNodes", "the cluster has no node that takes containers"), [stage()], nodes=[]),
    "a limit of zero for each user": Case(
        (
            "UserAtLimit",
            "user ann holds 0 of cpu in queue etl (0.0% of the cluster), where each may hold 0: "
            "1 more for stage a would be over the limit, even if nothing else were held",
        ),
        [stage()],
        queues={"etl": {"perUser": {"limit": {"cpu": 0}}}},
        user="ann",
    ),
    "a limit for each user that is smaller than its task, and no user": Case(
        (
            "UserAtLimit",
            "the user without a name holds 0 of cpu in queue etl (0.0% of the cluster), where each may hold 1500m: "
            "2 more for stage a would be over the limit, even if nothing else were held",
        ),
        [stage(asks("2"))],
        queues={"etl": {"perUser": {"limit": {"cpu": "1500m"}}}},
    ),
    "stages in a circle": Case(
        ("Unreadable", "DagJob ns/job: the stages form a cycle: a, b"),
        [stage(parents=["b"]), stage(parents=["a"]) | {"name": "b"}],
    ),
    "a parent that is no stage": Case(
        ("Unreadable", "DagJob ns/job: stage 'a' names parent 'nobody' (a)"), [stage(parents=["nobody"])]
    ),
    "two stages of one name": Case(("Unreadable", "DagJob ns/job: two stages are called 'a'"), [stage(), stage()]),
    "a stage without tasks": Case(
        ("Unreadable", "DagJob ns/job: stage 'a' has 0 tasks (1 to 100000)"), [stage(tasks=0)]
    ),
}


def watched(case: Case, config: SchedulerConfig = CONFIG) -> Watched:
    cluster = Watched(case.nodes, case.queues, reserved=case.reserved, config=config)
    cluster.send("DagJob", case.job)
    cluster.settle(case.job)
    return cluster


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_job_that_cannot_start_says_why(case: Case) -> None:
    cluster = watched(case)
    said = cluster.conditions().get("Failed") or cluster.words.jobs["ns/job"]
    assert said == case.said


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_its_pods_say_nothing_else(case: Case) -> None:
    assert set(watched(case).words.pods.values()) <= {case.said}


@pytest.mark.parametrize(
    "name", ["no such queue", "a queue whose parent is missing", "a queue that is closed to its namespace"]
)
def test_the_pods_of_a_job_that_its_queue_keeps_out_say_why(name: str) -> None:
    assert watched(CASES[name]).words.pods == {"ns/job-a-0-0": CASES[name].said}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_of_it_starts(case: Case) -> None:
    assert not watched(case).brain.ledger.containers


@pytest.mark.parametrize("policy", ["alsched", "capacity", "fair_yarn", "graphene", "gs", "jockey", "tetrisched"])
@pytest.mark.parametrize(
    "name", ["more CPU than any node has", "a gang larger than its queue may hold", "no such queue"]
)
def test_a_policy_with_reasons_of_its_own_says_the_same(name: str, policy: str) -> None:
    config = SchedulerConfig(
        resources=RESOURCES, policy={"kind": policy}, predictor={"kind": "point_estimate"}, offers="cycle"
    )
    assert watched(CASES[name], config).words.jobs["ns/job"] == CASES[name].said


def pod(queue: str = "default", resources: Item | None = None, **spec: Any) -> Item:
    """A pod that joins by label."""
    gated = {"schedulerName": names.SCHEDULER, "schedulingGates": [{"name": names.GATE}]}
    container = {"name": "main", "image": "busybox", "resources": resources or asks()}
    meta = {"name": "plain", "namespace": "ns", "labels": {names.QUEUE_LABEL: queue}}
    return {"metadata": meta, "spec": gated | {"containers": [container]} | spec, "status": {"phase": "Pending"}}


PODS = {
    "more CPU than any node has": (
        ("TooLarge", "the pod asks for 8 cpu, more than any of the 2 nodes has in all; the nearest has 4 cpu"),
        pod(resources=asks("8")),
    ),
    "a node selector that no node matches": (
        (
            "NoNodeMatches",
            "the pod may use none of the 2 nodes (2 with other labels); it asks for nodes with zone in (nowhere)",
        ),
        pod(nodeSelector={"zone": "nowhere"}),
    ),
    "more than its queue may hold": (
        (
            "QueueAtLimit",
            "queue small holds 0 of cpu (0.0% of the cluster) and may hold 500m: "
            "1 more for the pod would be over its limit, even if nothing else were held",
        ),
        pod("small"),
    ),
    "no such queue": (
        ("QueueNotFound", "queue 'etl' does not exist; the job waits until that queue is there"),
        pod("etl"),
    ),
    "a queue that is closed to its namespace": (
        ("QueueNotAllowed", "queue 'closed' is not for namespace 'ns' (see spec.namespaces of Queue closed)"),
        pod("closed"),
    ),
    "an amount that is none": (
        ("Unreadable", "cpu: not a quantity: 'x' (write a number such as 4, 500m, 1.5Gi)"),
        pod(resources=asks("x")),
    ),
}


@pytest.mark.parametrize(("said", "item"), PODS.values(), ids=PODS)
def test_a_pod_of_its_own_that_cannot_start_says_why(said: Said, item: Item) -> None:
    cluster = Watched([node("n0"), node("n1")], {"small": {"max": {"cpu": "500m"}}, "closed": CLOSED})
    cluster.send("Pod", item)
    cluster.settle(None)
    assert cluster.words.pods == {"ns/plain": said}


def test_jobs_behind_one_that_cannot_start_are_told_how_many_their_queue_lets_in() -> None:
    cluster = Watched([node("n0")], {"etl": {"maxRunning": 1}})
    for name, cpu in (("large", "8"), ("small", "1"), ("last", "1")):
        cluster.send("DagJob", dagjob(name, "ns", [stage(asks(cpu))], queue="etl"))
    cluster.settle(None)
    full = "queue etl has let in 1 job and lets in no more than 1 at once; this job comes"
    (small, next_one), (last, after) = (cluster.words.jobs[key] for key in ("ns/small", "ns/last"))
    assert small == last == "QueueFullOfJobs"
    assert next_one.startswith(f"{full} next; ")
    assert after.startswith(f"{full} after 1 other; ")


def test_a_job_that_is_too_late_says_so_beside_why_it_cannot_start() -> None:
    late = dagjob("job", "ns", [stage(asks("8"))], deadline="1970-01-01T00:00:01Z")
    cluster = Watched([node("n0")], {})
    cluster.send("DagJob", late)
    cluster.settle(late)
    assert cluster.conditions()["DeadlineMissed"] == ("Late", "not done by 1970-01-01T00:00:01Z")
    assert cluster.words.jobs["ns/job"][0] == "TooLarge"


def test_a_queue_that_would_let_in_no_job_at_all_says_so_itself_and_stops_none() -> None:
    cluster = Watched([node("n0")], {"etl": {"maxRunning": 0}})
    job = dagjob("job", "ns", [stage()], queue="etl")
    cluster.send("DagJob", job)
    cluster.settle(job)
    ((_, ready),) = cluster.queues.conditions()
    assert (ready.reason, ready.message) == ("LimitUnreadable", "maxRunning is 0 (1 to 2147483647)")
    assert len(cluster.brain.ledger.containers) == 1
