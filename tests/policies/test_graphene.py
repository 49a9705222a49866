"""Graphene online: scores, plans, deficits and what is known of jobs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import job, node, scheduler, stage
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.abilities import Plans, ability
from schedulers.core.decisions import Place
from schedulers.core.events import (
    ContainerEnded,
    Estimated,
    Heartbeat,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    OfferAsked,
    QueueChanged,
    Tick,
)
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Edge, Job, Node, Queue, Stage
from schedulers.core.policy import Planned, Stretch
from schedulers.core.predictor import Estimate, refined_ms
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.kit.bundles import Room
from schedulers.planning.graphene.priorities import MOST_STAGES, by_path, by_start, plan_of
from schedulers.policies.graphene import Graphene, JobRank, Mean, ScoredCandidate

ORACLE = {"kind": "oracle"}


def cluster(*nodes: Node, predictor: dict[str, str] | None = ORACLE, **settings: object) -> Scheduler:
    return scheduler({"kind": "graphene", **settings}, *nodes, offers="cycle", predictor=predictor)


def submit(made: Scheduler, entry: Job, *task_ms: int) -> None:
    if task_ms:
        made.handle(Estimated(0, entry.id, task_ms))
    made.handle(JobSubmitted(0, entry))


def served(made: Scheduler, at: int = 1) -> list[str]:
    return [d.job for d in made.handle(Tick(at)) if isinstance(d, Place)]


def policy(made: Scheduler) -> Graphene:
    assert isinstance(made.policy, Graphene)
    return made.policy


# -- scores ---------------------------------------------------------------------------------------


def test_perf_score_by_hand() -> None:
    # demand (.5, .25), free (1, .5): pScore .625, remote .5; tpri .75, srpt 15, eta .01: .225
    made = cluster(Node(id="n", capacity=(1000, 1024)), node("far"))
    made.handle(JobSubmitted(0, job("j", Stage(name="s", tasks=1, demand=(500, 256), hosts=(("far",),)))))
    mine, there = policy(made), made.state.nodes["n"]
    there.free[1] = 512
    live, room = made.state.jobs["j"], Room(made.view, there)
    mine._view, mine._eta = made.view, 0.01
    scored = ScoredCandidate(live, live.stages[0], "default", JobRank(((0.75,),), True, 15.0), True, 0.75)
    assert room.packing([scored]) == [0.625]
    assert mine._p_scores([scored], room) == [0.5]
    assert mine.scores([scored], room) == pytest.approx([0.225])


def test_eta_is_k_times_the_ratio_of_the_averages() -> None:
    made = cluster(node("n", 2), k=0.5)
    submit(made, job("a", stage(4)), 1000)
    served(made)
    # pScore: half of the node's cpu and memory, all of it free: 1. srpt: 4 tasks x 1000 ms x (1/2 + 1/2).
    assert policy(made)._packing == Mean(1.0, 1)
    assert policy(made)._srpt == Mean(4000.0, 1)
    assert policy(made)._eta == 0.5 * 1.0 / 4000


def test_averages_follow_what_is_seen_and_forget_slowly() -> None:
    mean = Mean().plus([2.0]).plus([]).plus([3.0, 5.0])
    assert mean == Mean(3.0, 2)


def test_shorter_jobs_go_first_among_alike() -> None:
    made = cluster(node("n", 1))
    submit(made, job("long", stage(2)), 9000)
    submit(made, job("short", stage(2)), 100)
    assert served(made) == ["short"]


def test_without_weight_on_work_the_better_packed_task_goes_first() -> None:
    made = cluster(node("n", 4), k=0.0)
    submit(made, job("small", stage(1)), 100)
    submit(made, job("large", stage(1, (3000, 3072))), 9000)
    assert served(made) == ["large", "small"]


def test_packing_can_be_left_out() -> None:
    made = cluster(node("n", 4), packing=False, k=1.0)
    submit(made, job("large", stage(1, (3000, 3072))), 9000)
    submit(made, job("small", stage(1)), 100)
    assert served(made)[0] == "small"


def test_a_job_without_estimates_counts_as_one_of_average_work() -> None:
    made = cluster(node("n", 1), k=1.0)
    submit(made, job("long", stage(1)), 9000)
    submit(made, job("unknown", stage(1)))
    submit(made, job("short", stage(1)), 1000)
    order = []
    for at in range(1, 4):
        order += served(made, at)
        made.handle(ContainerEnded(at, at, 0, 1))
    assert order == ["short", "unknown", "long"]


def test_without_a_predictor_it_packs_and_follows_plans() -> None:
    made = cluster(node("n", 4), predictor=None)
    submit(made, job("small", stage(1)))
    submit(made, job("large", stage(1, (3000, 3072))))
    assert served(made) == ["large", "small"]


# -- plans ----------------------------------------------------------------------------------------


def test_priorities_by_start() -> None:
    assert by_start((0, 1, 1, 5), (1, 1, 1, 1)) == ((1.0,), (0.75,), (0.5,), (0.25,))


def test_tasks_of_a_stage_have_ranks_of_their_own() -> None:
    assert by_start((5, 0), (1, 3)) == ((0.25,), (1.0, 0.75, 0.5))


DIAMOND = job("d", stage(), stage(parents=(0,)), stage(parents=(0,)), stage(parents=(1, 2)))


def test_the_fallback_is_the_critical_path() -> None:
    assert by_path(DIAMOND, (10.0, 5.0, 90.0, 1.0)) == ((1.0,), (0.5,), (0.75,), (0.25,))


def test_without_estimates_all_stages_are_equally_long() -> None:
    made = job("c", stage(), stage(), stage(parents=(1,)))
    assert by_path(made, (None, 5.0, None)) == by_path(made, (1.0, 1.0, 1.0)) == ((2 / 3,), (1.0,), (1 / 3,))
    assert plan_of(made, (None, 5.0, None), (1000, 1024), 1, 9) is None


def test_parents_stand_before_children_that_take_no_time() -> None:
    made = job("z", stage(parents=(1,)), stage())
    assert by_path(made, (0.0, 0.0)) == ((0.5,), (1.0,))


def stages_in_order(**settings: object) -> list[int]:
    made = cluster(node("n", 1), **settings)
    submit(made, job("j", stage(), stage(), stage(parents=(1,))), 100, 100, 900)
    order = []
    for at in range(1, 4):
        order += [d.stage for d in made.handle(Tick(at)) if isinstance(d, Place)]
        made.handle(ContainerEnded(at, at, 0, 100))
    return order


def test_the_plan_is_followed() -> None:
    assert stages_in_order() == [1, 2, 0]


def test_without_plan_stages_go_by_index() -> None:
    assert stages_in_order(plan="none") == [0, 1, 2]


def makespan(**settings: object) -> int:
    """Two short tasks that cannot overlap, each before a long one; the long ones can (P1 -> L1, P2 -> L2)."""
    short, long = (550, 0), (500, 500)
    made = job("p", stage(1, short), stage(1, long, (0,)), stage(1, short), stage(1, long, (2,)))
    entry = WorkloadJob(job=made, submit_ms=0, runtimes=tuple(Fixed(ms) for ms in (10, 1020, 10, 1000)))
    spec = {"kind": "graphene", **settings}
    control = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy=spec, predictor=ORACLE, offers="cycle"))
    cluster = EngineConfig(nodes=(Node(id="n", capacity=(1000, 1000)),), profile="events")
    simulation = Simulation(cluster, Workload(name="test", jobs=(entry,)), control, oracle=True)
    simulation.run()
    return simulation.end_ms


def test_the_schedule_finds_what_the_critical_path_does_not() -> None:
    # Known answers: 1.04 at best; the critical path, breadth first and packing take 2.04.
    by_plan = {"packing": False, "k": 0.0}
    assert makespan(**by_plan) == 1040
    assert makespan(**by_plan, plan="path") == 2040
    assert makespan(plan="none") == 2040


def test_a_job_is_planned_again_when_its_first_estimates_come() -> None:
    made = cluster(node("n", 1))
    submit(made, DIAMOND)
    assert not policy(made)._ranks["d"].estimated
    made.handle(Estimated(1, "d", (10, 90, 5, 1)))
    made.handle(Tick(1))
    made.handle(ContainerEnded(11, 1, 0, 10))
    rank = policy(made)._ranks["d"]
    assert (rank.estimated, rank.priorities) == (True, ((1.0,), (0.75,), (0.5,), (0.25,)))


def test_a_job_that_no_machine_fits_falls_back_to_the_critical_path() -> None:
    assert plan_of(DIAMOND, (1.0,) * 4, (10, 10), 1, 9) is None


def test_another_planner_can_make_the_schedule() -> None:
    made = plan_of(DIAMOND, (10.0, 90.0, 5.0, 1.0), (1000, 1024), 1, 9, "coffman_graham")
    assert made is not None
    assert made.planner == "coffman_graham"


def test_no_other_planner_is_asked_for_too_many_stages() -> None:
    made = job("many", *(stage() for _ in range(MOST_STAGES + 1)))
    assert plan_of(made, (1.0,) * (MOST_STAGES + 1), (1000, 1024), 1, 9, "strip_part") is None


def test_a_job_follows_the_plan_of_another_planner() -> None:
    made = cluster(node("n", 1), plan="strip_part")
    chain = job("s", stage(), stage(), stage(parents=(1,)))
    submit(made, chain, 50, 1, 1)
    planned = plan_of(chain, (50.0, 1.0, 1.0), (1000, 1024), 1, 9, "strip_part")
    assert planned is not None
    assert policy(made)._ranks["s"].priorities == planned.scores() != by_path(chain, (50.0, 1.0, 1.0))


def new_plans(made: Scheduler) -> Mapping[str, Planned]:
    plans = ability(made.policy, Plans)
    assert plans is not None
    return plans.new_plans()


@pytest.mark.parametrize("around", [False, True])
def test_a_plan_is_shown_once_and_after_a_restore(around: bool) -> None:
    spec = {"kind": "graphene"}
    made = scheduler({"kind": "bounded", "policy": spec} if around else spec, node("n", 1), predictor=ORACLE)
    submit(made, DIAMOND, 10, 90, 5, 1)
    times = ((0, 0, 10), (1, 10, 100), (2, 100, 105), (3, 105, 106))
    stretches = tuple(Stretch(stage, start, end, end - start) for stage, start, end in times)
    assert new_plans(made) == {"d": Planned(1, 106, 106, (10, 90, 5, 1), stretches)}
    assert new_plans(made) == {}
    assert list(new_plans(Scheduler.restore(made.snapshot()))) == ["d"]


@pytest.mark.parametrize(("plan", "plans"), [("schedule", True), ("path", False), ("none", False)])
@pytest.mark.parametrize("around", [False, True])
def test_only_schedules_are_worth_asking_for(around: bool, plan: str, plans: bool) -> None:
    spec = {"kind": "graphene", "plan": plan}
    made = scheduler({"kind": "bounded", "policy": spec} if around else spec, node("n", 1), predictor=ORACLE)
    assert (ability(made.policy, Plans) is not None) is plans


def test_nothing_is_shown_of_a_job_that_is_gone_or_has_no_schedule() -> None:
    made = cluster(node("n", 1))
    submit(made, job("unknown", stage(1)))
    submit(made, DIAMOND, 10, 90, 5, 1)
    made.handle(JobCancelled(1, "d"))
    assert new_plans(made) == {}


# -- estimates ------------------------------------------------------------------------------------


def test_finished_tasks_refine_the_estimate() -> None:
    assert refined_ms(Estimate(100.0), 0, 0.0) == 100.0
    assert refined_ms(Estimate(100.0), 2, 600.0) == 200.0
    assert refined_ms(None, 4, 600.0) == 150.0
    assert refined_ms(None, 0, 0.0) is None


def test_remaining_work_falls_with_what_starts_and_moves_with_what_ends() -> None:
    made = cluster(node("n", 2))
    submit(made, job("j", stage(6)), 100)
    assert policy(made)._ranks["j"].srpt == 600.0
    served(made)
    assert policy(made)._ranks["j"].srpt == 400.0
    made.handle(ContainerEnded(400, 1, 0, 400))
    assert policy(made)._ranks["j"].srpt == 4 * (2 * 100 + 400) / 3


def one_to_one(tasks: int) -> Job:
    edge = Edge(parent=0, kind="one_to_one")
    return job("j", stage(tasks), Stage(name="after", tasks=tasks, demand=(1000, 1024), parents=(edge,)))


def test_remaining_work_counts_the_tasks_that_a_one_to_one_edge_keeps_back() -> None:
    made = cluster(node("n", 2))
    submit(made, one_to_one(6), 100, 100)
    served(made)
    assert policy(made)._ranks["j"].srpt == 1000.0


def test_the_first_task_let_in_by_a_one_to_one_edge_has_the_first_place_of_its_stage() -> None:
    made = cluster(node("n", 2))
    submit(made, one_to_one(6), 100, 100)
    served(made)
    made.handle(ContainerEnded(100, 1, 0, 100))
    [scored] = [each for each in policy(made)._open["j"] if each.stage.index == 1]
    assert scored.t_pri == policy(made)._ranks["j"].priorities[1][0]


def test_remaining_work_is_measured_by_the_cluster_as_it_is() -> None:
    made = cluster(node("n", 2))
    submit(made, job("j", stage(6)), 100)
    made.handle(NodeAdded(1, node("m", 2)))
    assert policy(made)._ranks["j"].srpt == 300.0


def test_run_times_count_as_on_a_node_of_speed_1() -> None:
    made = cluster(node("n", 1, speed=2.0))
    submit(made, job("j", stage(6)), 100)
    served(made)
    made.handle(ContainerEnded(50, 1, 0, 50))
    assert made.state.jobs["j"].stages[0].done_ms == 100.0


def planned_for(made: Scheduler) -> dict[str, int]:
    return {name: rank.planned.machines for name, rank in policy(made)._ranks.items() if rank.planned is not None}


@pytest.mark.parametrize(
    ("factor", "machines"),
    [(None, {"a": 8, "b": 4, "c": 3}), (2.0, {"a": 4, "b": 4, "c": 3}), (1.2, {"a": 3, "b": 3, "c": 3})],
)
def test_a_job_is_planned_again_when_its_part_of_the_nodes_changed_by_the_factor(
    factor: float | None, machines: dict[str, int]
) -> None:
    made = cluster(*(node(f"n{number}") for number in range(8)), replan_factor=factor)
    for name in machines:
        submit(made, job(name, stage(4)), 100)
    assert planned_for(made) == machines


def test_a_job_is_planned_again_when_others_have_left() -> None:
    made = cluster(*(node(f"n{number}") for number in range(8)), replan_factor=2.0)
    for name in ("a", "b"):
        submit(made, job(name, stage(4)), 100)
    made.handle(JobCancelled(1, "b"))
    assert planned_for(made) == {"a": 8}


# -- deficits -------------------------------------------------------------------------------------


def queues(**settings: object) -> list[str]:
    made = cluster(node("n", 4), **settings)
    submit(made, job("b", stage(9), queue="B"), 100_000)
    submit(made, job("a", stage(9), queue="A"), 100)
    return served(made)


@pytest.mark.parametrize("factor", ["slot", "drf"])
@pytest.mark.parametrize(
    ("kappa", "order"), [(0.0, ["a", "b", "a", "b"]), (0.25, ["a", "a", "b", "a"]), (0.9, ["a"] * 4)]
)
def test_unfairness_is_bounded_by_kappa(kappa: float, order: list[str], factor: str) -> None:
    assert queues(kappa=kappa, deficit=factor) == order


def test_who_is_owed_but_does_not_fit_holds_up_nobody() -> None:
    made = cluster(node("n", 4), kappa=0.0)
    submit(made, job("a", stage(9), queue="A"), 100)
    submit(made, job("large", stage(9, (9000, 1024)), queue="B"), 100)
    assert served(made) == ["a"] * 4
    assert policy(made)._balance.deficits["B"] == pytest.approx(0.5)


def test_a_group_alone_is_served_by_score_whatever_kappa() -> None:
    assert stages_in_order(kappa=0.0) == stages_in_order(kappa=1.0)


def test_what_an_outside_scheduler_takes_is_charged() -> None:
    made = scheduler({"kind": "graphene"}, node("n", 4))
    made.state.nodes["n"].draining = True  # so that nothing starts by itself
    for name in ("a", "b"):
        made.handle(JobSubmitted(0, job(name, stage(4), queue=name)))
    made.state.nodes["n"].draining = False
    made.handle(OfferAsked(1, "a", 0, ("n",)))
    assert policy(made)._balance.deficits["b"] == pytest.approx(0.125)


def test_an_outside_scheduler_leaves_the_averages_alone() -> None:
    made = scheduler({"kind": "graphene"}, node("n", 4))
    made.handle(JobSubmitted(0, job("a", stage(2))))
    before = policy(made)._packing
    assert before.count == 1
    made = Scheduler.restore(made.snapshot())
    made.state.nodes["n"].draining = True
    made.handle(JobSubmitted(1, job("b", stage(4))))
    made.state.nodes["n"].draining = False
    assert len(made.handle(OfferAsked(1, "b", 0, ("n",)))) == 1
    assert policy(made)._packing == before


def test_kappa_0_shares_along_the_tree() -> None:
    made = cluster(node("n", 48), kappa=0.0, deficit="slot")
    weights = {"n1": ("", 1.0), "n2": ("", 1.0), "n21": ("n2", 1.0), "n22": ("n2", 2.0), "n23": ("n2", 2.0)}
    for name, (parent, weight) in weights.items():
        made.handle(QueueChanged(0, Queue(name=name, parent=parent, weight=weight)))
    for at, queue in enumerate(("n1", "n21", "n22", "n23")):
        submit(made, job(queue, stage(90), queue=queue), 100 * 7**at)
    picks = served(made)
    assert {q: picks.count(q) for q in ("n1", "n21", "n22", "n23")} == {"n1": 24, "n21": 5, "n22": 10, "n23": 9}


# -- bundles and places ---------------------------------------------------------------------------


def filled(**settings: object) -> tuple[list[tuple[str, int, str]], int]:
    made = cluster(**settings)
    for number in range(4):
        made.handle(NodeAdded(0, Node(id=f"n{number}", capacity=(8000, 16384))))
    demands = [(1000, 1024), (1000, 4096), (2000, 1024), (500, 3000)]
    made.state.nodes["n0"].draining = made.state.nodes["n1"].draining = True
    for number in range(40):
        entry = job(f"j{number}", stage(3, demands[number % 4]), stage(2, demands[number % 3]), queue=f"q{number % 3}")
        submit(made, entry, 100 * (1 + number * 7 % 11), 300)
    places = [d for d in made.handle(Tick(1)) if isinstance(d, Place)]
    return [(d.job, d.stage, d.node) for d in places], policy(made).examined


def test_a_bundle_decides_as_a_pass_per_task_does_and_examines_a_third_or_less() -> None:
    # The averages behind eta count passes, so they are kept out of the comparison.
    (bundled, few), (one_by_one, many) = filled(k=0.0), filled(k=0.0, bundling=False)
    assert bundled == one_by_one
    assert 3 * few <= many


def test_a_pass_that_stops_early_still_meets_who_is_owed() -> None:
    made = cluster(node("n", 4), kappa=0.0, enough=1.0)
    submit(made, job("short", stage(9), queue="A"), 100)
    submit(made, job("long", stage(9), queue="B"), 9000)
    assert served(made) == ["short", "long", "short", "long"]


def test_the_fullest_set_can_be_picked() -> None:
    settings = {"k": 0.0, "kappa": 1.0}
    for pick, expected in (("best", ["six"]), ("fullest", ["five", "five"])):
        made = cluster(node("n", 10), pick=pick, **settings)
        submit(made, job("six", stage(1, (6000, 6144))), 100)
        submit(made, job("five", stage(2, (5000, 5120))), 100)
        assert served(made) == expected


def test_the_task_with_input_on_the_node_starts_there() -> None:
    made = scheduler({"kind": "graphene"}, node("n"), node("m"), offers="heartbeat")
    hosts = (("m",), ("n",))
    made.handle(JobSubmitted(0, job("j", Stage(name="s", tasks=2, demand=(1000, 1024), hosts=hosts))))
    assert [d.task for d in made.handle(Heartbeat(1, "n")) if isinstance(d, Place)] == [1]


def test_a_job_with_input_elsewhere_gives_way() -> None:
    made = scheduler({"kind": "graphene"}, node("n"), node("m"), offers="heartbeat")
    made.handle(JobSubmitted(0, job("far", Stage(name="s", tasks=1, demand=(1000, 1024), hosts=(("m",),)))))
    made.handle(JobSubmitted(0, job("near", Stage(name="s", tasks=1, demand=(1000, 1024), hosts=(("n",),)))))
    assert [d.job for d in made.handle(Heartbeat(1, "n")) if isinstance(d, Place)] == ["near"]


# -- why --------------------------------------------------------------------------------------------


def turn(made: Scheduler, name: str) -> str:
    """Why a job waits that has room."""
    said = made.explain(name).reasons[0]
    assert said.reason is Reason.BEHIND_OTHERS
    return said.sentence.removeprefix("there is room for it, and ")


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        (
            {},
            ": by how well they fill a node, how early they come in their job's plan "
            "and how little work their job has left",
        ),
        ({"packing": False}, ": by how early they come in their job's plan and how little work their job has left"),
        ({"plan": "none"}, ": by how well they fill a node and how little work their job has left"),
        ({"plan": "none", "k": 0}, ": by how well they fill a node"),
        ({"plan": "none", "k": 0, "packing": False}, ""),
    ],
    ids=str,
)
def test_a_job_with_room_is_told_by_what_tasks_are_chosen(settings: dict[str, object], ways: str) -> None:
    made = cluster(node("n", 4), **settings)
    submit(made, job("a", stage(1)), 100)
    assert turn(made, "a") == f"tasks are chosen anew in each round{ways}"


def two_queues(**settings: object) -> Scheduler:
    """Job a of queue A has had four cores, job large of queue B none, for it fits nowhere; then two more cores come."""
    made = cluster(node("n", 4), kappa=0.0, **settings)
    submit(made, job("a", stage(9), queue="A"), 100)
    submit(made, job("large", stage(9, (9000, 1024)), queue="B"), 100)
    assert served(made) == ["a"] * 4
    made.handle(NodeAdded(2, node("m", 2)))
    return made


@pytest.mark.parametrize(("level", "group"), [("queue", "B"), ("job", "large")])
def test_who_is_owed_most_is_named_to_others(level: str, group: str) -> None:
    said = turn(two_queues(level=level), "a")
    assert said == f"{level} {group} is owed most and is served first where its tasks fit"


def test_a_job_of_the_queue_that_is_owed_most_is_not_sent_behind_it() -> None:
    made = two_queues()
    made.handle(JobSubmitted(2, job("b", stage(1), queue="B")))
    assert turn(made, "b").startswith("tasks are chosen anew in each round")
