"""A gang that runs and loses a member: the others go on, and the missing one comes back before all other jobs."""

from __future__ import annotations

from schedulers.objects import names
from schedulers.objects.dagjob import DagJob
from schedulers.objects.pod import Pod
from tests.kubernetes.world import World, stage


def running_gang() -> tuple[World, DagJob, Pod, Pod]:
    """It fills the cluster with two members that run, and small tasks wait that are before it in the order."""
    world = World((4, 4), policy="drf")
    gang = world.submit(stage("train", 2, cpu=4, gang=True))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    world.submit(stage("small", 20), queue="other")
    world.create_pods()
    world.brain.cycle()
    for pod in list(world.bound()):
        world.start(pod)
    first, second = world.pods_of(gang)
    return world, gang, world.lists.pods[first.key], world.lists.pods[second.key]


def test_the_successor_of_an_evicted_member_gets_its_room() -> None:
    world, gang, evicted, other = running_gang()
    world.delete(evicted)
    world.brain.cycle()  # before the controllers have made a successor
    world.create_pods()
    world.brain.cycle()
    world.write()
    (successor,) = [pod for pod in world.pods_of(gang) if pod.key != other.key]
    index = successor.metadata.labels[names.INDEX_LABEL]
    assert (index, successor.narrowed_to) == (evicted.metadata.labels[names.INDEX_LABEL], evicted.spec.nodeName)


def test_a_member_that_runs_is_left_alone() -> None:
    world, _, evicted, other = running_gang()
    world.delete(evicted)
    world.settle(1)
    assert world.lists.pods[other.key].metadata.uid == other.metadata.uid
    assert not world.overcommitted()


def test_the_next_leader_keeps_the_place_of_a_missing_member() -> None:
    world, gang, evicted, _ = running_gang()
    world.delete(evicted)
    world.new_leader(world.snapshot())
    world.create_pods()
    world.brain.cycle()
    world.write()
    assert {pod.narrowed_to for pod in world.pods_of(gang)} == {"n0", "n1"}
