"""delay: who waits for a node with its input, for how long, and what that gains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from rm_emulator import testing
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.features.unlike import locality
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import POLICY_CHECKS, Case, MemoryRecording, PolicyCheck, Subject, job, node, scheduler, stage
from rm_emulator.workload import data
from rm_emulator.workload.model import Drawn, Remote, Workload, WorkloadJob
from schedulers.core.decisions import Hold, Place
from schedulers.core.events import ContainerEnded, Heartbeat, JobSubmitted, NodeAdded, NodeRemoved, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Stage
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler

RACKS = {"n1": "a", "n2": "a", "n3": "b"}


def delay(*names: str, cores: int = 9, racks: bool = False, **settings: Any) -> Scheduler:
    nodes = [node(name, cores, rack=RACKS[name] if racks else "") for name in names]
    return scheduler({"kind": "delay", **settings}, *nodes, offers="heartbeat")


def reads(*hosts: tuple[str, ...], **fields: Any) -> Stage:
    """A stage with one task per entry, whose input is on these nodes."""
    return msgspec.structs.replace(stage(len(hosts)), hosts=hosts, **fields)


def beat(made: Scheduler, name: str, at: int = 0) -> list[tuple[str, int]]:
    """(job, task) of what starts when a node beats."""
    return [(d.job, d.task) for d in made.handle(Heartbeat(at, name)) if isinstance(d, Place)]


def beats(made: Scheduler, names: Iterable[str], at: int = 0) -> list[int]:
    """How many tasks start at each of these beats."""
    return [len(beat(made, name, at)) for name in names]


# -- counting opportunities -------------------------------------------------------------------------


def test_a_job_passes_up_so_many_opportunities_and_then_takes_any() -> None:
    made = delay("n1", "n2", node_skips=3)
    made.handle(JobSubmitted(0, job("a", reads(("n2",), ("n2",)))))
    assert beats(made, ["n1"] * 4) == [0, 0, 0, 2]


def test_the_task_that_starts_is_one_with_input_there() -> None:
    made = delay("n1", "n2", node_skips=9)
    made.handle(JobSubmitted(0, job("a", reads(("n1",), ("n2",), ("n1", "n2"), ("n2",)))))
    assert beat(made, "n2") == [("a", 1), ("a", 2), ("a", 3)]
    assert beat(made, "n1") == [("a", 0)]


def test_who_is_passed_up_keeps_its_place_and_others_go_meanwhile() -> None:
    made = delay("n1", "n2", cores=1, node_skips=1)
    made.handle(JobSubmitted(0, job("first", reads(("n2",)))))
    made.handle(JobSubmitted(0, job("second", stage(2))))
    assert beat(made, "n1") == [("second", 0)]
    made.handle(ContainerEnded(1, 1, 0, 1))
    assert beat(made, "n1", 1) == [("first", 0)]


def test_a_local_start_makes_the_job_wait_anew() -> None:
    made = delay("n1", "n2", cores=1, node_skips=2)
    made.handle(JobSubmitted(0, job("a", reads(*[("n2",)] * 3))))
    assert beats(made, ["n1", "n1", "n2", "n1", "n1", "n1"]) == [0, 0, 1, 0, 0, 1]


def test_with_reset_unrefused_only_a_start_without_refusals_before_it_does() -> None:
    made = delay("n1", "n2", cores=3, node_skips=2, reset="unrefused")
    made.handle(JobSubmitted(0, job("a", reads(*[("n2",)] * 9))))
    assert beats(made, ["n1", "n2", "n1", "n1"]) == [0, 3, 0, 3]  # two opportunities in all, the start between them
    made.handle(ContainerEnded(1, 1, 0, 1))
    made.handle(ContainerEnded(1, 4, 0, 1))
    assert beats(made, ["n2", "n1", "n1", "n1"], 1) == [1, 0, 0, 1]


def test_a_start_elsewhere_does_not_make_it_wait() -> None:
    made = delay("n1", "n2", "n3", cores=1, node_skips=2)
    made.handle(JobSubmitted(0, job("a", reads(*[("n2",)] * 3))))
    assert beats(made, ["n1", "n1", "n1", "n3"]) == [0, 0, 1, 1]


def test_a_node_without_room_is_no_opportunity() -> None:
    made = delay("n1", "n2", cores=1, node_skips=1)
    made.handle(JobSubmitted(0, job("other")))
    beat(made, "n1")
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    assert beats(made, ["n1"] * 5) == [0] * 5
    made.handle(ContainerEnded(1, 1, 0, 1))
    assert beats(made, ["n1", "n1"], 1) == [0, 1]


def test_in_a_cycle_each_node_with_room_is_an_opportunity() -> None:
    made = scheduler({"kind": "delay", "node_skips": 4}, node("n1"), node("n2"), node("n3"), offers="cycle")
    made.handle(JobSubmitted(0, job("a", reads(("n3",), ("n3",)))))
    assert [d.node for d in made.handle(Tick(0)) if isinstance(d, Place)] == ["n3"]
    started = [[d for d in made.handle(Tick(at)) if isinstance(d, Place)] for at in (1, 2, 3)]
    assert [len(found) for found in started] == [0, 1, 0]  # two at time 0 after the reset, two at time 1


def test_jobs_without_input_never_wait() -> None:
    made = delay("n1", node_skips=99)
    made.handle(JobSubmitted(0, job("a", stage(2))))
    made.handle(JobSubmitted(0, job("b", reads((), ("n1",), ()))))
    made.handle(JobSubmitted(0, job("c", reads(("lost",)))))
    made.handle(JobSubmitted(0, job("d", reads(("n2",), ("n2",), gang=True))))
    assert len(beat(made, "n1")) == 8


def test_input_on_a_node_that_leaves_is_not_waited_for() -> None:
    made = delay("n1", "n2", node_skips=99)
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    assert beat(made, "n1") == []
    made.handle(NodeRemoved(1, "n2"))
    assert beat(made, "n1", 1) == [("a", 0)]


def test_input_comes_with_its_node() -> None:
    made = delay("n1", node_skips=99)
    made.handle(JobSubmitted(0, job("a", reads(("n2",), ("n1",)))))
    made.handle(NodeAdded(0, node("n2")))
    assert beat(made, "n1") == [("a", 1)]
    assert beat(made, "n2") == [("a", 0)]


def test_a_task_that_runs_again_goes_to_its_input_again() -> None:
    made = delay("n1", "n2", cores=1, node_skips=99)
    made.handle(JobSubmitted(0, job("a", reads(("n1",), ("n2",), ("n1",)))))
    assert beat(made, "n1") == [("a", 0)]
    made.handle(ContainerEnded(1, 1, 1, 1))
    assert beat(made, "n2", 1) == [("a", 1)]
    assert beat(made, "n1", 1) == [("a", 0)]


def test_no_skips_is_fair_sharing() -> None:
    started = []
    for policy in ({"kind": "fair"}, {"kind": "delay", "node_skips": 0, "rack_skips": 0}):
        made = scheduler(policy, node("n1", 4), node("n2", 4), offers="heartbeat")
        for name, weight in (("a", 1.0), ("b", 2.0), ("c", 1.0)):
            made.handle(JobSubmitted(0, job(name, reads(*[("n2",)] * 5), weight=weight)))
        started.append([name for at in ("n1", "n2") for name, _ in beat(made, at)])
    assert started[0] == started[1]


def test_weights_count() -> None:
    made = delay("n1", cores=6)
    for name, weight in (("a", 2.0), ("b", 1.0)):
        made.handle(JobSubmitted(0, job(name, reads(*[("n1",)] * 9), weight=weight)))
    names = [name for name, _ in beat(made, "n1")]
    assert (names.count("a"), names.count("b")) == (4, 2)


# -- racks ------------------------------------------------------------------------------------------


def test_after_the_node_comes_the_rack_and_then_any() -> None:
    made = delay("n1", "n2", "n3", racks=True, cores=1, node_skips=2, rack_skips=3)
    made.handle(JobSubmitted(0, job("near", reads(("n1",)))))
    assert beats(made, ["n2", "n2", "n2"]) == [0, 0, 1]
    made = delay("n1", "n2", "n3", racks=True, cores=1, node_skips=2, rack_skips=3)
    made.handle(JobSubmitted(0, job("far", reads(("n1",)))))
    assert beats(made, ["n3"] * 6) == [0, 0, 0, 0, 0, 1]


def test_a_start_in_the_rack_makes_it_wait_for_the_rack_alone() -> None:
    made = delay("n1", "n2", "n3", racks=True, cores=1, node_skips=2, rack_skips=1)
    made.handle(JobSubmitted(0, job("a", reads(*[("n1",)] * 4))))
    assert beats(made, ["n3", "n3", "n2"]) == [0, 0, 1]
    made.handle(ContainerEnded(1, 1, 0, 1))
    assert beats(made, ["n2"], 1) == [1]  # the rack at once
    assert beats(made, ["n3", "n3"], 1) == [0, 1]  # elsewhere after one more


def test_without_racks_there_is_no_second_wait() -> None:
    made = delay("n1", "n2", node_skips=1, rack_skips=99)
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    assert beats(made, ["n1", "n1"]) == [0, 1]


def test_skips_follow_from_the_share_asked_for() -> None:
    made = scheduler({"kind": "delay", "locality": 0.95}, *[node(f"n{i}") for i in range(100)], offers="heartbeat")
    made.handle(JobSubmitted(0, job("a", reads(*[("n0", "n1", "n2")] * 20))))
    assert beats(made, ["n9"] * 25) == [0] * 24 + [1]  # D = 0.231 M


# -- time -------------------------------------------------------------------------------------------


def test_time_form_waits_so_long() -> None:
    made = delay("n1", "n2", form="time", node_wait_s=5)
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    assert [len(beat(made, "n1", at)) for at in (1000, 3000, 5999, 6000)] == [0, 0, 0, 1]


def test_time_form_gives_the_rack_its_own_wait() -> None:
    def started(at: list[tuple[int, str]]) -> list[int]:
        made = delay("n1", "n2", "n3", racks=True, form="time", node_wait_s=5, rack_wait_s=6)
        made.handle(JobSubmitted(0, job("a", reads(("n1",)))))
        return [len(beat(made, name, when)) for when, name in at]

    assert started([(0, "n3"), (4000, "n2"), (5000, "n2")]) == [0, 0, 1]
    assert started([(0, "n3"), (5000, "n3"), (10_999, "n3"), (11_000, "n3")]) == [0, 0, 0, 1]


def test_time_form_begins_anew_after_a_local_start() -> None:
    made = delay("n1", "n2", cores=1, form="time", node_wait_s=5)
    made.handle(JobSubmitted(0, job("a", reads(("n2",), ("n2",)))))
    assert beats(made, ["n1"], 0) == [0]
    assert beats(made, ["n2"], 4000) == [1]
    assert [len(beat(made, "n1", at)) for at in (4000, 8999, 9000)] == [0, 0, 1]


def test_time_while_nobody_is_passed_up_does_not_count() -> None:
    made = delay("n1", "n2", cores=1, form="time", node_wait_s=5)
    made.handle(JobSubmitted(0, job("other")))
    beat(made, "n1")
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    made.handle(ContainerEnded(60_000, 1, 0, 1))
    assert beats(made, ["n1"], 60_000) == [0]


# -- why --------------------------------------------------------------------------------------------


def holds(made: Scheduler, event: Any) -> list[Reason]:
    return [d.reason for d in made.handle(event) if isinstance(d, Hold)]


def test_who_is_passed_up_says_so_with_numbers() -> None:
    made = delay("n1", "n2", node_skips=7)
    assert holds(made, JobSubmitted(0, job("a", reads(("n2",))))) == [Reason.WAITS_FOR_OFFER]
    assert holds(made, Heartbeat(0, "n1")) == [Reason.WAITS_FOR_LOCALITY]
    assert holds(made, Heartbeat(0, "n1")) == []
    said = made.explain("a").reasons[0]
    assert said.data == {"missed": 2, "needed": 7, "unit": "opportunities"}
    assert said.sentence == "waits for a node that holds its input (2 of 7 opportunities gone by)"


def test_time_form_says_how_long() -> None:
    made = delay("n1", "n2", form="time", node_wait_s=5)
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    made.handle(Heartbeat(1000, "n1"))
    made.handle(Heartbeat(3500, "n1"))
    assert "(2.5 of 5.0 s gone by)" in made.explain("a").reasons[0].sentence


def test_without_room_there_is_no_talk_of_input() -> None:
    made = delay("n1", "n2", cores=1, node_skips=7)
    made.handle(JobSubmitted(0, job("a", reads(("n2",)))))
    made.handle(JobSubmitted(0, job("b", stage(2))))
    assert Reason.WAITS_FOR_LOCALITY in holds(made, Heartbeat(0, "n1"))
    beat(made, "n1")
    made.handle(JobSubmitted(0, job("c", reads(("n2",)))))
    assert made.explain("c").reasons[0].reason is Reason.WAITS_FOR_OFFER
    assert made.state.jobs["a"].hold is Reason.WAITS_FOR_LOCALITY


# -- promises where there is input to wait for --------------------------------------------------------

RANDOM_CASE = testing.case


def case_with_input(seed: int, **how: Any) -> Case:
    made = RANDOM_CASE(seed, **how)
    nodes = [
        msgspec.structs.replace(there, rack=f"r{index % 2}") if seed % 2 else there
        for index, there in enumerate(made.config.nodes)
    ]
    return msgspec.structs.replace(
        made,
        name=f"{made.name} with input",
        config=msgspec.structs.replace(made.config, nodes=tuple(nodes)),
        workload=data.place(made.workload, nodes, 1, seed),
    )


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "policy",
    [{"kind": "delay"}, {"kind": "delay", "form": "time", "rack_wait_s": 1.5}, {"kind": "delay", "node_skips": 40}],
    ids=str,
)
@pytest.mark.parametrize("predictor", [None, {"kind": "slearn", "fixed_percent": 30}], ids=["alone", "pilots"])
@pytest.mark.drawn(of=4)
def test_promise(
    policy: dict[str, Any], predictor: dict[str, Any] | None, check: PolicyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "case", case_with_input)
    check(Subject(policy=policy, predictor=predictor), (0, 1, 2, 3, 4))


# -- what it gains ------------------------------------------------------------------------------------


def busy(policy: dict[str, Any], seed: int, *, remote: float = 1.5) -> tuple[float, float]:
    """Share of tasks on a node with their input, and mean JCT in s, of many jobs on a busy cluster."""
    nodes = tuple(node(f"n{i}", 2) for i in range(30))
    jobs = tuple(
        WorkloadJob(job=Job(id=f"j{i:02}", stages=(stage(40),)), submit_ms=2500 * i, runtimes=(Drawn(9000.0, 0.4),))
        for i in range(40)
    )
    workload = Workload(name="busy", jobs=jobs, remote=Remote(off=remote))
    kept = MemoryRecording()
    config = SchedulerConfig(resources=("cpu", "memory"), policy=policy, offers="heartbeat", seed=seed)
    made = Simulation(
        EngineConfig(nodes=nodes), data.place(workload, nodes, 3, seed), Scheduler(config), kept, seed=seed
    )
    made.run()
    shares = locality(made.feature)
    assert shares is not None
    return shares["node"], sum(row.finish_ms - row.submit_ms for row in kept.jobs) / len(jobs) / 1000


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("settings", [{"locality": 0.99}, {"form": "time"}], ids=["count", "time"])
@pytest.mark.drawn(of=4)
def test_nearly_all_tasks_run_where_their_input_is(settings: dict[str, Any], seed: int) -> None:
    plain, slow = busy({"kind": "fair"}, seed)
    local, quick = busy({"kind": "delay", **settings}, seed)
    assert local >= 0.95
    assert plain < 0.3
    assert quick <= slow


def test_who_waits_for_ever_runs_nothing_elsewhere() -> None:
    assert busy({"kind": "delay", "node_skips": 10**9}, 1)[0] == 1.0


def hot_spot(**settings: Any) -> float:
    """Makespan in s of 60 tasks of 5 s whose input is on one of ten nodes (the trap of SPARK-18886)."""
    nodes = tuple(node(f"n{i}") for i in range(10))
    spec = Job(id="j", stages=(reads(*[("n0",)] * 60),))
    entry = WorkloadJob(job=spec, submit_ms=0, runtimes=(Drawn(5000.0),))
    policy = {"kind": "delay", "form": "time", "node_wait_s": 6, **settings}
    config = SchedulerConfig(resources=("cpu", "memory"), policy=policy, offers="heartbeat")
    made = Simulation(EngineConfig(nodes=nodes), Workload(name="hot", jobs=(entry,)), Scheduler(config))
    made.run()
    return made.end_ms / 1000


def test_a_node_that_everybody_wants_can_starve_the_others() -> None:
    assert hot_spot() > 250  # one task after the other: each start begins a wait longer than a task
    assert hot_spot(reset="unrefused") < 120


@pytest.mark.parametrize("locality", [0.5, 0.8, 0.95])
def test_the_share_asked_for_is_nearly_reached(locality: float) -> None:
    # Nearly: the formula gives every task its D opportunities, the algorithm none after the first that runs elsewhere.
    assert busy({"kind": "delay", "locality": locality}, 1)[0] >= locality - 0.01
