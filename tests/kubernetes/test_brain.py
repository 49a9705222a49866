"""The brain by itself: changes of objects in, releases out, leaders that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators import metrics
from operators.cache.cache import Change
from operators.client import Client
from operators.extender.reports import ReportWriter
from operators.extender.status import StatusWriter, wait_report
from schedulers.core.checks import validate
from schedulers.core.compatible import needs_estimates, stable_orders
from schedulers.core.policy import policies
from schedulers.core.reasons import Reason
from schedulers.core.replay import Replay
from schedulers.objects import names
from schedulers.objects.dagjob import PlanStatus
from schedulers.objects.meta import OwnerReference
from schedulers.objects.pod import Pod
from schedulers.objects.queue import PerUserLimits
from tests.examples import examples
from tests.kubernetes.world import World, stage


def released(world: World) -> list[Any]:
    return [data for what, data in world.writes.pending if what == "release"]


def test_a_stage_is_released_once_all_its_pods_are_there() -> None:
    world = World()
    job = world.submit(stage("a", 2))
    world.brain.cycle()
    assert released(world) == []
    world.create_pods()
    world.brain.cycle()
    assert [(uid, node) for _, uid, node in released(world)] == [(p.metadata.uid, "n0") for p in world.pods_of(job)]


def test_what_does_not_fit_stays_gated_until_something_ends() -> None:
    world = World((2,))
    job = world.submit(stage("a", 3))
    world.create_pods()
    world.brain.cycle()
    world.write()
    assert len(world.gated(job)) == 1
    world.bind()
    world.finish(world.start(next(world.bound())) or next(world.bound()))
    world.brain.cycle()
    world.write()
    assert world.gated(job) == []


def test_a_task_whose_container_was_awaiting_its_pod_in_the_snapshot_is_done_when_the_pod_is() -> None:
    world = World()
    job = world.submit(stage("a", 1))
    world.create_pods()
    world.delete(world.pods_of(job)[0])
    world.brain.cycle()  # granted, and nobody there to release
    snapshot = world.snapshot()
    run_through(world)
    world.new_leader(snapshot)
    assert not world.brain.scheduler.state.jobs


def run_through(world: World) -> None:
    """Pods that are there or to be made are released, bound and succeed; nobody closes the job."""
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    for pod in list(world.bound()):
        world.start(pod)
        world.finish(pod)


def test_a_pod_with_constraints_that_the_core_does_not_know_is_not_narrowed() -> None:
    world = World()
    one = stage("a", 1)
    one.template.spec.resourceClaims = [b"{}"]  # type: ignore[list-item]
    world.submit(one)
    world.create_pods()
    world.brain.cycle()
    assert [node for _, _, node in released(world)] == [None]


def test_a_plain_pod_is_released_without_being_narrowed_and_filter_gives_its_node() -> None:
    world = World()
    pod = world.plain()
    world.brain.cycle()
    assert released(world) == [(pod.key, pod.metadata.uid, None)]
    world.write()
    assert world.brain.filter(world.lists.pods[pod.key], ["n0", "n1"]).nodes == ["n0"]


def test_a_pod_without_gate_is_placed_by_the_filter_call() -> None:
    world = World((1, 1))
    first, second = world.plain(gated=False), world.plain(gated=False)
    assert world.brain.filter(first, ["n0", "n1"]).nodes == ["n0"]
    assert world.brain.filter(second, ["n0", "n1"]).nodes == ["n1"]
    assert released(world) == []


def test_a_refused_pod_is_told_why_of_every_node() -> None:
    world = World((1, 1))
    world.brain.filter(world.plain(gated=False), ["n0", "n1"])
    answer = world.brain.filter(world.plain(gated=False, cpu=2), ["n0", "n1", "n9"])
    assert (answer.nodes, answer.failed | answer.unresolvable) == (
        [],
        {"n0": "too small", "n1": "too small", "n9": "unknown node"},
    )


def test_a_filter_call_that_names_an_unknown_node_is_given_none_that_it_does_not_name() -> None:
    world = World((1, 4))
    assert world.brain.filter(world.plain(gated=False, cpu=2), ["n0", "n9"]).nodes == []


def test_a_placement_of_the_filter_is_counted_as_a_decision() -> None:
    world = World()
    pod = world.plain(gated=False)
    placed = ("rm_decisions_total", {"decision": "Place"})
    before = metrics.REGISTRY.get_sample_value(*placed) or 0
    world.brain.filter(pod, ["n0", "n1"])
    assert (metrics.REGISTRY.get_sample_value(*placed), world.writes.pending) == (before + 1, [])


def test_a_pod_whose_node_kube_scheduler_rules_out_is_chosen_another() -> None:
    world = World()
    pod = world.plain(gated=False)
    assert world.brain.filter(pod, ["n0", "n1"]).nodes == ["n0"]
    assert world.brain.filter(pod, ["n1"]).nodes == ["n1"]
    assert len(world.brain.scheduler.state.containers) == 1


def test_a_refused_pod_is_woken_when_there_is_room_for_it() -> None:
    world = World((1,))
    first, second = world.plain(gated=False), world.plain(gated=False)
    for pod in (first, second):
        world.brain.filter(pod, ["n0"])
    world.finish(first)
    world.brain.cycle()
    assert world.writes.pending == [("wake", (second.key, "n0"))]


def test_pods_of_other_schedulers_take_room() -> None:
    world = World((2,))
    other = world.plain(gated=False, cpu=2, scheduler="default-scheduler")
    other.spec.nodeName = "n0"
    world.change(other)
    world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    assert released(world) == []
    world.delete(other)
    world.brain.cycle()
    assert len(released(world)) == 1


def test_our_own_taint_keeps_no_task_off() -> None:
    world = World(())
    world.add_node("n0", 2, reserved=True)
    job = world.submit(stage("a", 1))
    world.settle()
    assert world.lists.dagjobs[job.key].has_succeeded


def a_reserved_world() -> World:
    """Node n0 is reserved, n1 is not, and the brain is to place on reserved nodes only."""
    world = World(())
    world.reserved = True
    world.new_leader()
    world.add_node("n0", 1, reserved=True)
    world.add_node("n1", 8)
    return world


def test_nodes_that_are_not_reserved_can_be_left_to_others() -> None:
    world = a_reserved_world()
    world.submit(stage("a", 3))
    world.create_pods()
    world.brain.cycle()
    assert [node for _, _, node in released(world)] == ["n0"]
    pod = world.plain(gated=False)
    assert world.brain.filter(pod, ["n0", "n1"]).nodes == []
    world.settle()
    assert {p.spec.nodeName for p in world.lists.pods.values()} == {"n0"}


def a_world_that_gives_up_its_node() -> tuple[World, str]:
    """Node n0 is reserved no more while the first of a job's two pods is bound to the node, and the job's key."""
    world = a_reserved_world()
    job = world.submit(stage("a", 2))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    world.add_node("n0", 1)
    return world, job.key


def test_what_runs_on_a_node_that_is_not_reserved_any_more_goes_on_and_nothing_follows() -> None:
    world, job = a_world_that_gives_up_its_node()
    (bound,) = world.bound()
    world.start(bound)
    world.finish(world.lists.pods[bound.key])
    world.brain.cycle()
    assert (released(world), dict(world.brain.scheduler.state.nodes)) == ([], {})
    world.add_node("n0", 1, reserved=True)
    world.settle()
    assert world.lists.dagjobs[job].has_succeeded


def test_a_node_reserved_again_before_its_last_pod_has_ended_takes_tasks_again() -> None:
    world, job = a_world_that_gives_up_its_node()
    world.add_node("n0", 1, reserved=True)
    world.settle()
    assert world.lists.dagjobs[job].has_succeeded


def speed_of(world: World, name: str) -> float:
    return world.brain.scheduler.state.nodes[name].spec.speed


def test_a_node_is_as_fast_as_its_label_says_now() -> None:
    world = World((4,))
    world.add_node("n1", 4, speed="2.5")
    before = speed_of(world, "n0"), speed_of(world, "n1")
    world.add_node("n1", 4, speed="0.5")
    assert (before, speed_of(world, "n1")) == ((1.0, 2.5), 0.5)


def test_a_speed_that_cannot_be_read_counts_as_1_and_is_said_once() -> None:
    with structlog.testing.capture_logs() as lines:
        world = World((4,))
        for cpus in (4, 8, 16):
            world.add_node("n1", cpus, speed="fast")
    assert (speed_of(world, "n1"), [(line["node"], line["speed"]) for line in lines]) == (1.0, [("n1", "fast")])


def remembered(speed: str) -> float:
    """What history says that a task took on a node of this speed, the stamps of its pod being the same."""
    world = World(())
    world.add_node("n1", 4, speed=speed)
    job = world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    (pod,) = world.pods_of(job)
    world.start(pod)
    world.finish(world.lists.pods[pod.key])
    (past,) = world.writes.history
    return past.stages[0][1]


def test_run_times_are_remembered_at_node_speed_1() -> None:
    assert remembered("2.5") == 2.5 * remembered("1") > 0


def test_with_deft_pods_wait_for_a_fast_node() -> None:
    world = World((2,), placement="deft")
    world.add_node("n1", 2, speed="4")
    world.submit(stage("a", 5))
    world.create_pods()
    world.brain.cycle()
    assert [node for _, _, node in released(world)] == ["n1", "n1"]
    world.settle()
    assert all(job.is_over for job in world.lists.dagjobs.values())


def cpus_free(world: World) -> int:
    """Of node n0, as the brain has it."""
    return world.brain.scheduler.state.nodes["n0"].free[0] // 1000


def wearing(world: World, kind: str, uid: str, *, cpu: int = 2, scheduler: str = "default-scheduler") -> Pod:
    """A pod on node n0 that is dressed up as one of a DagJob, and says that this is its controller."""
    pod = world.plain(gated=False, cpu=cpu, scheduler=scheduler)
    labels = {names.DAGJOB_LABEL: "j", names.STAGE_LABEL: "a", names.INDEX_LABEL: "0"}
    pod.metadata.labels |= labels
    pod.metadata.ownerReferences = (OwnerReference(kind, "j", uid, controller=True),)
    return world.change(pod, spec=msgspec.structs.replace(pod.spec, nodeName="n0"))


@pytest.mark.parametrize("kind", ["ReplicaSet", "DagJob"])
def test_a_pod_that_only_wears_our_labels_takes_room(kind: str) -> None:
    world = World((2,))
    other = wearing(world, kind, "no such DagJob")
    assert cpus_free(world) == 0
    world.delete(other)
    assert cpus_free(world) == 2
    assert world.brain.translator._orphans == {}


def test_a_pod_that_says_it_is_a_task_and_asks_for_more_takes_what_it_asks_for() -> None:
    world = World((4,))
    job = world.submit(stage("a", 1, cpu=1))
    wearing(world, "DagJob", job.metadata.uid, cpu=3)
    assert cpus_free(world) == 1


def test_a_pod_of_another_namespace_is_no_task() -> None:
    world = World((4,))
    job = world.submit(stage("a", 1, cpu=1))
    pod = wearing(world, "DagJob", job.metadata.uid, cpu=3)
    pod.metadata.namespace = "elsewhere"
    world.lists.pods["elsewhere/x"] = pod
    world.new_leader()
    assert world.brain.scheduler.state.containers == {}


def test_a_pod_bound_before_its_dagjob_is_heard_of_holds_its_room_once() -> None:
    world = World((4,))
    job = world.submit(stage("a", 1, cpu=2))
    del world.lists.dagjobs[job.key]
    world.new_leader()
    pod = wearing(world, "DagJob", job.metadata.uid)
    assert cpus_free(world) == 2
    world._put("DagJob", world.lists.dagjobs, job)
    state = world.brain.scheduler.state
    assert (len(state.containers), state.nodes["n0"].foreign, cpus_free(world)) == (1, {}, 2)
    world.delete(pod)
    assert cpus_free(world) == 4


def test_a_pod_that_outlives_its_dagjob_holds_its_room_until_it_is_gone() -> None:
    world = World((4,))
    job = world.submit(stage("a", 1, cpu=2))
    pod = wearing(world, "DagJob", job.metadata.uid)
    world.brain.hear(Change("DagJob", world.lists.dagjobs.pop(job.key), None))
    state = world.brain.scheduler.state
    assert cpus_free(world) == 2
    world.delete(pod)
    assert (cpus_free(world), state.containers, world.brain.translator._orphans) == (4, {}, {})


def test_a_dagjob_heard_of_after_its_pods_gets_them() -> None:
    world = World()
    job = world.submit(stage("a", 1))
    world.create_pods()
    del world.lists.dagjobs[job.key]
    world.new_leader()
    world.brain.cycle()
    assert released(world) == []
    world._put("DagJob", world.lists.dagjobs, job)
    world.brain.cycle()
    assert len(released(world)) == 1


def test_a_failed_task_goes_to_its_next_attempt() -> None:
    world = World()
    job = world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    world.finish(next(world.bound()), code=3)
    world.brain.cycle()
    world.create_pods()
    world.write()
    assert [pod.is_gated for pod in world.pods_of(job)] == [False, False]


def test_a_job_that_failed_for_good_holds_nothing() -> None:
    world = World()
    job = world.submit(stage("a", 2))
    world.create_pods()
    world.brain.cycle()
    world.set_phase(job, "Failed")
    for pod in world.pods_of(job):
        world.delete(pod)
    assert world.brain.scheduler.state.containers == {}
    assert world.brain.scheduler.state.jobs == {}


def test_a_gang_is_planned_before_it_is_released() -> None:
    world = World()
    job = world.submit(stage("a", 6, gang=True))
    world.create_pods()
    world.brain.cycle()
    assert [what for what, _ in world.writes.pending] == ["plan", *6 * ["release"]]
    assert world.writes.pending[0][1][0] == job.key


def test_the_brain_decides_when_time_alone_makes_a_reservation_due() -> None:
    world = World((4,), reserve_after=10_000)
    world.plain(cpu=3)
    world.brain.cycle()
    world.submit(stage("a", 2, cpu=2, gang=True))
    world.create_pods()
    world.brain.cycle()
    world.plain(cpu=1)
    world.clock += 20_000 if world.brain.driver.pause_ms() else 0
    assert world.brain.driver.pause_ms() == 0
    world.brain.driver.dirty = False
    world.brain.cycle()
    assert world.brain.scheduler.state.reservations is not None
    assert list(world.brain.scheduler.state.reservations.by_node) == ["n0"]


@pytest.mark.parametrize("written", range(8))
@pytest.mark.parametrize("remembers", [False, True])
def test_a_new_leader_finishes_a_gang_or_plans_it_anew(written: int, remembers: bool) -> None:
    world = World()
    job = world.submit(stage("a", 6, gang=True))
    world.create_pods()
    snapshot = world.snapshot()
    world.brain.cycle()
    world.write(written)
    world.new_leader(snapshot if remembers else None)
    world.brain.cycle()
    world.write()
    assert world.gated(job) == []
    world.bind()
    assert len(list(world.bound())) == 6
    assert world.overcommitted() == {}


def test_a_task_that_ended_while_nobody_led_counts() -> None:
    world = World()
    job = world.submit(stage("a", 1), stage("b", 1, "a"))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    world.finish(next(world.bound()))
    world.create_pods()
    world.new_leader()
    world.brain.cycle()
    world.write()
    assert world.gated(job) == []


def test_a_release_that_was_not_written_is_repeated_by_the_next_leader() -> None:
    world = World()
    world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    snapshot, wanted = world.snapshot(), released(world)
    world.new_leader(snapshot)
    assert released(world) == wanted


def test_a_job_that_ended_while_nobody_led_gives_back_what_it_held() -> None:
    world = World()
    job = world.submit(stage("a", 2))
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    snapshot = world.snapshot()
    for pod in list(world.bound()):
        world.finish(pod)
    world.set_phase(job, "Succeeded")
    world.new_leader(snapshot)
    assert world.brain.scheduler.state.containers == {}
    assert world.brain.scheduler.state.jobs == {}


def test_a_finished_job_becomes_history_once() -> None:
    world = World()
    job = world.submit(stage("a", 2))
    world.settle()
    (past,) = world.writes.history
    assert (past.name, [tasks for tasks, _ in past.stages]) == (job.metadata.name, [2])
    world.new_leader()
    assert world.writes.history == []


def test_a_waiting_job_is_told_its_place_and_share() -> None:
    world = World((2,))
    world.submit(stage("a", 1))
    second, _ = world.submit(stage("a", 2)), world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    entry = world.brain.jobs.of_owner(second.metadata.uid)
    assert entry is not None
    waits = wait_report(world.brain, entry)
    assert waits is not None
    assert waits.message == (
        "no node has 1 cpu and 1 pods free (1 lack cpu; the nearest has 0 cpu and 108 pods free); "
        "number 1 of 2 waiting in queue default; holds 50.0 % of the cluster (dominant share)"
    )


def test_limits_of_queues_hold() -> None:
    world = World()
    world.put_queue("default", max={"cpu": 2})
    world.submit(stage("a", 3))
    world.create_pods()
    world.brain.cycle()
    assert len(released(world)) == 2
    (waiting,) = world.brain.scheduler.state.waiting.values()
    assert world.brain.scheduler.reason(waiting) is Reason.QUEUE_AT_LIMIT


def test_limits_that_cannot_be_read_change_nothing() -> None:
    world = World()
    world.put_queue("default", max={"cpu": 2}, weight=2.0)
    world.put_queue("default", max="a lot", weight=3.0)
    assert world.brain.scheduler.state.queues["default"].max == (2000, -1, -1)
    world.put_queue("other", max={"bananas": 2}, weight=3.0, maxRunning=4, preemptible=False)
    other = world.brain.scheduler.state.queues["other"]
    assert (other.max, other.weight, other.max_running, other.preemptible) == (None, 3.0, 4, False)


FOLLOWS = ["drf", "hdrf", "capacity", "fair_yarn"]
#: Policies that pack, plan, or look at the DAG. They know no weights.
PACKS = [
    "tetris",
    "graphene",
    "bounded",
    "jockey",
    "bfs",
    "cp",
    "random",
    "sjf_cp",
    "weighted_fair",
    "capped_sjf",
    "curves",
]
#: Policies that plan leases, once a cycle.
LEASES = ["tetrisched", "alsched"]


def predictor_of(policy: str) -> str | None:
    """A predictor where the policy's order is made of estimates."""
    return "slearn" if needs_estimates({"kind": policy}) else None


def running(world: World) -> dict[str, int]:
    """Containers by queue."""
    state = world.brain.scheduler.state
    counts: dict[str, int] = {}
    for container in state.containers.values():
        queue = state.jobs[container.job].spec.queue
        counts[queue] = counts.get(queue, 0) + 1
    return counts


def run_cycles(world: World, times: int = 1) -> None:
    """The pods that are wanted are made, and so many cycles follow."""
    world.create_pods()
    for _ in range(times):
        world.brain.driver.dirty = True
        world.brain.cycle()


@pytest.mark.parametrize("policy", FOLLOWS)
def test_queues_hold_what_their_weights_say_along_the_tree(policy: str) -> None:
    by_cpu = {"default_ordering": "drf"} if policy == "fair_yarn" else {}
    world = World((8, 8, 8), policy=policy, **by_cpu)
    world.put_queue("dev", parent="all", weight=1.0)  # a child may be heard of before its parent
    world.put_queue("all", weight=2.0)
    world.put_queue("prod", parent="all", weight=3.0)
    world.put_queue("rest", weight=1.0)
    for queue in ("dev", "prod", "rest"):
        world.submit(stage("a", 40), queue=queue)
    run_cycles(world, 10)
    assert running(world) == {"prod": 12, "dev": 4, "rest": 8}


def test_capacities_are_what_is_guaranteed() -> None:
    world = World((4, 4), policy="capacity")
    world.put_queue("a", guaranteed="75%")
    world.put_queue("b", weight=9.0)
    for queue in "ab":
        world.submit(stage("a", 20), queue=queue)
    run_cycles(world)
    assert running(world) == {"a": 6, "b": 2}


@pytest.mark.parametrize("policy", ["fifo", "fair", *FOLLOWS, *PACKS])
def test_a_queue_at_its_limit_holds_up_nobody_else(policy: str) -> None:
    world = World((4, 4), policy=policy)
    world.put_queue("a", max={"cpu": 2}, weight=9.0)
    world.put_queue("b")
    world.submit(stage("a", 20), queue="a", user="ann")
    world.submit(stage("a", 20), queue="b", user="bob")
    run_cycles(world, 10)
    least = 1 if policy == "capacity" else 6  # a user may hold what his queue is guaranteed, and one container more
    assert running(world)["a"] == 2
    assert least <= running(world)["b"] <= 6


@pytest.mark.parametrize("policy", [*FOLLOWS, *PACKS])
def test_users_and_jobs_of_a_queue_are_limited(policy: str) -> None:
    world = World((4, 4), policy=policy)
    world.put_queue("a", perUser=PerUserLimits({"cpu": 2}, maxRunning=1), maxRunning=2)
    for user in ("ann", "ann", "bob", "cid"):
        world.submit(stage("a", 3), queue="a", user=user)
    run_cycles(world, 5)
    state = world.brain.scheduler.state
    held = sorted(state.jobs[container.job].spec.user for container in state.containers.values())
    assert held == ["ann", "ann", "bob", "bob"]


@pytest.mark.parametrize("policy", ["fifo", "fair", *FOLLOWS, *PACKS, *LEASES])
def test_a_gang_that_finds_no_room_holds_up_nobody_else(policy: str) -> None:
    world = World((4, 4), policy=policy)
    world.submit(stage("a", 9, gang=True))
    world.submit(stage("a", 2, gang=True))
    run_cycles(world, 3)
    assert len(released(world)) == 2


def test_cycles_that_bring_nothing_are_cheap() -> None:
    world = World((2,) * 50, policy="capacity")
    world.put_queue("a")
    world.put_queue("b", weight=9.0)
    world.submit(stage("a", 200), queue="a")
    run_cycles(world)
    held = len(world.brain.scheduler.state.containers)
    assert 10 <= held <= 12  # what a user may hold: there is room on, and nobody to use it
    yarn: Any = world.brain.scheduler.policy
    beats, beat = [], yarn._yarn.beat

    def counted(node: str, now: int) -> Any:
        beats.append(node)
        return beat(node, now)

    yarn._yarn.beat = counted
    run_cycles(world, 5)
    assert len(beats) == 5


@pytest.mark.parametrize("policy", [*FOLLOWS, *PACKS, *LEASES])
def test_a_cycle_leaves_no_room_that_the_next_one_would_give_away(policy: str) -> None:
    world = World((4, 4), policy=policy)
    world.submit(stage("a", 20))
    run_cycles(world)
    assert len(released(world)) == 8


@pytest.mark.parametrize("policy", PACKS)
def test_dags_and_gangs_run_to_their_end_under_leaders_that_come_and_go(policy: str) -> None:
    world = World((4, 4), policy=policy, predictor="slearn")
    for _ in range(2):
        world.submit(stage("map", 6, cpu=2), stage("side", 3), stage("reduce", 4, "map", "side", cpu=2, gang=True))
    world.plain()
    for remembers in (True, False):
        world.settle(rounds=1)
        world.new_leader(world.snapshot() if remembers else None)
    world.settle()
    assert [job.status.phase for job in world.lists.dagjobs.values()] == 2 * ["Succeeded"]
    assert world.overcommitted() == {}
    replay_last(world)


def test_a_fact_told_while_decisions_are_carried_out_asks_for_another_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World((1, 1))
    world.submit(stage("a", 1))
    world.create_pods()
    carry_out = world.brain.driver.carry_out

    def carried(decisions: Any) -> None:
        monkeypatch.setattr(world.brain.driver, "carry_out", carry_out)
        carry_out(decisions)
        world.brain.translator.lose_node("n1")

    monkeypatch.setattr(world.brain.driver, "carry_out", carried)
    world.brain.cycle()
    assert world.brain.driver.dirty


def until(world: World, true: Callable[[], bool]) -> None:
    """Everybody does their part until something is true."""
    for _ in range(30):
        if true():
            return
        world.settle(rounds=1)
    raise AssertionError("it never came true")


@pytest.mark.parametrize("gone", [1, 3])
@pytest.mark.parametrize("gang", [False, True])
def test_tasks_whose_pods_are_gone_count_for_a_leader_without_a_snapshot(gone: int, gang: bool) -> None:
    world = World((4, 4))
    job = world.submit(stage("map", 3), stage("next", 3, "map", gang=gang), stage("last", 1, "next"))
    for done in ("map", "next"):
        until(world, lambda done=done: sum(pod.exit_code == 0 for pod in world.pods_of(job, done)) == 3)
        for pod in world.pods_of(job, done)[:gone]:
            world.collect(pod)
        world.new_leader()
    world.settle()
    assert world.lists.dagjobs[job.key].has_succeeded
    assert world.brain.scheduler.state.jobs == {}
    replay_last(world)


def test_a_stage_of_which_some_pods_are_gone_goes_on_under_a_leader_without_a_snapshot() -> None:
    world = World((1,))
    job = world.submit(stage("map", 3))
    until(world, lambda: any(pod.exit_code == 0 for pod in world.pods_of(job)))
    world.collect(next(pod for pod in world.pods_of(job) if pod.exit_code == 0))
    world.new_leader()
    world.settle()
    assert world.lists.dagjobs[job.key].has_succeeded
    assert world.brain.scheduler.state.jobs == {}


def test_of_a_dagjob_that_is_gone_nothing_is_reported_any_more() -> None:
    world = World((1,))
    world.submit(stage("a", 1))
    second = world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    conditions = ReportWriter(cast(Client, None))
    writer = StatusWriter(world.brain, conditions)
    writer.go_round()
    assert conditions.pending == 4  # the DagJob and its pod, and an Event on each, all not written yet
    world.brain.hear(Change("DagJob", world.lists.dagjobs.pop(second.key), None))
    for pod in world.pods_of(second):
        world.delete(pod)
    writer.go_round()
    assert conditions.pending == 0


class Plans:
    """Takes what is reported of plans, and lets all else pass."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def report_plan(self, key: str, *, uid: str, plan: PlanStatus) -> None:
        self.heard.append((key, msgspec.to_builtins(plan)))

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def plans(world: World, rounds: int = 2) -> list[tuple[str, dict[str, Any]]]:
    recorder: Any = Plans()
    writer = StatusWriter(world.brain, recorder)
    for _ in range(rounds):
        writer.go_round()
    return list(recorder.heard)


def test_a_plan_is_told_once_after_submission() -> None:
    world = World((4, 4), policy="graphene", predictor="point_estimate")
    job = world.submit(stage("long", 5, cpu=2), stage("sum", 1, "long"))
    plan = {
        "machines": 2,
        "boundSeconds": 180.0,
        "makespanSeconds": 180.0,
        "stages": [{"name": "long", "startSeconds": 0.0}, {"name": "sum", "startSeconds": 120.0}],
        "troublesome": [],
    }
    assert plans(world) == [(job.key, plan)]
    world.settle(rounds=2)
    assert plans(world) == []
    world.new_leader(world.snapshot())  # it cannot know what was written
    assert plans(world) == [(job.key, plan)]


def test_a_plan_that_needs_pilots_is_told_after_them() -> None:
    world = World((4, 4), policy="graphene", predictor="slearn")
    world.submit(stage("a", 40), stage("b", 2, "a"))
    world.plain()
    assert plans(world) == []
    told: list[Any] = []
    for _ in range(20):
        world.settle(rounds=1)
        told += plans(world)
    ((_, plan),) = told
    assert [s["name"] for s in plan["stages"]] == ["a", "b"]
    assert plan["makespanSeconds"] >= plan["boundSeconds"] > 0


def test_a_queue_that_is_gone_lets_no_job_in_even_when_nobody_led() -> None:
    world = World()
    world.put_queue("etl")
    world.submit(stage("a", 1), queue="etl")
    snapshot = world.snapshot()
    del world.lists.queues["etl"]
    world.new_leader(snapshot)
    assert list(world.brain.scheduler.state.tree.removed) == ["etl"]
    world.submit(stage("b", 1), queue="etl")
    world.create_pods()
    world.brain.cycle()
    assert len(released(world)) == 1
    world.put_queue("etl")
    world.brain.cycle()
    assert len(released(world)) == 2
    world.remove_queue("etl")
    assert list(world.brain.scheduler.state.tree.removed) == ["etl"]


def test_the_default_queue_is_open_without_an_object_and_has_no_limits_then() -> None:
    world = World()
    world.put_queue("default", max={"cpu": 1})
    world.remove_queue("default")
    world.submit(stage("a", 3))
    world.create_pods()
    world.brain.cycle()
    assert len(released(world)) == 3
    world.put_queue("default", max={"cpu": 1})
    snapshot = world.snapshot()
    del world.lists.queues["default"]
    for _ in range(2):
        world.new_leader(snapshot)
        snapshot = world.snapshot()
    assert world.brain.scheduler.state.queues["default"].max is None
    assert world.brain.scheduler.state.tree.removed == {}


def test_the_true_run_time_is_out_of_reach() -> None:
    world = World()
    pod = world.plain()
    pod.metadata.annotations[names.RUN_SECONDS] = "123.75"
    world.change(pod)
    assert "123.75" not in repr(world.lists.pods)


def end_one(world: World, pick: int, code: int) -> None:
    bound = list(world.bound())
    if bound:
        pod = bound[pick % len(bound)]
        world.finish(pod, code=code if pod.dagjob_uid else 0)


def start_one(world: World, pick: int) -> None:
    bound = list(world.bound())
    if bound:
        world.start(bound[pick % len(bound)])


def delete_one(world: World, pick: int) -> None:
    live = [pod for pod in world.lists.pods.values() if pod.dagjob_uid and not pod.is_terminal]
    if live:
        world.delete(live[pick % len(live)])


def restore(world: World, pick: int) -> None:
    if world.snapshots:
        world.new_leader(world.snapshots[pick % len(world.snapshots)])


def expire(world: World, pick: int) -> None:
    world.clock += 31_000
    world.brain.expire()


STEP: dict[str, Callable[[World, int], object]] = {
    "submit": lambda w, n: w.submit(stage("a", 1 + n), stage("b", 1 + n % 3, "a", cpu=1 + n % 2)),
    "gang": lambda w, n: w.submit(stage("a", 2 + n % 5, gang=True)),
    "plain": lambda w, n: w.plain(cpu=1 + n % 3),
    "without gate": lambda w, n: w.plain(gated=False, cpu=1 + n % 3),
    "create pods": lambda w, n: w.create_pods(),
    "cycle": lambda w, n: w.brain.cycle(),
    "write all": lambda w, n: w.write(),
    "write one": lambda w, n: w.write(1),
    "bind": lambda w, n: w.bind(),
    "start": start_one,
    "finish": lambda w, n: end_one(w, n, 0),
    "fail": lambda w, n: end_one(w, n, 1),
    "delete": delete_one,
    "snapshot": lambda w, n: w.snapshot(),
    "new leader": lambda w, n: w.new_leader(),
    "restored leader": restore,
    "close": lambda w, n: w.close_jobs(),
    "expire": expire,
    "node": lambda w, n: w.add_node(f"x{n}", 2),
    "queue": lambda w, n: w.put_queue("abc"[n % 3], parent=("", "a", "b", "c", "d")[n % 5], weight=1.0 + n),
    "full queue": lambda w, n: w.put_queue("abc"[n % 3], maxRunning=1),
    "submit to a queue": lambda w, n: w.submit(stage("a", 1 + n), queue="abcd"[n % 4]),
    "plain in a queue": lambda w, n: w.plain(gated=n % 2 == 0, queue="abcd"[n % 4]),
}
ORDERED_AHEAD = stable_orders()
HERE = [entry.name for entry in policies if "kubernetes" in entry.worlds]
STEPS = st.lists(st.tuples(st.sampled_from(list(STEP)), st.integers(0, 7)), max_size=40)


@given(steps=STEPS, policy=st.sampled_from(HERE), lines=st.booleans())
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_nothing_is_overcommitted_and_every_job_ends(
    steps: list[tuple[str, int]], policy: str, lines: bool
) -> None:
    placement = "deft" if lines and policy in ORDERED_AHEAD else "first_fit"
    world = World((3, 2, 4), policy=policy, predictor=predictor_of(policy), placement=placement)
    for step, pick in steps:
        STEP[step](world, pick)
        validate(world.brain.scheduler.state)
        assert world.overcommitted() == {}
    for name in {job.spec.queue for job in world.lists.dagjobs.values()} | set("abcd"):
        if name not in world.lists.queues:
            world.put_queue(name)  # jobs of a queue that is not there wait for it
    world.clock += 60_000
    world.brain.expire()
    for _ in range(100):  # some policies plan once in a few seconds
        world.settle()
        unfinished = [job.key for job in world.lists.dagjobs.values() if not job.is_over]
        unfinished += [pod.key for pod in world.lists.pods.values() if not pod.is_terminal]
        if not unfinished:
            break
        world.clock += 5_000
    assert unfinished == []
    assert world.brain.scheduler.state.containers == {}
    replay_last(world)


def replay_last(world: World) -> None:
    """The last leader's log gives the same decisions again."""
    world.log.flush()
    assert sum(1 for _ in Replay(bytes(world.logs[-1]).splitlines(keepends=True))) > 0
