"""What the DagJob controller does with the answers of the API server, and what it keeps in memory."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from operators.client import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from operators.controllers.config import ControllersConfig
from operators.controllers.dagjobs import DagJobs
from schedulers.objects import names
from schedulers.objects.dagjob import StageSpec, WholeDagJob
from schedulers.objects.pod import Condition, Pod
from tests.kubernetes.test_plan import GATED, TEMPLATE, job, pod

PODS = "/api/v1/namespaces/ns/pods"
STATUS = f"/apis/{names.API_VERSION}/namespaces/ns/dagjobs/j/status"


class Api:
    """An API server of which a test says how it takes pods; quacks like `Client`."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.status: dict[str, Any] = {}
        self.versions: list[str] = []
        self.nodes: list[str] = []
        self.refuse: Callable[[str], ApiError | None] = lambda name: None
        self.refuse_status: ApiError | None = None

    async def create(self, path: str, body: Any, **_: str) -> Any:
        await asyncio.sleep(0)
        if not path.startswith(PODS):
            self.events.append(body)
            return body
        name = body["metadata"]["name"]
        self.asked.append(name)
        error = self.refuse(name)
        if error is None and name in self.pods:
            error = AlreadyExists(409, "AlreadyExists", name)
        if error is not None:
            raise error
        body["metadata"]["uid"] = f"uid-{name}"
        self.pods[name] = body
        return body

    async def get(self, path: str, fieldSelector: str = "") -> Any:  # noqa: N803 (the API's word)
        if path == "/api/v1/nodes":
            return {"items": [name for name in self.nodes if fieldSelector == f"metadata.name={name}"]}
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFound(404, "NotFound", name)
        return self.pods[name]

    async def delete(self, path: str, body: Any = None) -> Any:
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFound(404, "NotFound", name)
        meta = self.pods[name]["metadata"]
        if {"uid": meta["uid"], "resourceVersion": meta.get("resourceVersion", "")} != body["preconditions"]:
            raise Conflict(409, "Conflict", name)
        del self.pods[name]
        self.deleted.append(name)

    async def patch(self, path: str, body: Any, **settings: Any) -> bytes:
        assert path == STATUS
        if self.refuse_status is not None:
            raise self.refuse_status
        self.versions.append(body["metadata"]["resourceVersion"])
        self.status |= body["status"]
        return b""

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events]


class Lists:
    """The cache."""

    def __init__(self, *jobs: WholeDagJob) -> None:
        self.nodes: dict[str, Any] = {"n1": None}
        self.queues: dict[str, Any] = {}
        self.pods: dict[str, Pod] = {}
        self.dagjobs = {job.key: job for job in jobs}
        self.heard: int | None = 10**9

    def heard_ms(self) -> int | None:
        return self.heard


class Controller:
    """The controller with an API server and a cache that the test moves on."""

    def __init__(self, *stages: StageSpec, **spec: Any) -> None:
        self.api, self.job = Api(), job(*stages, **spec)
        self.lists = Lists(self.job)
        client: Any = self.api
        cache: Any = self.lists
        self.dagjobs = DagJobs(client, cache, ControllersConfig(), identity="test")
        self.dagjobs.begin()

    def look(self) -> float | None:
        return asyncio.run(self.dagjobs.reconcile("ns/j"))

    def watch(self, one: Pod | None = None, *, gone: Pod | None = None) -> None:
        """The watch of pods tells something."""
        if one is not None:
            old = self.lists.pods.get(one.key)
            self.lists.pods[one.key] = one
            self.dagjobs.hear(old, one)
        if gone is not None:
            self.lists.pods.pop(gone.key, None)
            self.dagjobs.hear(gone, None)

    def watch_status(self) -> None:
        """The watch of DagJobs tells what was written."""
        self.lists.dagjobs["ns/j"] = msgspec.structs.replace(
            self.job, status=msgspec.convert(self.api.status, type(self.job.status))
        )

    def condition(self, kind: str = "PodsRefused") -> Condition | None:
        conditions = [c for c in self.api.status.get("conditions", ()) if c["type"] == kind]
        return msgspec.convert(conditions[0], Condition) if conditions else None


INVALID = Invalid(422, "Invalid", "spec.containers[0].name: Required value")
QUOTA = Forbidden(403, "Forbidden", "exceeded quota: small")


@pytest.mark.parametrize(("error", "reason"), [(INVALID, "InvalidTemplate"), (QUOTA, "Forbidden")])
def test_the_first_refusal_for_good_is_enough(error: ApiError, reason: str) -> None:
    c = Controller(StageSpec("a", TEMPLATE, 1000))
    c.api.refuse = lambda name: error
    assert c.look() == 10
    assert len(c.api.asked) <= ControllersConfig().concurrency
    condition = c.condition()
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("True", reason, error.message)


def test_pods_that_are_refused_again_and_again_are_told_once() -> None:
    c = Controller(StageSpec("a", TEMPLATE, 3))
    c.api.refuse = lambda name: INVALID
    for _ in range(3):
        c.look()
        c.watch_status()
    assert sorted(c.api.reasons()) == ["PodsRefused", "StageStarted"]


def test_a_retry_that_is_refused_is_told_when_it_is_made() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.watch(pod("a", 0, phase="Failed", code=3, nodeName="n1"))
    c.api.refuse = lambda name: QUOTA
    c.look()
    assert "TaskRetried" not in c.api.reasons()
    c.api.refuse = lambda name: None
    c.look()
    assert c.api.reasons().count("TaskRetried") == 1


def test_that_pods_were_refused_is_taken_back_once_they_are_accepted() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.api.refuse = lambda name: QUOTA
    c.look()
    c.watch_status()
    c.dagjobs._known["uid-j"].written_at = -math.inf
    c.api.refuse = lambda name: None
    assert c.look() is None
    condition = c.condition()
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Accepted")


@pytest.mark.parametrize(
    "error", [Unreachable("gone"), ApiError(500, "InternalError", ""), Conflict(409, "Conflict", "quota changed")]
)
def test_what_may_go_better_later_is_no_refusal_and_ends_all_writes_first(error: ApiError) -> None:
    c = Controller(StageSpec("a", TEMPLATE, 50))
    c.api.refuse = lambda name: error if name == "j-a-0-0" else None

    async def look() -> int:
        with pytest.raises(type(error)):
            await c.dagjobs.reconcile("ns/j")
        asked = len(c.api.asked)
        await asyncio.sleep(0.01)  # were there still writes under way, they would go on now
        return asked

    assert (asyncio.run(look()), c.api.status, c.api.events) == (50, {}, [])


# -- a name that is taken -----------------------------------------------------------------------


def taken(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j-a-0-0", "uid": "uid-there", "resourceVersion": "7", **meta}}


def owner(uid: str, kind: str = "DagJob", name: str = "j") -> dict[str, Any]:
    return {"kind": kind, "name": name, "uid": uid, "controller": True}


def test_a_pod_of_ours_without_its_labels_is_deleted_and_made_anew() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.api.pods["j-a-0-0"] = taken(ownerReferences=[owner("uid-j")], labels={names.DAGJOB_LABEL: "j"})
    assert c.look() == 1
    assert c.api.deleted == ["j-a-0-0"]
    c.look()
    assert names.QUEUE_LABEL in c.api.pods["j-a-0-0"]["metadata"]["labels"]
    assert c.condition() is None


def test_a_pod_that_the_watch_has_not_told_of_yet_is_left_alone() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.look()
    assert c.look() is None
    assert c.api.deleted == []


@pytest.mark.parametrize(
    "meta",
    [
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"ownerReferences": [owner("uid-of-its-predecessor")]},
    ],
    ids=["going", "of its namesake"],
)
def test_a_pod_that_will_be_gone_is_waited_for(meta: dict[str, Any]) -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.api.pods["j-a-0-0"] = taken(**meta)
    assert c.look() == 1
    assert (c.api.deleted, c.condition()) == ([], None)


@pytest.mark.parametrize("owners", [[], [owner("u", "ReplicaSet", "web")]], ids=["nobody's", "another's"])
def test_a_name_that_is_taken_is_told_once_and_the_others_are_made(owners: list[dict[str, Any]]) -> None:
    c = Controller(StageSpec("a", TEMPLATE, 3))
    c.api.pods["j-a-0-0"] = taken(ownerReferences=owners)
    for _ in range(3):
        assert c.look() == 10
        c.watch_status()
    condition = c.condition()
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "NameTaken")
    assert "pod j-a-0-0 is there already" in condition.message
    assert c.api.reasons().count("PodsRefused") == 1
    assert (c.api.deleted, sorted(c.api.pods)) == ([], ["j-a-0-0", "j-a-1-0", "j-a-2-0"])


# -- what is out of date ------------------------------------------------------------------------


def lost(c: Controller, **meta: Any) -> None:
    """A pod that the watch tells of, on a node of which it does not; meta: what the API server has meanwhile."""
    known = pod("a", 0, phase="Running", nodeName="n9")
    known.metadata.resourceVersion = "7"
    c.api.pods["j-a-0-0"] = taken(uid=known.metadata.uid, **meta)
    c.watch(known)


def test_a_lost_pod_is_deleted_as_it_was_known_and_that_is_told() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    lost(c)
    c.look()
    assert (c.api.deleted, c.api.reasons().count("Recreated")) == (["j-a-0-0"], 1)


def test_a_pod_that_has_changed_unheard_is_not_deleted() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    lost(c, resourceVersion="8")
    assert c.look() == 1
    assert (c.api.deleted, c.api.reasons().count("Recreated")) == ([], 0)


def test_a_node_that_came_unheard_is_not_gone() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    lost(c)
    c.api.nodes = ["n9"]
    assert c.look() == 1
    assert (c.api.deleted, c.api.reasons().count("Recreated")) == ([], 0)


def test_nothing_is_done_while_nothing_is_heard() -> None:
    c = Controller(StageSpec("a", TEMPLATE, 2))
    lost(c)
    c.lists.heard = None
    assert c.look() == 1
    assert (c.api.deleted, c.api.asked, c.api.status) == ([], [], {})


# -- memory -------------------------------------------------------------------------------------


def test_a_failure_counts_though_its_pod_is_gone_before_the_status_is_heard() -> None:
    c = Controller(StageSpec("a", TEMPLATE), retries=0)
    running = pod("a", 0, phase="Running", nodeName="n1")
    c.watch(running)
    c.look()
    failed = pod("a", 0, phase="Failed", code=3, nodeName="n1")
    c.watch(gone=failed)  # as the reflector tells it: the last state of the pod
    c.look()
    assert (c.api.status["phase"], c.api.asked) == ("Failed", [])
    c.look()
    assert c.api.status["stages"][0]["failed"] == 1


def test_a_stale_status_takes_nothing_back() -> None:
    c = Controller(StageSpec("a", TEMPLATE, 2))
    c.watch(pod("a", 0, phase="Succeeded", nodeName="n1"))
    c.watch(pod("a", 1, **GATED))
    c.look()
    c.watch(gone=pod("a", 0, phase="Succeeded", nodeName="n1"))
    c.look()  # the watch of DagJobs has told nothing
    assert (c.api.status["succeeded"], c.api.asked) == (1, [])


def test_a_job_whose_plan_took_long_rests_before_it_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.watch(pod("a", 0, **GATED))
    # Began, was planned for 0.1 s, wrote the status; began again 0.1 s later.
    clock = SimpleNamespace(
        monotonic=iter([100.0, 100.1, 100.1, 100.2]).__next__,
        thread_time=iter([7.0, 7.1]).__next__,
        time_ns=time.time_ns,
    )
    monkeypatch.setattr("operators.controllers.dagjobs.time", clock)
    c.look()
    assert c.look() == pytest.approx(0.3)


def test_what_is_gone_is_forgotten() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    one = pod("a", 0)
    one.status.conditions = [Condition("PodScheduled", "False", "Unschedulable", "no room")]
    c.watch(one)
    c.look()
    controller = c.dagjobs
    assert all((controller._known, controller._pods, controller._unschedulable))
    del c.lists.dagjobs["ns/j"]
    controller.forget("uid-j")
    unlabelled = pod("a", 0)
    unlabelled.metadata.labels.clear()
    c.watch(gone=unlabelled)
    ended = pod("a", 0, phase="Failed", code=1)
    c.watch(gone=ended)
    assert not any((controller._known, controller._pods, controller._unschedulable))


def test_a_job_that_goes_while_it_is_looked_at_is_not_remembered() -> None:
    c = Controller(StageSpec("a", TEMPLATE))

    def goes(name: str) -> None:
        c.lists.dagjobs.clear()
        c.dagjobs.forget("uid-j")

    c.api.refuse = goes
    c.look()
    assert not c.dagjobs._known


def test_a_status_is_meant_for_one_version_and_written_later_if_that_is_gone() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.job.metadata.resourceVersion = "7"
    c.api.refuse_status = Conflict(409, "Conflict", "the object has been modified")
    assert c.look() == 0.2
    c.api.refuse_status = None
    c.look()
    assert (c.api.versions, c.api.status["phase"]) == (["7"], "Pending")


def test_the_brains_part_of_a_status_is_not_written_although_it_has_changed_since_the_last_plan() -> None:
    c = Controller(StageSpec("a", TEMPLATE))
    c.look()
    c.watch_status()
    dagjob = c.lists.dagjobs["ns/j"]
    c.lists.dagjobs["ns/j"] = msgspec.structs.replace(
        dagjob, status=msgspec.structs.replace(dagjob.status, reason="NoRoom", message="no room", position=2)
    )
    c.watch(pod("a", 0, phase="Succeeded"))
    c.look()
    assert c.api.status["phase"] == "Succeeded"
    assert not {"reason", "message", "position", "estimateSeconds", "plan"} & c.api.status.keys()
