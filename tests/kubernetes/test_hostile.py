"""Whatever tenants write: no exception leaves the place where it is read, and other jobs run on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.access import Access
from operators.cache.cache import Cache, Change
from operators.client import Client
from operators.controllers.plan import PlanContext, plan
from operators.controllers.process import _kinds
from operators.controllers.queues import Queues
from operators.extender.brain import Brain
from operators.extender.intake import Breaks
from operators.extender.releases import ReleaseWriter
from operators.extender.takeover import take_over
from operators.extender.wire import BadRequest, read_args
from rm_emulator.scenario import live
from schedulers.core.log import SchedulerConfig
from schedulers.core.scheduler import Scheduler
from schedulers.objects import names
from schedulers.objects.memory import BrainSnapshot
from tests.examples import examples
from tests.kubernetes import hostile
from tests.kubernetes.hostile import LONG, PLANS
from tests.kubernetes.installed import dagjob, stage

RESOURCES = ("cpu", "memory", "pods")
CONFIG = SchedulerConfig(resources=RESOURCES, policy={"kind": "hdrf"}, offers="cycle", reserve_after=30_000)
NODES = ["n0", "n1"]
KIND_OF = {"pods": "Pod", "dagjobs": "DagJob", "queues": "Queue"}


class Cluster:
    """Both processes as far as they read: caches that are told lines of a watch, a brain, the controllers' plans."""

    def __init__(
        self,
        nodes: Sequence[dict[str, Any]] | None = None,
        *,
        reserved: bool = False,
        config: SchedulerConfig = CONFIG,
    ) -> None:
        nowhere = Client(Access(url="http://127.0.0.1:9"))
        self.cache = Cache(nowhere, self._hear)
        self.whole = Cache(nowhere, lambda change: None, kinds=_kinds())
        self.queues = Queues(nowhere, self.whole, RESOURCES)
        self.nowhere, self.clock, self._version = nowhere, 1_000_000, 0
        self.raw: dict[str, list[bytes]] = {kind: [] for kind in ("Node", "Namespace", "Queue", "DagJob", "Pod")}
        self.brain: Brain
        self._reserved, self._config = reserved, config
        self.lead(None)
        roomy = {"cpu": "1000000", "memory": "1000000Gi", "pods": "1000000"}  # there is room for all that is sound
        there = [{"metadata": {"name": name}, "status": {"allocatable": roomy}} for name in NODES]
        for node in nodes if nodes is not None else there:
            self.send("Node", node)
        self.send("Namespace", {"metadata": {"name": "ns"}})

    def lead(self, snapshot: bytes | None) -> None:
        """A new leader takes over."""
        saved = msgspec.msgpack.decode(snapshot, type=BrainSnapshot) if snapshot is not None else None
        scheduler = Scheduler.restore(saved.core) if saved is not None else Scheduler(self._config)
        releases = ReleaseWriter(self.nowhere)
        self.brain = Brain(
            scheduler, self.cache, releases, clock=lambda: self.clock, breaks=Breaks(), reserved=self._reserved
        )
        take_over(self.brain, identity="test", pods=saved.pods if saved is not None else {}, history=())

    def _hear(self, change: Change) -> None:
        self.brain.hear(change)

    def send(self, kind: str, item: Any) -> None:
        """An object as the API server tells of it: with uid, version and time. item: JSON text, or what becomes it."""
        text = item if isinstance(item, str) else msgspec.json.encode(item).decode()
        self.send_raw(kind, self._given(kind, text))

    def _given(self, kind: str, text: str) -> bytes:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        meta = msgspec.json.decode(fields["metadata"], type=dict[str, msgspec.Raw])
        name = msgspec.json.decode(meta["name"])
        self._version += 1
        given = {
            "uid": f"{kind}-{name}-00000000",
            "resourceVersion": str(self._version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        meta |= {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in given.items()}
        fields["metadata"] = msgspec.Raw(msgspec.json.encode(meta))
        return msgspec.json.encode(fields)

    def send_raw(self, kind: str, whole: bytes) -> None:
        """A whole object, as JSON, on the watches of both processes."""
        self.raw[kind].append(whole)
        line = b'{"type":"MODIFIED","object":' + whole + b"}"
        self.cache.reflectors[kind].take_line(line)
        if kind in self.whole.reflectors:
            self.whole.reflectors[kind].take_line(line)

    def attempt(self, tried: hostile.Hostile) -> None:
        """What a tenant tries, as if nobody had refused it."""
        if tried.arguments[0] == "create":
            self.send(KIND_OF[tried.arguments[2].rpartition("/")[2]], tried.text)
        else:
            key, _, value = tried.arguments[-1].partition("=")
            self.send("DagJob", good_job() | {"metadata": {**good_job()["metadata"], "annotations": {key: value}}})

    def read_all(self) -> None:
        """All that read objects do: decisions, extender, plans, conditions, `snapshot`, a takeover of each kind."""
        self.brain.cycle()
        self.brain.expire()
        for raw in self.raw["Pod"]:
            try:
                asked = read_args(b'{"Pod":' + raw + b',"NodeNames":["n0","n1"]}')
            except BadRequest:
                continue
            self.brain.filter(asked.pod, asked.names)
            self.brain.prioritize(asked.pod, asked.names)
        for job in self.planned():
            pods = [pod for pod in self.whole.pods.values() if pod.dagjob_uid == job.metadata.uid]
            plan(job, pods, around())
        self.queues.conditions()
        taken = self.emulated()
        assert [item["metadata"]["name"] for item in taken.objects if item["kind"] == "Node"] == NODES
        for snapshot in (self.brain.snapshot(), None):
            self.lead(snapshot)
            self.brain.cycle()
        assert [reflector.unheard for reflector in self.cache.reflectors.values()] == [0] * len(self.cache.reflectors)

    def planned(self) -> list[Any]:
        """The DagJobs that the controllers know of, with whole templates."""
        return list(self.whole.dagjobs.values())

    def emulated(self) -> live.Snapshot:
        """What `rm-emulator snapshot` makes of all objects."""
        kinds = ("Node", "Queue", "DagJob", "Pod")
        lists = ('{"items":[' + ",".join(raw.decode() for raw in self.raw[kind]) + "]}" for kind in kinds)
        return live.of(*(live.listed(text) for text in lists))


def around() -> PlanContext:
    return PlanContext(
        now_ms=10**12,
        heard_ms=10**9,
        nodes=NODES,
        queues=["default"],
        unschedulable_since={},
        recreate_after_ms=30_000,
        stamp=lambda ms: "2026-01-01T00:00:00Z",
    )


def good_job() -> dict[str, Any]:
    return dagjob("good", "ns", [stage("map", 1, 5)])


def good_pod() -> dict[str, Any]:
    """The one task of the good job, as the controllers make it."""
    owner = {"apiVersion": names.API_VERSION, "kind": "DagJob", "name": "good", "uid": "DagJob-good-00000000"}
    labels = {names.QUEUE_LABEL: "default", names.DAGJOB_LABEL: "good", names.STAGE_LABEL: "map"}
    labels |= {names.INDEX_LABEL: "0", names.ATTEMPT_LABEL: "0"}
    meta = {
        "name": "good-map-0-0",
        "namespace": "ns",
        "labels": labels,
        "ownerReferences": [owner | {"controller": True}],
    }
    spec = good_job()["spec"]["stages"][0]["template"]["spec"]
    gated = spec | {"schedulerName": names.SCHEDULER, "schedulingGates": [{"name": names.GATE}]}
    return {"metadata": meta, "spec": gated, "status": {"phase": "Pending"}}


def runs_on(cluster: Cluster) -> bool:
    """Whether a good job that comes now is let start."""
    cluster.send("DagJob", good_job())
    cluster.send("Pod", good_pod())
    return starts(cluster)


def starts(cluster: Cluster) -> bool:
    """Whether the good job's pod is released now."""
    cluster.brain.cycle()
    return cluster.brain.driver.releases.is_pending("Pod-good-map-0-0-00000000")


def kept_out(cluster: Cluster, queue: str) -> str:
    """The reason for which a good job for this queue is set aside."""
    job = good_job()
    job["spec"]["queue"] = queue
    cluster.send("DagJob", job)
    cluster.send("Pod", good_pod())
    cluster.brain.cycle()
    (aside,) = cluster.brain.translator.intake.aside.values()
    assert aside.kind == "DagJob"
    return aside.reason


def attacked(seed: int, count: int) -> Cluster:
    """A cluster whose tenants have tried `count` drawn objects; all that reads objects has read them."""
    cluster, draw = Cluster(), random.Random(seed)
    for number in range(count):
        cluster.attempt(hostile.drawn(draw, number, "ns", NODES))
    cluster.read_all()
    return cluster


@given(seed=st.integers(0, 10**9), count=st.integers(1, 40))
@settings(max_examples=examples(240), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_hostile_objects_stop_nobody(seed: int, count: int) -> None:
    assert runs_on(attacked(seed, count))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.drawn(of=4)
def test_ten_thousand_hostile_objects_stop_nobody(seed: int) -> None:
    assert runs_on(attacked(seed, 250))


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_of_gangs_that_a_tenant_wrote_stops_no_takeover(text: str) -> None:
    cluster = Cluster()
    gang = dagjob("gang", "ns", [stage("map", 2, 5, gang=True)])
    gang["metadata"]["annotations"] = {names.GANG_PLAN: text}
    cluster.send("DagJob", gang)
    cluster.read_all()
    assert runs_on(cluster)


@pytest.mark.parametrize("kind", ["DagJob", "Pod", "Node", "Queue"])
@pytest.mark.parametrize("amount", [LONG, "1e400", "9223372036854775808Ei", "-5", "x"])
def test_a_number_of_thousands_of_digits_stops_nobody(kind: str, amount: str) -> None:
    cluster = Cluster()
    items: dict[str, dict[str, Any]] = {
        "DagJob": dagjob("bad", "ns", [stage("map", 1, 5, cpu=amount)]),
        "Pod": good_pod() | {"metadata": {"name": "bad", "namespace": "ns"}},
        "Node": {"metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": amount}}},
        "Queue": {"metadata": {"name": "bad"}, "spec": {"max": {"cpu": amount}}},
    }
    items["Pod"]["spec"] = {
        **items["Pod"]["spec"],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}],
    }
    cluster.send(kind, items[kind])
    cluster.read_all()
    assert runs_on(cluster)


def test_what_is_nested_thousands_of_levels_deep_stops_nobody() -> None:
    cluster = Cluster()
    deep = dagjob("deep", "ns", [stage("map", 1, 5)])
    deep["metadata"] |= {"uid": "deep", "resourceVersion": "9999"}
    cluster.send_raw("DagJob", msgspec.json.encode(deep).replace(b'"busybox"', b"[" * 5000 + b"]" * 5000))
    cluster.read_all()
    (job,) = cluster.planned()
    assert "nested more than 40 deep" in plan(job, [], around()).status.conditions[0].message
    assert runs_on(cluster)


def test_a_job_waits_for_its_queue_and_starts_when_it_is_there() -> None:
    cluster = Cluster()
    assert kept_out(cluster, "etl") == "QueueNotFound"
    cluster.send("Queue", {"metadata": {"name": "etl"}, "spec": {}})
    assert starts(cluster)


def test_a_queue_below_a_restricted_one_is_as_restricted() -> None:
    cluster = Cluster()
    only = {"namespaces": {"matchLabels": {"team": "a"}}}
    cluster.send("Queue", {"metadata": {"name": "etl"}, "spec": {"parent": "data"}})
    cluster.send("Queue", {"metadata": {"name": "data"}, "spec": only})
    assert kept_out(cluster, "etl") == "QueueNotAllowed"
    cluster.send("Namespace", {"metadata": {"name": "ns", "labels": {"team": "a"}}})
    assert starts(cluster)


def test_a_namespace_that_was_not_heard_of_yet_opens_no_queue_by_labels_that_it_lacks() -> None:
    cluster = Cluster()
    without = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    cluster.send("Queue", {"metadata": {"name": "etl"}, "spec": {"namespaces": without}})
    job = dagjob("job", "later", [stage("map", 1, 5)], queue="etl")
    cluster.send("DagJob", job)
    (aside,) = cluster.brain.translator.intake.aside.values()
    assert aside.reason == "QueueNotAllowed"
    cluster.send("Namespace", {"metadata": {"name": "later"}})
    assert not cluster.brain.translator.intake.aside


def test_an_object_at_which_the_brain_breaks_twice_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    from operators.extender.intake import Broken
    from operators.extender.translator import ChangeTranslator

    hears = ChangeTranslator.hear_dagjob

    def breaks(self: ChangeTranslator, old: Any, new: Any) -> None:
        if new is not None and new.metadata.name == "bad":
            raise RuntimeError("a mistake of ours")
        hears(self, old, new)

    monkeypatch.setattr(ChangeTranslator, "hear_dagjob", breaks)
    cluster, remembered = Cluster(), Breaks()
    cluster.brain.translator._breaks = remembered
    for _ in range(2):
        with pytest.raises(Broken) as raised:
            cluster.brain.hear(Change("DagJob", None, _bad(cluster)))
        remembered.note(raised.value)
    cluster.brain.hear(Change("DagJob", None, _bad(cluster)))
    (aside,) = cluster.brain.translator.intake.aside.values()
    assert aside.reason == "BrokeTheBrain"
    assert runs_on(cluster)


def _bad(cluster: Cluster) -> Any:
    reflector = cluster.cache.reflectors["DagJob"]
    return reflector._object(msgspec.Raw(msgspec.json.encode(dagjob("bad", "ns", [stage("map", 1, 5)]))))
