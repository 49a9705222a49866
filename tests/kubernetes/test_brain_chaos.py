"""Everybody acts at random: jobs come, writes are lost, pods are deleted, leaders come and go; every job ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from schedulers.objects.dagjob import DagJob, StageSpec
from schedulers.objects.pod import Pod
from tests.kubernetes.world import World, stage

SEEDS: Final = range(25)
#: Longer than a release may take.
LATE_MS: Final = 40_000


class Chaos:
    """A world and who acts in it."""

    def __init__(self, seed: int, policy: str, predictor: str | None, placement: str) -> None:
        self.draw = random.Random(seed)
        self.groups: dict[str, int] = {}  # name of a PodGroup -> its size
        self.world = World((4, 4), policy=policy, predictor=predictor, placement=placement)
        self.snapshots: list[bytes] = []

    def act(self, times: int, *, groups: bool = False) -> None:
        """One act after the other, each by its weight."""
        with_groups = {self.submit_group: 6, self.create_members: 22, self.lose_members: 5} if groups else {}
        acts: dict[Callable[[], None], int] = {
            **with_groups,
            self.submit: 8,
            self.create_some: 22,
            self.decide: 15,
            self.write: 15,
            self.lose_a_write: 4,
            self.bind: 8,
            self.go_on: 12,
            self.delete_unbound: 4,
            self.collect: 3,
            self.expire: 3,
            self.say_why_not: 3,
            self.refuse: 3,
            self.hear_nothing: 2,
            self.remember: 4,
            self.change_leader: 5,
        }
        for act in self.draw.choices(list(acts), list(acts.values()), k=times):
            act()
            self.world.close_jobs()

    def submit(self) -> None:
        count = self.draw.randint
        self.world.submit(
            stage("map", count(2, 6), cpu=count(1, 2)),
            stage("gang", count(2, 5), "map", gang=True, claims=self.draw.random() < 0.3),
            stage("last", 1, "gang", claims=self.draw.random() < 0.5),
        )

    def submit_group(self) -> None:
        name, size = f"group-{len(self.groups)}", self.draw.randint(2, 4)
        self.groups[name] = size
        self.world.put_group(name, size)

    def create_members(self, chance: float = 0.5) -> None:
        """The owner of each PodGroup makes pods until as many have succeeded as are in the gang."""
        for name, size in self.groups.items():
            pods = [pod for pod in self.world.lists.pods.values() if pod.group_key == f"ns/{name}"]
            for _ in range(size - sum(pod.exit_code in (None, 0) for pod in pods)):
                if self.draw.random() < chance:
                    self.world.plain(group=name, cpu=2)

    def lose_members(self) -> None:
        """Members fail or are deleted, wherever they are."""
        for pod in self._some([pod for pod in self.world.lists.pods.values() if pod.group_key and not pod.is_terminal]):
            if pod.is_running and self.draw.random() < 0.5:
                self.world.finish(pod, code=1)
            else:
                self.world.delete(pod)

    def create_some(self) -> None:
        chance = self.draw.choice([0.5, 1.0])
        create = self.world._create_pod

        def some(job: DagJob, of: StageSpec, index: int) -> None:
            if self.draw.random() < chance:
                create(job, of, index)

        self.world._create_pod = some
        self.world.create_pods()
        self.world._create_pod = create

    def decide(self) -> None:
        self.world.brain.cycle()

    def write(self) -> None:
        self.world.write(self.draw.randint(1, 4))

    def lose_a_write(self) -> None:
        pending = self.world.writes.pending
        if pending:
            pending.pop(self.draw.randrange(len(pending)))

    def bind(self) -> None:
        self.world.bind()

    def go_on(self) -> None:
        for pod in self._some(list(self.world.bound())):
            if pod.is_running:
                self.world.finish(pod)
            else:
                self.world.start(pod)

    def delete_unbound(self) -> None:
        """The controllers make pods anew that were released and are not bound."""
        for pod in self._some(self._unbound()):
            self.world.delete(pod)

    def collect(self) -> None:
        done = [pod for pod in self.world.lists.pods.values() if pod.exit_code == 0 and pod.dagjob_uid]
        for pod in self._some(done):
            self.world.collect(pod)

    def expire(self) -> None:
        self.world.clock += LATE_MS
        self.world.brain.expire()

    def say_why_not(self) -> None:
        for pod in self._some(self._unbound()):
            self.world.say(pod, self.draw.choice(["no volume", "no port"]))

    def refuse(self) -> None:
        for pod in self._some([pod for pod in self.world.bound() if not pod.is_running]):
            self.world.refuse(pod)

    def hear_nothing(self) -> None:
        """Until the next time, when all is heard again, or not."""
        self.world.lists.heard = self.draw.choice([None, 10_000, 10**9])

    def remember(self) -> None:
        self.snapshots.append(self.world.brain.snapshot())

    def change_leader(self) -> None:
        last = self.snapshots[-1] if self.snapshots and self.draw.random() < 0.8 else None
        self.world.new_leader(last)

    def settle(self) -> None:
        """Nothing goes wrong any more, and time passes."""
        self.world.lists.heard = 10**9
        for _ in range(20):
            self.create_members(1.0)
            self.world.settle(rounds=20)
            for pod in self._unbound():
                self.world.delete(pod)
            self.expire()

    def _some(self, pods: list[Pod]) -> list[Pod]:
        return [pod for pod in pods if self.draw.random() < 0.5]

    def _unbound(self) -> list[Pod]:
        return [pod for pod in self.world.lists.pods.values() if not pod.is_gated and not pod.spec.nodeName]


@pytest.mark.parametrize(
    ("policy", "predictor", "placement"),
    [
        ("fifo", None, "first_fit"),
        ("gs", "slearn", "first_fit"),
        ("graphene", "slearn", "first_fit"),
        ("sjf", "slearn", "deft"),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.drawn(of=4)
def test_every_job_ends_whatever_goes_wrong_before(
    seed: int, policy: str, predictor: str | None, placement: str
) -> None:
    chaos = Chaos(seed, policy, predictor, placement)
    chaos.act(times=20 + 4 * seed)
    chaos.settle()
    jobs = chaos.world.lists.dagjobs.values()
    assert [job.key for job in jobs if not job.has_succeeded] == []
    assert chaos.world.brain.scheduler.state.jobs == {}
    assert chaos.world.overcommitted() == {}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", ["fifo", "drf"])
@pytest.mark.drawn(of=4)
def test_every_pod_group_ends_whatever_goes_wrong_before(seed: int, policy: str) -> None:
    chaos = Chaos(seed, policy, None, "first_fit")
    chaos.act(times=40 + 6 * seed, groups=True)
    chaos.settle()
    world = chaos.world
    done = dict.fromkeys(chaos.groups, 0)
    for pod in world.lists.pods.values():
        if pod.group_key and pod.exit_code == 0:
            done[pod.group_key.removeprefix("ns/")] += 1
    assert done == chaos.groups
    assert world.brain.scheduler.state.jobs == {}
    assert world.brain.scheduler.state.containers == {}
    assert world.overcommitted() == {}
