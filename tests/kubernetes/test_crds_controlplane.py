"""What the API server says of Queues and DagJobs: every rule of the CRDs, defaults, columns, short names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from operators.client import ApiError
from schedulers.objects import names
from tests.kubernetes.installed import dagjob, stage, submit

pytestmark = pytest.mark.controlplane

QUEUES = f"/apis/{names.API_VERSION}/queues"
DAGJOBS = f"/apis/{names.API_VERSION}/namespaces/default/dagjobs"

LONG = "9" * 5000

Change = Callable[[dict[str, Any]], Any]


def a_queue(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def a_job(*stages: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return dagjob("good", "default", list(stages or (stage("a", 1, 1),)), **spec)


def a_stage(**changed: Any) -> dict[str, Any]:
    return {**stage("a", 1, 1), **changed}


def asking(cpu: Any) -> dict[str, Any]:
    """A stage that asks for so much CPU."""
    return {"name": "a", "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}}}


def named(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "name": name}}


def said(cluster: Devcluster, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the API server would say, and the object as it would be kept."""

    async def create() -> tuple[str, dict[str, Any]]:
        async with cluster.client() as client:
            try:
                return "", await client.create(path, body, dryRun="All", fieldValidation="Strict")
            except ApiError as error:
                return error.message, {}

    return asyncio.run(create())


BAD_QUEUES = {
    "its own parent": (a_queue(parent="q"), "a queue cannot be its own parent"),
    "next to no weight": (a_queue(weight=1e-300), "spec.weight in body should be greater than or equal to 1e-06"),
    "a limit of 5,000 digits": (a_queue(max={"cpu": LONG}), "spec.max.cpu: Too long: may not be more than 32 bytes"),
    "a share of 5,000 digits": (a_queue(max=LONG), "spec.max: Too long: may not be more than 32 bytes"),
    "a limit of a user of 5,000 digits": (a_queue(perUser={"limit": {"cpu": LONG}}), "limit.cpu: Too long"),
    "more limits than there are resources": (a_queue(max={f"x{n}": 1 for n in range(33)}), "spec.max: Too many: 33"),
    "no weight": (a_queue(weight=0), "weight must be above 0"),
    "a weight below 0": (a_queue(weight=-1.5), "weight must be above 0"),
    "too heavy": (a_queue(weight=1_000_001), "spec.weight in body should be less than or equal to 1000000"),
    "a weight that is none": (a_queue(weight="much"), 'spec.weight in body must be of type number: "string"'),
    "a long parent": (a_queue(parent="p" * 64), "spec.parent: Too long: may not be more than 63 bytes"),
    "none may run": (a_queue(maxRunning=0), "spec.maxRunning in body should be greater than or equal to 1"),
    "none of a user may run": (
        a_queue(perUser={"maxRunning": 0}),
        "spec.perUser.maxRunning in body should be greater than or equal to 1",
    ),
    "a long name": (named(a_queue(), "n" * 64), "metadata.name: Too long: may not be more than 63 bytes"),
    "a name that ends in a hyphen": (named(a_queue(), "q-"), "metadata.name"),
    "a field that there is not": (a_queue(wieght=1), 'unknown field "spec.wieght"'),
    "no spec": ({k: v for k, v in a_queue().items() if k != "spec"}, "spec: Required value"),
}

BAD_JOBS = {
    "no stages": (dagjob("good", "default", []), "spec.stages in body should have at least 1 items"),
    "too many stages": (a_job(*(stage(f"s{n}", 1, 1) for n in range(65))), "spec.stages: Too many: 65"),
    "two of one name": (a_job(a_stage(), a_stage()), "two stages have the same name"),
    "an unknown parent": (
        a_job(a_stage(parents=["b"])),
        "a stage names a parent that is not a stage of this job",
    ),
    "a stage before its parent": (
        a_job(a_stage(parents=["b"]), a_stage(name="b")),
        "a stage has to stand after its parents, so that the stages cannot form a cycle",
    ),
    "its own parent": (a_job(a_stage(parents=["a"])), "a stage has to stand after its parents"),
    "a parent twice": (a_job(a_stage(), a_stage(name="b", parents=["a", "a"])), "Duplicate value"),
    "too many parents": (
        a_job(*(stage(f"s{n}", 1, 1) for n in range(17)), a_stage(parents=[f"s{n}" for n in range(17)])),
        "parents: Too many: 17",
    ),
    "a bad stage name": (a_job(a_stage(name="A_b")), "spec.stages[0].name in body should match"),
    "a long stage name": (a_job(a_stage(name="n" * 31)), "spec.stages[0].name: Too long"),
    "no stage name": (a_job({k: v for k, v in a_stage().items() if k != "name"}), "spec.stages[0].name: Required"),
    "no tasks": (a_job(a_stage(tasks=0)), "spec.stages[0].tasks in body should be greater than or equal to 1"),
    "too many tasks": (a_job(a_stage(tasks=100_001)), "tasks in body should be less than or equal to 100000"),
    "a gang that is none": (a_job(a_stage(gang="yes")), "gang in body must be of type boolean"),
    "a hint below 0": (a_job(a_stage(hints={"durationSeconds": -1})), "durationSeconds in body should be greater"),
    "data of a stage that is no parent": (
        a_job(a_stage(), a_stage(name="b", hints={"data": {"a": "1Gi"}})),
        "hints.data names a stage that is not a parent",
    ),
    "data that is no text": (a_job(a_stage(hints={"data": {"a": 1}})), "hints.data.a in body must be of type string"),
    "a spread below 0": (a_job(a_stage(hints={"spread": -1})), "spread in body should be greater"),
    "no template": (a_job({"name": "a"}), "spec.stages[0].template: Required value"),
    "no pod spec": (a_job(a_stage(template={})), "spec.stages[0].template.spec: Required value"),
    "a CPU of 5,000 digits": (
        a_job(stage("a", 1, 1, cpu=LONG)),
        "containers[0].resources.requests.cpu: Too long: may not be more than 32 bytes",
    ),
    "a CPU that is no amount": (a_job(stage("a", 1, 1, cpu="1e3m")), "resources.requests.cpu in body should match"),
    "a CPU below 0": (a_job(asking(-1)), "resources.requests.cpu in body should be greater than or equal to 0"),
    "a CPU beyond counting": (a_job(asking(10**30)), "resources.requests.cpu in body should be less than or equal"),
    "a limit of 5,000 digits": (
        a_job(a_stage(template={"spec": {"containers": [{"resources": {"limits": {"cpu": LONG}}}]}})),
        "containers[0].resources.limits.cpu: Too long",
    ),
    "an init container's CPU that is no amount": (
        a_job(
            a_stage(
                template={"spec": {"containers": [{}], "initContainers": [{"resources": {"requests": {"cpu": "x"}}}]}}
            )
        ),
        "initContainers[0].resources.requests.cpu in body should match",
    ),
    "an overhead of 5,000 digits": (
        a_job(a_stage(template={"spec": {"containers": [{}], "overhead": {"cpu": LONG}}})),
        "overhead.cpu: Too long",
    ),
    "too many tasks in all": (
        a_job(*(stage(f"s{n}", 2000, 1) for n in range(64))),
        "more than 100000 tasks in all stages",
    ),
    "a hint of more than 30 years": (a_job(a_stage(hints={"durationSeconds": 1e10})), "should be less than or equal"),
    "data that is no amount": (
        a_job(a_stage(), a_stage(name="b", parents=["a"], hints={"data": {"a": "much"}})),
        "hints.data.a in body should match",
    ),
    "a life of centuries": (a_job(ttlSecondsAfterFinished=2**31), "should be less than or equal to 2147483647"),
    "a long label": (
        a_job(a_stage(template={"metadata": {"labels": {"x": "y" * 64}}, "spec": {"containers": [{}]}})),
        "labels.x: Too long: may not be more than 63 bytes",
    ),
    "no container list": (a_job(a_stage(template={"spec": {}})), "template.spec.containers: Required value"),
    "no containers": (a_job(a_stage(template={"spec": {"containers": []}})), "containers in body should have at least"),
    "a label that is no text": (
        a_job(a_stage(template={"metadata": {"labels": {"x": 1}}, "spec": {"containers": [{}]}})),
        "template.metadata.labels.x in body must be of type string",
    ),
    "pods for another scheduler": (
        a_job(a_stage(template={"spec": {"containers": [{}], "schedulerName": "default-scheduler"}})),
        'template.spec.schedulerName: Unsupported value: "default-scheduler": supported values: "rm-scheduler"',
    ),
    "pods that never end": (
        a_job(a_stage(template={"spec": {"containers": [{}], "restartPolicy": "Always"}})),
        'template.spec.restartPolicy: Unsupported value: "Always": supported values: "Never", "OnFailure"',
    ),
    "an empty queue": (a_job(queue=""), "spec.queue in body should be at least 1 chars long"),
    "a long queue": (a_job(queue="q" * 64), "spec.queue: Too long"),
    "a long user": (a_job(user="u" * 254), "spec.user: Too long"),
    "retries below 0": (a_job(retries=-1), "spec.retries in body should be greater than or equal to 0"),
    "too many retries": (a_job(retries=101), "spec.retries in body should be less than or equal to 100"),
    "a life below 0": (a_job(ttlSecondsAfterFinished=-1), "ttlSecondsAfterFinished in body should be greater"),
    "a deadline that is none": (a_job(deadline="soon"), "spec.deadline in body must be of type date-time"),
    "a long name": (named(a_job(), "n" * 64), "metadata.name: Too long: may not be more than 63 bytes"),
    "a field that there is not": (a_job(retires=1), 'unknown field "spec.retires"'),
}


@pytest.mark.parametrize("what", BAD_QUEUES)
def test_a_bad_queue_is_refused_with_a_reason(devcluster: Devcluster, what: str) -> None:
    body, why = BAD_QUEUES[what]
    assert why in said(devcluster, QUEUES, body)[0]


@pytest.mark.parametrize("what", BAD_JOBS)
def test_a_bad_dagjob_is_refused_with_a_reason(devcluster: Devcluster, what: str) -> None:
    body, why = BAD_JOBS[what]
    assert why in said(devcluster, DAGJOBS, body)[0]


@pytest.mark.parametrize(
    "body",
    [
        a_queue(),
        a_queue(weight=0.001, parent="root", maxRunning=1, preemptible=False),
        a_queue(guaranteed={"cpu": "4"}, max="50%", perUser={"limit": {"cpu": 2}, "maxRunning": 3}),
        named(a_queue(), "team.a-1"),
    ],
)
def test_good_queues_pass(devcluster: Devcluster, body: dict[str, Any]) -> None:
    assert said(devcluster, QUEUES, body)[0] == ""


@pytest.mark.parametrize(
    "body",
    [
        a_job(),
        a_job(*(stage(f"s{n}", 1500, 1) for n in range(64))),
        a_job(*({**asking(cpu), "name": f"s{n}"} for n, cpu in enumerate((0.5, "0.5", "500m", 2, "1e3", "+1", ".5")))),
        a_job(a_stage(), a_stage(name="b", parents=["a"]), a_stage(name="c", parents=["a", "b"], gang=True)),
        a_job(deadline="2030-01-01T00:00:00Z", retries=0, ttlSecondsAfterFinished=0, user="ann"),
        named(a_job(), "n" * 63),
    ],
)
def test_good_dagjobs_pass(devcluster: Devcluster, body: dict[str, Any]) -> None:
    assert said(devcluster, DAGJOBS, body)[0] == ""


def test_what_is_not_given_has_a_default(devcluster: Devcluster) -> None:
    queue = said(devcluster, QUEUES, a_queue())[1]["spec"]
    assert queue == {"weight": 1, "preemptible": True}
    spec = said(devcluster, DAGJOBS, a_job({"name": "a", "template": {"spec": {"containers": [{"name": "c"}]}}}))[1][
        "spec"
    ]
    (only,) = spec.pop("stages")
    assert spec == {"queue": "default", "retries": 3}
    assert (only["tasks"], only["gang"], "parents" in only) == (1, False, False)


def write_status(cluster: Devcluster, space: str, body: dict[str, Any]) -> None:
    """Of the DagJob j."""
    patch = json.dumps(body)
    cluster.kubectl("patch", "dj", "j", "-n", space, "--subresource=status", "--type=merge", "-p", patch)


def test_a_dagjob_cannot_be_changed_but_its_labels_can(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, dagjob("j", space, [stage("a", 1, 1)]))
    for change in ({"retries": 1}, {"queue": "other"}, {"stages": [stage("a", 2, 1)]}):
        with pytest.raises(RuntimeError, match="a DagJob cannot be changed once it is there; delete it and make a new"):
            devcluster.kubectl("patch", "dj", "j", "-n", space, "--type=merge", "-p", json.dumps({"spec": change}))
    devcluster.kubectl("label", "dj", "j", "-n", space, "team=a")


def test_the_status_keeps_what_the_controllers_write_and_nothing_else(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, dagjob("j", space, [stage("a", 1, 1)]))
    wanted = {
        "name": "a",
        "tasks": 1,
        "failed": 2,
        "completedIndexes": "",
        "started": True,
        "tries": [{"failures": 2, "attempt": 3, "indexes": "0"}],
    }
    write_status(devcluster, space, {"status": {"phase": "Running", "stages": [wanted], "made-up": 1}})
    assert devcluster.get("dj", "j", "-n", space)["status"] == {"phase": "Running", "stages": [wanted]}
    with pytest.raises(RuntimeError, match='Unsupported value: "Gone"'):
        write_status(devcluster, space, {"status": {"phase": "Gone"}})


def test_a_status_meant_for_a_version_that_is_gone_is_refused(devcluster: Devcluster) -> None:
    """So that one meant for a DagJob that was deleted does not end up in its namesake."""
    space = devcluster.namespace()
    submit(devcluster, dagjob("j", space, [stage("a", 1, 1)]))
    meta = {"resourceVersion": devcluster.get("dj", "j", "-n", space)["metadata"]["resourceVersion"]}
    devcluster.kubectl("delete", "dj", "j", "-n", space)
    submit(devcluster, dagjob("j", space, [stage("a", 1, 1)]))
    with pytest.raises(RuntimeError, match="the object has been modified"):
        write_status(devcluster, space, {"metadata": meta, "status": {"phase": "Running"}})


def columns(cluster: Devcluster, *asked: str) -> dict[str, str]:
    """Heading -> text of the only row; by where a column begins, because a cell may be empty."""
    heading, row = cluster.kubectl("get", *asked).splitlines()[:2]
    starts = [at for at, c in enumerate(heading) if c != " " and (at == 0 or heading[at - 1] == " ")]
    parts = list(zip(starts, [*starts[1:], None], strict=True))
    return {heading[a:b].strip(): row[a:b].strip() for a, b in parts}


def test_columns_and_short_names(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, named(a_queue(weight=2.5, parent="up"), "columns"), dagjob("j", space, [stage("a", 1, 1)]))
    status = {
        "phase": "Running",
        "tasks": 3,
        "succeeded": 1,
        "reason": "NoRoom",
        "position": 4,
        "estimateSeconds": 1.5,
        "expected": {"known": True, "asOf": "2026-01-01T00:00:00Z", "finish": {"p50": "2026-01-01T02:05:00Z"}},
    }
    write_status(devcluster, space, {"status": status})
    ready = {"type": "Ready", "status": "False"}
    patch = json.dumps({"status": {"jobs": 1, "pending": 2, "running": 3, "share": "4.5%", "conditions": [ready]}})
    devcluster.kubectl("patch", "rmq", "columns", "--subresource=status", "--type=merge", "-p", patch)
    try:
        shown = columns(devcluster, "rmq", "columns")
        assert shown.pop("AGE")
        assert shown == {
            "NAME": "columns",
            "WEIGHT": "2.5",
            "PARENT": "up",
            "JOBS": "1",
            "PENDING": "2",
            "RUNNING": "3",
            "SHARE": "4.5%",
            "READY": "False",
        }
        shown = columns(devcluster, "dj", "-n", space, "-o", "wide")
        assert shown.pop("AGE")
        assert shown == {
            "NAME": "j",
            "QUEUE": "default",
            "PHASE": "Running",
            "TASKS": "3",
            "SUCCEEDED": "1",
            "REASON": "NoRoom",
            "ETA": "2026-01-01T02:05:00Z",
            "POSITION": "4",
            "ESTIMATE": "1.5",
            "PROMISE": "",
        }
        assert "POSITION" not in columns(devcluster, "dj", "-n", space)
        assert "dagjob.rm-emulator.io/j" in devcluster.kubectl("get", "rm", "-n", space, "-o", "name")
    finally:
        devcluster.kubectl("delete", "rmq", "columns")
