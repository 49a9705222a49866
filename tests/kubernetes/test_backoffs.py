"""Pods that could not start where they were placed: nothing is kept for them, and they wait, longer each time."""

from __future__ import annotations

from typing import Any

import pytest

from operators.extender.backoffs import FIRST_MS, LONGEST_MS, StageBackoffs
from operators.extender.driver import DOUBTFUL_MS
from operators.extender.status import wait_report
from schedulers.objects.pod import Pod
from tests.kubernetes.world import World, stage

STAGE = ("j", 0)
NO_VOLUME = '0/2 nodes are available: persistentvolumeclaim "data" not found.'


class Core:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.backoffs = StageBackoffs(lambda stage: self.told.append("withdraw"), lambda stage: self.told.append("ask"))

    def note(self, *, placed: int, now: int) -> int:
        """Returns how long the stage waits, in ms."""
        self.backoffs.note(STAGE, "why", placed=placed, now=now)
        return next((s.until - now for s in self.backoffs.of("j", now)), 0)


def test_the_wait_doubles_with_each_round_up_to_the_longest() -> None:
    core, now, waits = Core(), 1000, []
    for _ in range(12):
        waits.append(core.note(placed=now, now=now))
        now += waits[-1]
    assert waits[:4] == [FIRST_MS, 2 * FIRST_MS, 4 * FIRST_MS, 8 * FIRST_MS]
    assert waits[-1] == LONGEST_MS


def test_all_pods_that_were_placed_before_the_wait_are_one_round() -> None:
    core = Core()
    assert [core.note(placed=1000, now=2000 + n) for n in range(3)] == [FIRST_MS, FIRST_MS - 1, FIRST_MS - 2]
    assert core.told == ["withdraw"]


def test_a_stage_is_asked_for_again_when_its_time_has_come_and_begins_anew_when_it_runs() -> None:
    core = Core()
    core.note(placed=1000, now=1000)
    core.backoffs.ask_due(1000 + FIRST_MS - 1)
    assert core.told == ["withdraw"]
    core.backoffs.ask_due(1000 + FIRST_MS)
    core.backoffs.clear(STAGE)
    assert core.told == ["withdraw", "ask", "ask"]
    assert core.note(placed=9000, now=9000) == FIRST_MS


def test_what_is_over_is_forgotten() -> None:
    core = Core()
    core.note(placed=1000, now=1000)
    core.backoffs.forget(lambda job: False)
    assert list(core.backoffs.of("j", 1000)) == []


# -- in the brain -------------------------------------------------------------------------------


def a_pod(world: World, **settings: Any) -> Pod:
    """The pod of a job of one task, released."""
    job = world.submit(stage("a", 1, cpu=4, **settings))
    world.create_pods()
    world.brain.cycle()
    world.write()
    (pod,) = world.pods_of(job)
    assert not pod.is_gated
    return pod


def held(world: World) -> int:
    return len(world.brain.scheduler.state.containers)


def later(world: World, ms: int) -> None:
    world.clock += ms
    world.brain.expire()
    world.brain.cycle()


def test_room_is_given_back_as_soon_as_kube_scheduler_says_that_it_cannot_bind() -> None:
    world = World((4,))
    pod = a_pod(world, claims=True)
    other = world.submit(stage("b", 1, cpu=4))
    world.create_pods()
    world.say(pod, NO_VOLUME)
    world.brain.cycle()
    world.write()
    assert [p.narrowed_to for p in world.pods_of(other)] == ["n0"]


def test_the_job_waits_and_says_so_in_kube_schedulers_words() -> None:
    world = World((4,))
    pod = a_pod(world, claims=True)
    world.say(pod, NO_VOLUME)
    world.brain.cycle()
    assert held(world) == 0
    (entry,) = world.brain.jobs
    said = wait_report(world.brain, entry)
    assert said is not None
    assert said.message.startswith(f"pod {pod.metadata.name}: Unschedulable: {NO_VOLUME}; try 2 comes in 1 s or sooner")


def test_after_the_wait_there_is_room_for_it_again_and_what_was_said_before_does_not_count() -> None:
    world = World((4,))
    pod = world.say(a_pod(world, claims=True), NO_VOLUME)
    later(world, FIRST_MS)
    assert (held(world), world.writes.pending) == (1, [("wake", (pod.key, "n0"))])
    world.change(pod)  # woken, and its old condition is still there
    assert held(world) == 1


def test_silence_after_that_sets_it_back_for_twice_as_long() -> None:
    world = World((4,))
    world.say(a_pod(world, claims=True), NO_VOLUME)
    later(world, FIRST_MS)
    later(world, DOUBTFUL_MS)
    assert held(world) == 0
    later(world, FIRST_MS)
    assert held(world) == 0
    later(world, FIRST_MS)
    assert held(world) == 1


@pytest.mark.parametrize("plain", [False, True])
def test_a_pod_is_placed_at_once_when_kube_scheduler_has_found_a_node_for_it(plain: bool) -> None:
    world = World((4,))
    if plain:
        pod = world.plain()
        world.brain.cycle()
        world.write()
        pod = world.lists.pods[pod.key]
    else:
        pod = a_pod(world, claims=True)
    pod = world.say(pod, NO_VOLUME)
    assert held(world) == 0
    assert world.brain.filter(pod, ["n0"]).nodes == ["n0"]
    assert held(world) == 1


def test_a_pod_that_is_narrowed_keeps_its_room_until_it_is_gone_and_its_stage_waits_then() -> None:
    world = World((4,))
    pod = world.say(a_pod(world), "0/1 nodes are available: 1 Insufficient example.com/x.")
    assert (held(world), pod.narrowed_to) == (1, "n0")
    world.delete(pod)
    world.create_pods()
    world.brain.cycle()
    assert held(world) == 0
    later(world, FIRST_MS)
    assert held(world) == 1


def test_a_task_that_a_kubelet_has_refused_is_placed_anew_after_a_while() -> None:
    world = World((4,))
    pod = a_pod(world)
    world.bind()
    pod = world.refuse(world.lists.pods[pod.key])
    world.create_pods()
    world.brain.cycle()
    assert held(world) == 0
    (entry,) = world.brain.jobs
    said = wait_report(world.brain, entry)
    assert said is not None
    assert said.message.startswith(f"node n0 refused pod {pod.metadata.name}: OutOfcpu: not here")
    later(world, FIRST_MS)
    assert held(world) == 1


def test_stages_that_wait_survive_a_change_of_leaders() -> None:
    world = World((4,))
    world.say(a_pod(world, claims=True), NO_VOLUME)
    world.new_leader(world.snapshot())
    world.settle()
    later(world, LONGEST_MS)
    world.settle()
    assert all(job.has_succeeded for job in world.lists.dagjobs.values())


def test_a_release_is_waited_for_from_when_it_was_made_not_from_when_it_was_decided() -> None:
    world = World((4,))
    world.submit(stage("a", 1, cpu=4, claims=True))
    world.create_pods()
    world.brain.cycle()
    later(world, 60_000)  # many others go before it
    world.write()
    later(world, 29_000)
    assert held(world) == 1
    later(world, 2_000)
    assert held(world) == 0
