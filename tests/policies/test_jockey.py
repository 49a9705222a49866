"""Jockey: what jobs with deadlines are given, when that is revised, and what is promised."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import MemoryRecording, job, node, scheduler, stage
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.decisions import Place
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Estimated, JobSubmitted, NodeAdded, Rehearsed, Tick
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.planning.jockey.rehearsal import rehearse

ORACLE = {"kind": "oracle"}
SOON = {"kind": "jockey", "period_ms": 1_000, "dead_zone_ms": 0, "variation": 0, "utility": [[0, 1], [60_000, -1]]}


def submit(made: Scheduler, at: int, entry: Job, *task_ms: int) -> None:
    made.handle(Estimated(at, entry.id, task_ms))
    made.handle(JobSubmitted(at, entry))


def told(made: Scheduler, at: int) -> list[str]:
    """Play what is wished for, and tell what comes of it; returns of which jobs."""
    scripts = made.policy.new_scripts()
    for name, script in scripts.items():
        made.handle(Rehearsed(at, name, *rehearse(script)))
    return list(scripts)


def served(made: Scheduler, at: int) -> list[str]:
    return [d.job for d in made.handle(Tick(at)) if isinstance(d, Place)]


def promised(made: Scheduler, name: str) -> dict[str, int]:
    found: dict[str, int] = made.policy.about(made.state.jobs[name])["promise"]
    return found


def beside_a_large_one(deadline: int, **settings: Any) -> list[str]:
    """Who gets the ten cores: 20 tasks of 10 s with a deadline, behind a hundred tasks without."""
    made = scheduler({**SOON, **settings}, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("large", stage(100)), 10_000)
    submit(made, 0, job("due", stage(20), deadline=deadline), 10_000)
    told(made, 0)
    return served(made, 0)


@pytest.mark.parametrize(("deadline", "containers"), [(24_000, 10), (48_000, 5), (120_000, 2), (240_000, 1)])
def test_a_job_gets_as_many_containers_as_it_needs_and_others_the_rest(deadline: int, containers: int) -> None:
    assert beside_a_large_one(deadline).count("due") == containers
    assert len(beside_a_large_one(deadline)) == 10


def test_what_nobody_else_wants_goes_to_a_job_above_its_allocation() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(20), deadline=240_000), 10_000)
    told(made, 0)
    assert promised(made, "due")["containers"] == 1
    assert served(made, 0) == ["due"] * 10


def test_a_dead_zone_takes_more_containers() -> None:
    assert beside_a_large_one(48_000, dead_zone_ms=12_000).count("due") == 7 > beside_a_large_one(48_000).count("due")


def test_max_takes_all_that_can_be_used() -> None:
    assert beside_a_large_one(240_000, control="max").count("due") == 10


def test_a_deadline_that_cannot_be_met_takes_as_many_as_make_it_least_late() -> None:
    """Ten are as late as nine, which take the tasks in three rounds as well."""
    assert beside_a_large_one(15_000).count("due") == 10


def test_before_it_is_rehearsed_a_job_is_served_as_any_other() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("large", stage(100)), 10_000)
    submit(made, 0, job("due", stage(20), deadline=24_000), 10_000)
    assert served(made, 0) == ["large"] * 10


def test_jobs_below_their_allocation_share_by_it() -> None:
    made = scheduler(SOON, node("n", 9), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("soon", stage(20), deadline=30_000), 10_000)  # as many as there are
    submit(made, 0, job("later", stage(20), deadline=100_000), 10_000)  # 3 of them
    told(made, 0)
    assert [promised(made, name)["containers"] for name in ("soon", "later")] == [7, 3]
    placed = served(made, 0)
    assert (placed.count("soon"), placed.count("later")) == (6, 3)


def test_an_allocation_goes_a_fifth_of_the_way_each_period() -> None:
    made = scheduler({**SOON, "control": "amdahl"}, node("n", 100), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(100), deadline=60_000), 10_000)
    told(made, 0)
    first = promised(made, "due")["containers"]
    given = []
    for at in range(1_000, 21_000, 1_000):
        made.handle(Tick(at))
        given.append(promised(made, "due")["containers"])
    assert first == 30
    assert given == sorted(given)
    assert given[-1] > first


def test_static_is_never_revised() -> None:
    made = scheduler({**SOON, "control": "static"}, node("n", 100), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(100), deadline=60_000), 10_000)
    told(made, 0)
    first = promised(made, "due")["containers"]
    for at in range(1_000, 60_000, 1_000):
        made.handle(Tick(at))
    assert promised(made, "due")["containers"] == first


def test_a_promise_says_when_and_since_when() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(20), deadline=48_000), 10_000)
    told(made, 0)
    assert promised(made, "due") == {"finish": 40_000, "margin": 0, "deadline": 48_000, "made": 0, "containers": 5}
    assert list(made.policy.new_promises()) == ["due"]
    assert made.policy.new_promises() == {}
    made.handle(Tick(1_000))
    assert promised(made, "due")["made"] == 1_000
    assert list(made.policy.new_promises()) == ["due"]


def test_one_that_is_restored_wishes_for_what_was_not_told() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(20), deadline=48_000), 10_000)
    other = Scheduler.restore(made.snapshot())
    other.handle(Tick(1_000))
    assert told(other, 1_000) == ["due"]
    again = Scheduler.restore(other.snapshot())
    again.handle(Tick(2_000))
    assert told(again, 2_000) == []
    assert promised(again, "due") == {**promised(other, "due"), "made": 2_000, "finish": 32_000}


def test_a_later_rehearsal_under_way_is_wished_for_again_and_is_no_part_of_the_memory() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(20), deadline=48_000), 10_000)
    told(made, 0)
    known = made.policy.dump()["jobs"]["due"]["wished"]
    made.handle(NodeAdded(500, node("m", 5)))
    made.handle(Tick(1_000))
    assert made.policy.dump()["jobs"]["due"]["wished"] == known
    other = Scheduler.restore(made.snapshot())
    other.handle(Tick(2_000))
    assert told(other, 2_000) == ["due"]


def ran(policy: dict[str, Any], error: float, *, deadline: int = 180_000) -> tuple[int, int]:
    """When a job of 40 tasks of 10 s ends that is behind many, and how often it was rehearsed.

    error: of its estimate, relative.
    """
    due = job("due", stage(20), stage(20, parents=(0,), name="t"), deadline=deadline)
    sources = (
        WorkloadJob(job=job("all", stage(2_000)), submit_ms=0, runtimes=(Fixed(5_000),)),
        WorkloadJob(job=due, submit_ms=0, runtimes=(Fixed(10_000), Fixed(10_000))),
    )
    config = EngineConfig(nodes=(node("n", 20),), profile="events")
    predictor = {"kind": "oracle", "error": [error, error]}
    kept, lines = MemoryRecording(), list[bytes]()
    settings = SchedulerConfig(resources=("cpu", "memory"), policy=policy, predictor=predictor, offers="cycle")
    log = Log(lines.append)
    Simulation(config, Workload(name="w", jobs=sources), Scheduler(settings, log=log), kept, oracle=True).run()
    log.flush()
    finished = {row.id: row.finish_ms for row in kept.jobs}["due"]
    assert finished is not None
    return finished, b"".join(lines).count(b'"event":"Rehearsed"')


def test_estimates_of_half_the_true_run_times_are_found_out_and_the_deadline_is_met() -> None:
    end, rehearsals = ran({**SOON, "alpha": 1.0}, -0.5)
    assert end <= 180_000
    assert rehearsals > 1
    late, once = ran({**SOON, "control": "static"}, -0.5)
    assert (late > 180_000, once) == (True, 1)


def test_right_estimates_are_rehearsed_once() -> None:
    end, rehearsals = ran(SOON, 0.0)
    assert (end <= 180_000, rehearsals) == (True, 1)


def test_fifo_alone_misses_the_deadline() -> None:
    assert ran({"kind": "fifo"}, 0.0)[0] > 180_000


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"utility": [[0, 1], [0, 0]]}, r"utility \[0.0, 0.0\] after \[0.0, 1.0\] \(times ascend, utilities do not\)"),
        ({"utility": [[0, 0], [10, 1]]}, r"utility \[10.0, 1.0\] after \[0.0, 0.0\]"),
        ({"utility": []}, "Expected `array` of length >= 1"),
        ({"slack": 0.5}, "Expected `float` >= 1"),
        ({"alpha": 0}, "Expected `float` > 0"),
        ({"policy": {"kind": "delay"}}, "policy 'jockey' does not go with 'delay', which counts offers"),
        (
            {"policy": {"kind": "tetrisched"}},
            "'jockey' does not go with 'tetrisched', which decides by a period of its",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameters, match=said):
        scheduler({"kind": "jockey", **settings})


# -- why --------------------------------------------------------------------------------------------


def turn(made: Scheduler, name: str) -> str:
    """Why a job waits that has room."""
    said = made.explain(name).reasons[0]
    assert said.reason is Reason.BEHIND_OTHERS
    return said.sentence.removeprefix("there is room for it, and ")


def grown(policy: dict[str, Any], *, deadline: int) -> Scheduler:
    """A job of nine tasks that has the two containers there were, and room for one more since."""
    made = scheduler(policy, node("n", 2), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("due", stage(9), deadline=deadline), 10_000)
    told(made, 0)
    assert served(made, 0) == ["due", "due"]
    made.handle(NodeAdded(1, node("m", 1)))
    return made


def test_a_job_above_its_allocation_is_told_that_it_has_what_it_is_to_have() -> None:
    made = grown(SOON, deadline=240_000)
    assert turn(made, "due") == (
        "it has the one container that it is to have for its deadline, and gets more where all others leave room"
    )


def test_so_is_one_that_cannot_be_done_in_time() -> None:
    made = grown(SOON, deadline=5_000)
    assert turn(made, "due").startswith("it has the 2 containers that it is to have for its deadline, and gets more")


def test_others_are_named_before_a_job_above_its_allocation() -> None:
    made = grown(SOON, deadline=240_000)
    submit(made, 1, job("plain", stage(1)), 10_000)
    assert turn(made, "due") == "1 job is served before it, the first is plain"
    assert turn(made, "plain") == "it is next"


def test_jobs_without_deadline_come_after_one_below_its_allocation() -> None:
    made = scheduler(SOON, node("n", 10), offers="cycle", predictor=ORACLE)
    submit(made, 0, job("plain", stage(100)), 10_000)
    submit(made, 0, job("due", stage(20), deadline=48_000), 10_000)
    told(made, 0)
    assert turn(made, "plain") == "1 job is served before it, the first is due"
    assert turn(made, "due") == "it is next"


def test_where_the_policy_inside_keeps_no_line_its_own_reason_is_told() -> None:
    made = grown({**SOON, "policy": {"kind": "graphene"}}, deadline=240_000)
    submit(made, 1, job("plain", stage(1)), 10_000)
    assert turn(made, "due").startswith("it has the one container that it is to have for its deadline")
    assert turn(made, "plain").startswith("tasks are chosen anew in each round")
