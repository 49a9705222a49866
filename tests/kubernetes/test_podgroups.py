"""Pods that name a PodGroup of Kubernetes: a gang of its `minCount`, decided as a whole."""

from __future__ import annotations

import pytest

from operators.extender.podgroups import GROUP_INCOMPLETE, GROUP_NOT_FOUND
from schedulers.core.replay import Replay
from schedulers.objects.pod import Pod
from tests.kubernetes.world import World


def out(world: World) -> list[str]:
    """Names of the pods that have left the gate."""
    return [pod.metadata.name for pod in world.lists.pods.values() if not pod.is_gated]


def decide(world: World) -> None:
    world.brain.cycle()
    world.write()


def waits(world: World, pod: Pod) -> str:
    aside = world.brain.translator.intake.aside.get(pod.metadata.uid)
    return aside.reason if aside is not None else ""


def running(sizes: tuple[int, ...] = (4, 4), size: int = 2) -> tuple[World, list[Pod]]:
    """A gang that runs, a pod on each node."""
    world = World(sizes)
    world.put_group("train", size)
    pods = [world.plain(cpu=3, group="train") for _ in range(size)]
    decide(world)
    world.bind()
    for pod in list(world.bound()):
        world.start(pod)
    return world, [world.lists.pods[pod.key] for pod in pods]


def test_no_pod_starts_before_all_are_there() -> None:
    world = World((4, 4))
    world.put_group("train", 3)
    first, _ = (world.plain(group="train") for _ in range(2))
    decide(world)
    assert (out(world), waits(world, first)) == ([], GROUP_INCOMPLETE)


def test_all_start_together_once_the_last_is_there() -> None:
    world = World((4, 4))
    world.put_group("train", 3)
    pods = [world.plain(group="train") for _ in range(3)]
    decide(world)
    assert out(world) == [pod.metadata.name for pod in pods]
    assert not world.brain.translator.intake.aside


def test_none_starts_where_only_some_fit() -> None:
    world = World((4, 4))
    world.put_group("train", 3)
    for _ in range(3):
        world.plain(cpu=3, group="train")
    decide(world)
    assert out(world) == []


def test_the_wait_names_the_pod_group_and_its_size() -> None:
    world = World((4,))
    world.put_group("train", 2)
    for _ in range(2):
        world.plain(cpu=3, group="train")
    decide(world)
    (entry,) = world.brain.jobs
    (why, *_) = world.brain.scheduler.reasons(entry.id)
    assert "the PodGroup" in entry.in_owners_words(why.sentence)


def test_pods_wait_for_a_pod_group_that_does_not_exist_yet() -> None:
    world = World((4, 4))
    world.lists.pod_groups = {}
    pods = [world.plain(group="train") for _ in range(2)]
    assert {waits(world, pod) for pod in pods} == {GROUP_NOT_FOUND}
    world.put_group("train", 2)
    decide(world)
    assert len(out(world)) == 2


@pytest.mark.parametrize("size", [None, 1])
def test_a_group_without_a_gang_has_pods_of_their_own(size: int | None) -> None:
    world = World((4, 4))
    world.put_group("basic", size)
    world.plain(group="basic")
    decide(world)
    assert len(out(world)) == 1


def test_nothing_changes_where_the_api_server_serves_no_pod_groups() -> None:
    world = World((4, 4))
    world.plain(group="train")
    decide(world)
    assert len(out(world)) == 1


def test_a_pod_beyond_the_gang_is_a_job_of_its_own() -> None:
    world, _ = running()
    extra = world.plain(group="train")
    decide(world)
    assert not world.lists.pods[extra.key].is_gated


def test_pods_with_other_requests_do_not_complete_a_gang() -> None:
    world = World((8, 8))
    world.put_group("train", 2)
    world.plain(cpu=1, group="train")
    other = world.plain(cpu=2, group="train")
    decide(world)
    assert (out(world), waits(world, other)) == ([], GROUP_INCOMPLETE)


def test_an_ended_gang_is_over() -> None:
    world, pods = running()
    for pod in pods:
        world.finish(pod)
    assert not world.brain.scheduler.state.jobs
    assert not world.brain.scheduler.state.containers


def test_a_pod_made_for_a_failed_member_takes_its_task() -> None:
    world, (failed, other) = running()
    world.finish(failed, code=1)
    decide(world)
    again = world.plain(cpu=3, group="train")
    decide(world)
    world.bind()
    node, beside = (world.lists.pods[pod.key].spec.nodeName for pod in (again, other))
    assert {node, beside} == {"n0", "n1"}
    assert len(world.brain.scheduler.state.jobs) == 1


def test_the_room_of_a_failed_member_is_free_while_nobody_replaces_it() -> None:
    world, (failed, _) = running()
    world.finish(failed, code=1)
    plain = world.plain(cpu=3)
    decide(world)
    assert not world.lists.pods[plain.key].is_gated


@pytest.mark.parametrize("group_first", [True, False])
def test_the_job_is_gone_with_the_last_member_and_the_group(group_first: bool) -> None:
    world, pods = running()
    if group_first:
        world.remove_group("train")
    for pod in pods:
        world.delete(pod)
    if not group_first:
        world.remove_group("train")
    assert not world.brain.scheduler.state.jobs
    assert not list(world.brain.jobs)
    assert not world.brain.ledger.pods


def test_pods_made_after_all_members_are_gone_start_as_a_gang() -> None:
    world, pods = running()
    for pod in pods:
        world.delete(pod)
    world.plain(cpu=3, group="train")
    decide(world)
    assert out(world) == []
    world.plain(cpu=3, group="train")
    decide(world)
    assert len(out(world)) == 2


def test_a_failed_member_that_is_deleted_leaves_its_successor_alone() -> None:
    world, (failed, _) = running()
    world.finish(failed, code=1)
    again = world.plain(cpu=3, group="train")
    decide(world)
    world.delete(world.lists.pods[failed.key])
    decide(world)
    world.bind()
    assert world.lists.pods[again.key].spec.nodeName


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_the_next_leader_knows_a_running_gang(with_snapshot: bool) -> None:
    world, pods = running()
    world.new_leader(world.snapshot() if with_snapshot else None)
    assert len(world.brain.scheduler.state.jobs) == 1
    assert len(world.brain.scheduler.state.containers) == 2
    for pod in pods:
        world.finish(pod)
    assert not world.brain.scheduler.state.jobs


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_gang_left_partly_released_is_finished_by_the_next_leader(with_snapshot: bool) -> None:
    world = World((4, 4))
    world.put_group("train", 2)
    for _ in range(2):
        world.plain(cpu=3, group="train")
    world.brain.cycle()
    snapshot = world.snapshot()
    world.write(1)
    world.new_leader(snapshot if with_snapshot else None)
    world.plain(cpu=3)  # would take the room of the missing member
    for _ in range(3):
        world.bind()
        decide(world)
    bound = [pod for pod in world.bound() if pod.group_key]
    assert sorted(pod.spec.nodeName for pod in bound) == ["n0", "n1"]


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_an_end_that_nobody_heard_is_heard_by_the_next_leader(with_snapshot: bool) -> None:
    world, (first, second) = running()
    snapshot = world.snapshot()
    world.finish(first)
    world.new_leader(snapshot if with_snapshot else None)
    world.finish(second)
    assert not world.brain.scheduler.state.containers


def test_the_log_of_a_gang_replays() -> None:
    world, pods = running()
    for pod in pods:
        world.finish(pod)
    world.log.flush()
    assert sum(1 for _ in Replay(bytes(world.logs[-1]).splitlines(keepends=True))) > 0
