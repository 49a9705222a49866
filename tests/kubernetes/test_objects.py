"""What the small structs keep of API objects, and what they mean to the core."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core import model
from schedulers.core.errors import InvalidJob, InvalidQuantity
from schedulers.core.resources import Resources
from schedulers.objects import names
from schedulers.objects.dagjob import DagJob, Tries, core_job, read_indexes, read_tries
from schedulers.objects.meta import Meta, to_ms
from schedulers.objects.names import GANG_PLAN, GATE, RUN_SECONDS
from schedulers.objects.node import NodeObject, core_node
from schedulers.objects.pod import (
    ContainerPhase,
    ContainerResources,
    ContainerStatus,
    Pod,
    PodContainer,
    PodSpec,
    PodStatus,
    Terminated,
    demand,
    places,
    unmodelled,
)
from schedulers.objects.queue import QueueObject, core_queue, readable

RESOURCES = Resources(("cpu", "memory", "pods"))
STAMP = "2026-01-02T03:04:05Z"


def read(kind: type[Any], value: dict[str, Any]) -> Any:
    """As the cache reads it."""
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "a"}} | value), type=kind)


def pod(spec: dict[str, Any] | None = None, **rest: Any) -> Pod:
    made: Pod = read(Pod, {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec or {}} | rest)
    return made


def spec_of(value: dict[str, Any]) -> PodSpec:
    return pod(value).spec


def dagjob(*stages: dict[str, Any], **rest: Any) -> DagJob:
    job: DagJob = read(
        DagJob, {"metadata": {"name": "j", "namespace": "ns", "uid": "0123456789"}, "spec": {"stages": stages} | rest}
    )
    return job


def stage(name: str = "a", cpu: Any = "1", **rest: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    return {"name": name, "template": template} | rest


def test_a_queue_is_what_its_object_says() -> None:
    spec = {
        "parent": "up",
        "weight": 2,
        "guaranteed": {"cpu": "500m"},
        "max": "25%",
        "perUser": {"limit": {"memory": "1Gi"}, "maxRunning": 2},
        "maxRunning": 3,
        "preemptible": False,
    }
    assert core_queue(read(QueueObject, {"spec": spec}), RESOURCES) == model.Queue(
        name="a",
        parent="up",
        weight=2.0,
        guaranteed=(500, 0, 0),
        max=0.25,
        per_user=model.PerUser(limit=(-1, 1024, -1), max_running=2),
        max_running=3,
        preemptible=False,
    )


def test_wishes_and_deadline_of_a_dagjob_are_those_of_the_job() -> None:
    prefer = [{"device": "gpu", "worth": 8}, {"sameRack": True, "spread": True, "slowdown": 2}]
    made = core_job(
        dagjob(stage(), deadline="1970-01-01T00:01:00Z", wishes={"prefer": prefer, "value": 2, "budgetSeconds": 90}),
        RESOURCES,
    )
    ways = (model.Wish(device="gpu", worth=8.0), model.Wish(same_rack=True, spread=True, slowdown=2.0))
    assert made.wishes == model.Wishes(prefer=ways, value=2.0, budget_ms=90_000)
    assert made.deadline == 60_000


def test_wishes_that_make_no_sense_are_told() -> None:
    with pytest.raises(InvalidJob, match=r"wishes: worth is -1 \(0 to 1e\+06\)"):
        core_job(dagjob(stage(), wishes={"prefer": [{"worth": -1}]}), RESOURCES)
    with pytest.raises(InvalidJob, match=r"wishes: budgetSeconds is -1 \(1 to 1e\+09\)"):
        core_job(dagjob(stage(), wishes={"budgetSeconds": -1}), RESOURCES)


def test_the_user_of_a_dagjob_and_of_its_pods_is_the_same_name() -> None:
    assert core_job(dagjob(stage(), user="alice@example.com"), RESOURCES).user == "alice_example.com"


def test_a_limit_that_cannot_be_read_does_not_take_those_along_that_can() -> None:
    spec = {"max": {"cpu": 4, "cpus": 4, "memory": "much"}, "guaranteed": "a lot", "perUser": {"limit": "25%"}}
    read_so_far = readable(read(QueueObject, {"spec": spec}), RESOURCES)
    assert (read_so_far.max, read_so_far.guaranteed) == ((4000, -1, -1), None)
    assert read_so_far.per_user == model.PerUser(limit=0.25)


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "volume",
    [{"persistentVolumeClaim": {"claimName": "data"}}, {"ephemeral": {"volumeClaimTemplate": {"spec": {"a": [1]}}}}],
)
def test_a_pod_with_a_volume_claim_is_read_and_told_to_be_unmodelled(volume: dict[str, Any]) -> None:
    assert unmodelled(spec_of({"volumes": [{"name": "v"} | volume]}), RESOURCES) == "volume claims"


def test_a_pod_with_other_volumes_is_modelled() -> None:
    assert unmodelled(spec_of({"volumes": [{"name": "v", "emptyDir": {}}]}), RESOURCES) is None


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}},
            "pod affinity",
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": 1}]}}},
            "pod anti-affinity",
        ),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}, "topology spread"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}, "resource claims"),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports"),
        ({"tolerations": [{"key": "sla", "operator": "Gt", "value": "9"}]}, "a toleration's comparison"),
        ({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}, "resource example.com/gpu"),
        ({"initContainers": [{"resources": {"limits": {"example.com/gpu": 1}}}]}, "resource example.com/gpu"),
        ({"overhead": {"ephemeral-storage": "1Gi"}}, "resource ephemeral-storage"),
        ({"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}, "resource hugepages-2Mi"),
        ({"containers": [{"resources": {"requests": {"example.com/gpu": "many"}}}]}, "resource example.com/gpu"),
    ],
)
def test_what_the_core_does_not_model_is_named(spec: dict[str, Any], what: str) -> None:
    assert unmodelled(spec_of(spec), RESOURCES) == what


@pytest.mark.parametrize("nothing", ["0", 0, "0Gi", "0m", "0.0"])
def test_asking_for_nothing_of_an_unknown_resource_is_no_constraint(nothing: Any) -> None:
    asked = {"ephemeral-storage": nothing}
    spec = {"containers": [{"resources": {"requests": asked}}], "overhead": asked, "resources": {"limits": asked}}
    assert unmodelled(spec_of(spec), RESOURCES) is None


def test_preferences_are_no_constraints() -> None:
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spec = {"affinity": {"podAffinity": wish, "podAntiAffinity": wish, "nodeAffinity": wish}}
    assert unmodelled(spec_of(spec), RESOURCES) is None


LEAKS = {
    "kubectl.kubernetes.io/last-applied-configuration": '{"run-seconds":"123.75"}',
    RUN_SECONDS: "123.75",
    "example.com/copy": "123.75",
    GANG_PLAN: "{}",
}


@pytest.mark.parametrize("kind", [Pod, NodeObject, QueueObject, DagJob])
def test_of_annotations_only_ours_without_the_run_time_are_kept(kind: type[Any]) -> None:
    spec: dict[str, Any] = {"stages": []} if kind is DagJob else {}
    stored = read(kind, {"metadata": {"name": "a", "annotations": LEAKS}, "spec": spec})
    assert stored.metadata.annotations == {GANG_PLAN: "{}"}


def test_a_stage_template_keeps_no_run_time_either() -> None:
    one = stage()
    one["template"]["metadata"] = {"annotations": LEAKS}
    assert "123.75" not in repr(dagjob(one))


def test_only_namespaced_objects_have_a_namespace_in_their_key() -> None:
    assert (pod().key, read(NodeObject, {}).key) == ("ns/p", "a")


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-03-01T00:00:00Z", 951_868_800_000),
        ("2024-02-29T23:59:59.250Z", 1_709_251_199_250),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        (None, None),
        ("yesterday", None),
    ],
)
def test_time_stamps(stamp: str | None, ms: int | None) -> None:
    assert to_ms(stamp) == ms


# -- how far a pod has come ---------------------------------------------------------------------


def test_a_pod_whose_containers_wait_has_not_started_although_its_kubelet_has_it() -> None:
    waiting = {"phase": "Pending", "startTime": STAMP, "containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}
    assert pod(status=waiting).started_ms is None


def test_a_pod_that_ended_without_telling_started_when_its_kubelet_took_it() -> None:
    assert pod(status={"phase": "Failed", "reason": "Evicted", "startTime": STAMP}).started_ms == to_ms(STAMP)


def test_a_pod_started_with_its_first_container_and_ended_with_its_last() -> None:
    def ended(start: int, end: int, code: int) -> dict[str, Any]:
        stamps = {"startedAt": f"2026-01-01T00:00:{start:02}Z", "finishedAt": f"2026-01-01T00:00:{end:02}Z"}
        return {"name": "c", "state": {"terminated": {"exitCode": code} | stamps}}

    ended_pod = pod(status={"phase": "Failed", "containerStatuses": [ended(5, 30, 0), ended(3, 20, 7)]})
    assert (ended_pod.started_ms, ended_pod.finished_ms, ended_pod.exit_code) == (
        to_ms("2026-01-01T00:00:03Z"),
        to_ms("2026-01-01T00:00:30Z"),
        7,
    )


def test_a_pod_evicted_without_exit_code_has_failed() -> None:
    assert pod(status={"phase": "Failed", "reason": "Evicted"}).exit_code == 1


def test_our_gate_is_found_among_others() -> None:
    assert pod({"schedulingGates": [{"name": "other"}, {"name": GATE}]}).gate_index == 1


def test_the_node_that_a_pod_was_narrowed_to() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert pod({"affinity": {"nodeAffinity": required}}).narrowed_to == "n7"


# -- demand -------------------------------------------------------------------------------------

containers = st.lists(st.tuples(st.integers(0, 4000), st.booleans()), max_size=5)


def container(cpu: int, *, sidecar: bool = False) -> PodContainer:
    of = ContainerResources(requests={"cpu": f"{cpu}m"})
    return PodContainer(resources=of, restartPolicy="Always" if sidecar else "")


@given(
    main=st.lists(st.integers(0, 4000), min_size=1, max_size=4),
    init=containers,
    overhead=st.integers(0, 500),
)
def test_a_pod_holds_the_most_that_runs_at_once(main: list[int], init: list[tuple[int, bool]], overhead: int) -> None:
    """Played through second by second: init containers one after the other, sidecars stay, then all together."""
    stays, moments = 0, []
    for cpu, sidecar in init:
        moments.append(stays + cpu)
        stays += cpu if sidecar else 0
    moments.append(stays + sum(main))
    spec = PodSpec(
        containers=[container(cpu) for cpu in main],
        initContainers=[container(cpu, sidecar=sidecar) for cpu, sidecar in init],
        overhead={"cpu": f"{overhead}m"},
    )
    assert demand(spec, RESOURCES) == (max(moments) + overhead, 0, 1)


@given(size=st.integers(1, 2**40))
def test_demands_round_up_and_capacities_down(size: int) -> None:
    spec = PodSpec(containers=[PodContainer(resources=ContainerResources(requests={"memory": size}))])
    node: NodeObject = read(NodeObject, {"status": {"allocatable": {"memory": str(size)}}})
    asked, offered = demand(spec, RESOURCES)[1], core_node(node, RESOURCES).capacity[1]
    assert offered * 2**20 <= size <= asked * 2**20
    assert asked - offered in (0, 1)


def test_a_limit_without_a_request_is_the_request() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert demand(spec_of({"containers": [{"resources": resources}]}), RESOURCES) == (1000, 1024, 1)


def test_requests_of_the_whole_pod_take_the_place_of_its_containers() -> None:
    spec = {
        "resources": {"requests": {"cpu": "3"}},
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "overhead": {"cpu": "100m"},
    }
    assert demand(spec_of(spec), RESOURCES) == (3100, 1024, 1)


def test_quantities_may_be_numbers() -> None:
    spec = {"containers": [{"resources": {"requests": {"cpu": 0.5, "memory": 1048576}}}]}
    assert demand(spec_of(spec), RESOURCES) == (500, 1, 1)


# -- places -------------------------------------------------------------------------------------


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({}, {"n0", "n1", "n2"}),
        ({"nodeSelector": {"zone": "a"}}, {"n0", "n1"}),
        (affinity(label("zone", "In", "b", "c")), {"n2"}),
        (affinity(label("zone", "NotIn", "a")), {"n2"}),
        (affinity(label("gpu", "Exists")), {"n1"}),
        (affinity(label("gpu", "DoesNotExist")), {"n0", "n2"}),
        (affinity(label("gpu", "Gt", "3")), {"n1"}),
        (affinity(label("gpu", "Lt", "3")), set()),
        (affinity(label("gpu", "Exists"), label("zone", "In", "b")), {"n1", "n2"}),
        (affinity(label("gpu", "DoesNotExist")) | {"nodeSelector": {"zone": "a"}}, {"n0"}),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}), {"n2"}),
        (affinity({}), set()),
        (affinity(), set()),
        (affinity({}, label("zone", "In", "b")), {"n2"}),
        ({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, {"n0", "n1", "n2", "n3"}),
        ({"tolerations": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}, {"n0", "n1", "n2", "n3"}),
        ({"tolerations": [{"key": "dedicated", "value": "db"}]}, {"n0", "n1", "n2"}),
        ({"tolerations": [{"operator": "Exists"}]}, {"n0", "n1", "n2", "n3", "n4", "n5"}),
    ],
)
def test_where_a_pod_may_run(spec: dict[str, Any], allowed: set[str]) -> None:
    where = places(spec_of(spec))
    nodes = [
        node("n0", {"zone": "a"}),
        node("n1", {"zone": "a", "gpu": "4"}),
        node("n2", {"zone": "b"}),
        node("n3", {"zone": "x"}, spec={"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}),
        node("n4", {"zone": "x"}, spec={"unschedulable": True}),
        node("n5", {"zone": "x"}, ready="Unknown"),
    ]
    made = (core_node(one, RESOURCES) for one in nodes)
    assert {one.id for one in made if where.bars(one.id, one.labels, one.taints) is None} == allowed


def node(name: str, labels: dict[str, str], *, spec: dict[str, Any] | None = None, ready: str = "True") -> NodeObject:
    status = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": ready}]}
    made: NodeObject = read(
        NodeObject, {"metadata": {"name": name, "labels": labels}, "spec": spec or {}, "status": status}
    )
    return made


def test_a_cordoned_node_that_its_controller_has_tainted_has_the_taint_once() -> None:
    key = "node.kubernetes.io/unschedulable"
    cordoned = node("n", {}, spec={"unschedulable": True, "taints": [{"key": key, "effect": "NoSchedule"}]})
    assert [taint.key for taint in core_node(cordoned, RESOURCES).taints] == [key]


@pytest.mark.parametrize(("said", "speed"), [("2.5", 2.5), ("1e-1", 0.1), ("", 1.0)])
def test_the_speed_of_a_node_is_its_label(said: str, speed: float) -> None:
    assert core_node(node("n", {names.SPEED_LABEL: said}), RESOURCES).speed == speed


def test_a_node_without_the_label_has_speed_1() -> None:
    assert core_node(node("n", {}), RESOURCES).speed == 1.0


@pytest.mark.parametrize("said", ["fast", "0", "-2", "nan", "inf", "1e400"])
def test_what_is_no_finite_number_above_0_counts_as_speed_1(said: str) -> None:
    odd = node("n", {names.SPEED_LABEL: said})
    assert (odd.speed, core_node(odd, RESOURCES).speed) == (None, 1.0)


# -- DagJobs ------------------------------------------------------------------------------------


def test_a_dagjob_means_its_stages_to_the_core() -> None:
    job = core_job(
        dagjob(stage("map", tasks=3), stage("reduce", parents=["map"], gang=True, hints={"durationSeconds": 1.5})),
        RESOURCES,
    )
    assert job.id == "ns/j.01234567"
    assert [(s.name, s.tasks, s.parents, s.gang, s.hint_ms) for s in job.stages] == [
        ("map", 3, (), False, None),
        ("reduce", 1, (0,), True, 1500),
    ]


def test_data_that_a_parent_hands_over_is_an_edge_to_the_core() -> None:
    hints = {"data": {"map": "1.5Gi"}}
    made = core_job(dagjob(stage("map"), stage("side"), stage("b", parents=["side", "map"], hints=hints)), RESOURCES)
    assert made.stages[2].parents == (1, model.Edge(parent=0, data=3 * 2**29))


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (
            [stage("a"), stage("b", hints={"data": {"a": "1Gi"}})],
            "stage 'b': hint data names 'a', which is no parent (none)",
        ),
        (
            [stage("a"), stage("b", parents=["a"], hints={"data": {"a": "-1"}})],
            "stage 'b': hint data: negative quantity: '-1'",
        ),
        (
            [stage("a"), stage("b", parents=["a"], hints={"data": {"a": "much"}})],
            "stage 'b': hint data: not a quantity: 'much'",
        ),
        ([stage("a"), stage("a")], "two stages are called 'a'"),
        ([stage("a", parents=["b"])], "stage 'a' names parent 'b' (a)"),
        ([stage("a", cpu="4x")], "DagJob ns/j: stage 'a': cpu: not a quantity: '4x'"),
        ([stage("a", cpu="-1")], "DagJob ns/j: stage 'a': cpu: negative quantity: '-1'"),
        ([stage("a", hints={"durationSeconds": -1})], "stage 'a': hint durationSeconds is -1.0 (0 to 1e+09)"),
        ([stage("a", hints={"spread": -0.5})], "stage 'a': hint spread is -0.5"),
        ([stage("a", hints={"durationSeconds": 1e308})], "stage 'a': hint durationSeconds is 1e+308"),
        ([stage("a", tasks=0)], "stage 'a' has 0 tasks"),
        ([stage("a", parents=["b"]), stage("b", parents=["a"])], "cycle"),
        ([], "has no stages"),
    ],
)
def test_a_dagjob_that_makes_no_sense_is_refused_with_its_stage(stages: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        core_job(dagjob(*stages), RESOURCES)
    assert said in str(refused.value)
    assert "ns/j" in str(refused.value)


@pytest.mark.parametrize(
    ("told", "stage_of"),
    [
        ("100001 tasks (1 to 100000)", {"tasks": 100_001}),
        ("0 tasks (1 to 100000)", {"tasks": 0}),
        ("has 17 parents (0 to 16)", {"parents": ["a"] * 17}),
        ("hands over", {"parents": ["a"], "hints": {"data": {"a": "2P"}}}),
    ],
)
def test_a_stage_beyond_what_the_crd_lets_in_is_told(told: str, stage_of: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob, match=re.escape(told)):
        core_job(dagjob(stage(), stage(name="b", **stage_of)), RESOURCES)


def test_more_stages_than_the_crd_lets_in_are_told() -> None:
    with pytest.raises(InvalidJob, match=r"65 stages \(64 at most\)"):
        core_job(dagjob(*(stage(name=f"s{number}") for number in range(65))), RESOURCES)


def test_a_job_with_a_quantity_that_cannot_be_read_is_told_by_its_cause() -> None:
    container = {"resources": {"requests": {"cpu": "9" * 5000}}}
    with pytest.raises(InvalidJob, match="stage 'a': cpu: quantity too long") as refused:
        core_job(dagjob(stage(template={"spec": {"containers": [container]}})), RESOURCES)
    assert isinstance(refused.value.__cause__, InvalidQuantity)


def test_containers_that_ask_for_too_much_in_all_are_told() -> None:
    containers = [{"resources": {"requests": {"cpu": "1T"}}}] * 2
    with pytest.raises(InvalidJob, match="ask for 2000000000000 of cpu in all"):
        core_job(dagjob(stage(template={"spec": {"containers": containers}})), RESOURCES)


@pytest.mark.parametrize(
    "text", [pytest.param("9" * 5000, id="5,000 digits"), "\u0663", "\u00b2", "-1", "1e3", "", "1234567890"]
)
def test_a_label_that_is_no_attempt_counts_as_the_first(text: str) -> None:
    assert Pod(Meta(labels={names.ATTEMPT_LABEL: text})).attempt == 0


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("0-999999999999", set()),
        ("0-999999999", set(range(10))),
        pytest.param("3," + "0-9," * 100_000, {3}, id="the same again and again"),
        ("5-2,7", {7}),
        ("x,1-,-2,\u0663,4", {1, 4}),
        pytest.param("9" * 5000, set(), id="5,000 digits"),
    ],
)
def test_indexes_that_cannot_be_are_left_out(text: str, indexes: set[int]) -> None:
    assert read_indexes(text, 10) == indexes


def test_tries_that_say_too_much_are_left_out() -> None:
    tries = [Tries(1, 1, "0-9"), Tries(10**30, 1, "1"), Tries(2, 2, "0-9")] * 1000
    assert read_tries(tries, 10) == dict.fromkeys(range(10), (1, 1))


@pytest.mark.parametrize("code", [2**31, -(2**63), 10**30])
def test_an_exit_code_of_more_than_32_bits_is_none(code: int) -> None:
    ended = ContainerStatus("c", ContainerPhase(terminated=Terminated(exitCode=code)))
    assert Pod(Meta(), status=PodStatus("Failed", containerStatuses=[ended])).exit_code == 1


@pytest.mark.parametrize(
    "stamp",
    [
        "9999-12-31T23:59:60-23:59",
        "0000-01-01T00:00:00Z",
        pytest.param(f"2026-01-01T00:00:00.{5000 * '9'}Z", id="5,000 digits"),
    ],
)
def test_any_stamp_is_a_number_that_a_log_can_hold(stamp: str) -> None:
    assert abs(to_ms(stamp) or 0) < 2**53
