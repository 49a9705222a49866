"""What kube-scheduler may preempt for is decided by codes: the words beside them are for people."""

from __future__ import annotations

from typing import Any

import pytest

from schedulers.core.reasons import Reason
from schedulers.core.refusals import NodeCode
from schedulers.objects.meta import Meta
from schedulers.objects.node import NodeObject, NodeSpec, NodeStatus, NodeTaint
from tests.kubernetes.world import World, stage

FULL = ["full", "small", "tainted", "elsewhere", "nobody", "none"]
NAMES = [*FULL, "free"]


def mixed() -> World:
    """A node of each kind; there is none that is called `nobody` or `none`."""
    world = World(())
    for name, cpus in (("full", 2), ("small", 1), ("tainted", 4), ("elsewhere", 4), ("free", 4)):
        offered: Any = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        taints = [NodeTaint("gpu")] if name == "tainted" else []
        made = NodeObject(Meta(name=name, uid=name), NodeSpec(taints=taints), NodeStatus(allocatable=offered))
        made.metadata.labels = {"zone": "b" if name == "elsewhere" else "a"}
        world._put("Node", world.lists.nodes, made)
    pod = world.plain(gated=False, cpu=1, scheduler="default-scheduler")
    pod.spec.nodeName = "full"
    world.change(pod)
    return world


def answers() -> list[tuple[Any, ...]]:
    """Nodes, refused nodes and refused nodes of no use to preemption, of a few calls."""
    world = mixed()
    given = []
    for cpu, names in ((2, FULL), (2, NAMES), (4, ["free"]), (9, NAMES)):
        pod = world.plain(gated=False, cpu=cpu)
        pod.spec.nodeSelector = {"zone": "a"}
        answer = world.brain.filter(pod, names)
        given.append((answer.nodes, set(answer.failed), set(answer.unresolvable), answer.error))
        scores = world.brain.prioritize(pod, names)
        given.append((scores, world.brain.preempt(pod, {name: (["u"], 0) for name in names})))
    world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    return [*given, world.free("free")]


def test_nodes_are_told_apart_by_whether_preemption_can_help() -> None:
    refused = answers()[0]
    assert refused == ([], {"full", "nobody", "none"}, {"small", "tainted", "elsewhere"}, "")


def test_other_words_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers()
    for code in (*NodeCode, *Reason):
        monkeypatch.setattr(code, "template", f"taint: node labels too small has room lack {len(code)}")
    assert answers() == before


def test_every_refusal_has_a_sentence() -> None:
    assert all(code.template for code in NodeCode)


def test_a_refusal_has_the_resource_and_its_numbers() -> None:
    world = mixed()
    pod = world.plain(gated=False, cpu=2)
    world.brain.filter(pod, ["full"])
    job = next(iter(world.brain.scheduler.state.jobs.values()))
    why = world.brain.scheduler.why_not(job.stages[0], ["full", "small"])
    assert [(w.code, w.name, w.wanted, w.there) for w in why.values()] == [
        (NodeCode.LACKS, "cpu", 2000, 1000),
        (NodeCode.TOO_SMALL, "cpu", 2000, 1000),
    ]


def test_a_node_with_room_is_refused_with_the_reason_why_the_job_waits() -> None:
    world = mixed()
    world.put_queue("default", max={"cpu": 1})
    answer = world.brain.filter(world.plain(gated=False, cpu=2), ["free"])
    assert answer.failed == {
        "free": "queue default holds 0 of cpu (0.0% of the cluster) and may hold 1: "
        "2 more for the pod would be over its limit, even if nothing else were held"
    }
