"""`tetrisched` and `alsched`: wishes, deadlines, what is planned ahead, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.testing import node, replay, scheduler, stage
from schedulers.core.decisions import Decision, Hold, Place
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Estimated, Heartbeat, JobSubmitted, SearchEnded, Tick
from schedulers.core.log import Log
from schedulers.core.model import Job, Node, Stage, Wish, Wishes
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.planning.tetrisched import start_plan

GPU_OR_ANY = Wishes(prefer=(Wish(device="gpu"), Wish()))


def gpus(count: int = 2, plain: int = 2, speed: float = 3.0) -> list[Node]:
    fast = [node(f"g{i}", kind="gpu", speed=speed, rack="r1") for i in range(count)]
    return fast + [node(f"p{i}", kind="plain", rack="r2") for i in range(plain)]


def made(policy: str | dict[str, Any], nodes: list[Node], **config: Any) -> Scheduler:
    return scheduler(policy, *nodes, offers="cycle", predictor={"kind": "oracle"}, **config)


def gang(name: str, tasks: int = 2, **fields: Any) -> Job:
    return Job(id=name, stages=(Stage(name="s", tasks=tasks, demand=(1000, 1024), gang=True),), **fields)


def submit(one: Scheduler, job: Job, ms: int, at: int = 0) -> None:
    one.handle(Estimated(at, job.id, (ms,) * len(job.stages)))
    one.handle(JobSubmitted(at, job))


def where(decisions: list[Decision]) -> dict[str, list[str]]:
    """The nodes of each job that starts."""
    found: dict[str, list[str]] = {}
    for decision in decisions:
        if isinstance(decision, Place):
            found.setdefault(decision.job, []).append(decision.node)
    return found


def busy_gpus(policy: str | dict[str, Any], ms: int) -> Scheduler:
    """A gang runs on the two GPU nodes for 8 s; another that would like these comes."""
    one = made(policy, gpus())
    submit(one, gang("first", wishes=Wishes(prefer=(Wish(device="gpu"),))), 24_000)
    assert where(one.handle(Tick(0))) == {"first": ["g0", "g1"]}
    submit(one, gang("second", wishes=GPU_OR_ANY), ms)
    return one


def test_it_waits_for_what_ends_sooner_later() -> None:
    one = busy_gpus("tetrisched", 60_000)  # until 28 s there, until 64 s anywhere
    decisions = one.handle(Tick(4000))
    assert where(decisions) == {}
    assert Hold("second", Reason.PLANNED_LATER) in decisions


def test_it_takes_what_is_there_where_that_ends_sooner() -> None:
    one = busy_gpus("tetrisched", 4_000)  # from 8 s on there, until 8 s anywhere
    assert where(one.handle(Tick(4000))) == {"second": ["p0", "p1"]}


@pytest.mark.parametrize("policy", ["alsched", {"kind": "tetrisched", "plan_ahead_s": 0.0}])
def test_without_plans_ahead_it_takes_what_is_there(policy: str | dict[str, Any]) -> None:
    assert where(busy_gpus(policy, 60_000).handle(Tick(4000))) == {"second": ["p0", "p1"]}


def test_with_hard_preferences_it_takes_its_first_choice_or_nothing() -> None:
    one = busy_gpus({"kind": "tetrisched", "preferences": "hard"}, 10_000)
    assert where(one.handle(Tick(4000))) == {}


def test_without_preferences_all_nodes_are_alike() -> None:
    one = made({"kind": "tetrisched", "preferences": "none"}, gpus()[::-1])
    submit(one, gang("a", wishes=GPU_OR_ANY), 10_000)
    assert where(one.handle(Tick(0))) == {"a": ["p1", "p0"]}


def test_all_together_are_better_off_than_one_by_one() -> None:
    picky = Wishes(prefer=(Wish(device="gpu", worth=9.0),))
    easy = Wishes(prefer=(Wish(device="gpu", worth=6.0), Wish(worth=5.0)))
    for search, expected in (("together", {"easy": ["p0", "p1"], "picky": ["g0", "g1"]}), ("one_by_one", None)):
        one = made({"kind": "alsched", "search": search}, gpus())
        submit(one, gang("easy", wishes=easy), 10_000)
        submit(one, gang("picky", wishes=picky), 10_000)
        assert where(one.handle(Tick(0))) == (expected or {"easy": ["g0", "g1"]})


def test_why_it_waits_is_said_in_a_sentence() -> None:
    one = made("tetrisched", gpus())
    submit(one, gang("first", wishes=Wishes(prefer=(Wish(device="gpu"),))), 24_000)
    one.handle(Tick(0))
    submit(one, gang("second", wishes=Wishes(prefer=(Wish(device="gpu", worth=8.0), Wish(worth=3.0)))), 30_000)
    one.handle(Tick(4000))
    said = one.explain("second").reasons[0].sentence
    assert said.startswith("waits 4 s for 2 places on gpu nodes: worth 7.")
    assert said.endswith("; 2 places on any nodes now are worth 2.4")


def test_wishes_that_can_never_be_had_are_passed_by() -> None:
    one = made("tetrisched", gpus())
    submit(one, gang("a", tasks=3, wishes=Wishes(prefer=(Wish(device="gpu"), Wish(rack="r9")))), 10_000)
    assert where(one.handle(Tick(0))) == {"a": ["g0", "g1", "p0"]}


def test_all_tasks_are_in_one_rack_where_that_is_wished_for() -> None:
    nodes = [node("a0", rack="a"), node("b0", rack="b"), node("b1", rack="b"), node("b2", rack="b")]
    for whole in (True, False):
        one = made("alsched", nodes)
        job = Job(
            id="j",
            stages=(Stage(name="s", tasks=3, demand=(1000, 1024), gang=whole),),
            wishes=Wishes(prefer=(Wish(same_rack=True),)),
        )
        submit(one, job, 10_000)
        assert where(one.handle(Tick(0))) == {"j": ["b0", "b1", "b2"]}


def test_no_two_tasks_are_on_one_node_where_that_is_wished_for() -> None:
    nodes = [node("a", 4), node("b", 4), node("c", 4)]
    for whole in (True, False):
        one = made("tetrisched", nodes)
        job = Job(
            id="j",
            stages=(Stage(name="s", tasks=3, demand=(1000, 1024), gang=whole),),
            wishes=Wishes(prefer=(Wish(spread=True),)),
        )
        submit(one, job, 10_000)
        assert sorted(where(one.handle(Tick(0)))["j"]) == ["a", "b", "c"]


def test_a_way_over_the_budget_is_left_out() -> None:
    slow = Wishes(prefer=(Wish(device="plain", worth=9.0, slowdown=3.0), Wish(device="gpu")), budget_ms=40_000)
    one = made("alsched", gpus(speed=1.0))
    submit(one, gang("a", wishes=slow), 10_000)
    assert where(one.handle(Tick(0))) == {"a": ["g0", "g1"]}


@pytest.mark.parametrize("admission", ["plan", "calendar"])
def test_a_calendar_accepts_in_the_order_of_arrival_and_plans_accept_the_most(admission: str) -> None:
    one = made({"kind": "tetrisched", "admission": admission}, [node("a"), node("b")])
    for name, due in (("first", 12_000), ("second", 8000), ("third", 8000)):
        submit(one, gang(name, deadline=due, wishes=Wishes(value=3.0 if name == "third" else 1.0)), 8000)
    one.handle(Tick(0))
    accepted = {name for name in ("first", "second", "third") if one.explain(name).about == {"accepted": True}}
    assert accepted == ({"third"} if admission == "plan" else {"first"})


def test_an_accepted_deadline_goes_before_what_is_worth_more() -> None:
    one = made("tetrisched", [node("n")])
    submit(one, Job(id="due", stages=(stage(),), deadline=10_500), 10_000)
    submit(one, Job(id="dear", stages=(stage(),), wishes=Wishes(value=1000.0)), 10_000)
    assert where(one.handle(Tick(0))) == {"due": ["n"]}
    assert one.explain("due").about == {"accepted": True}


def test_who_cannot_keep_its_deadline_any_more_runs_as_any_other() -> None:
    one = made("tetrisched", [node("n", 2)])
    submit(one, Job(id="late", stages=(stage(),), deadline=5_000), 10_000)
    assert where(one.handle(Tick(0))) == {"late": ["n"]}
    assert one.explain("late").about == {"accepted": False}


def test_a_stage_that_may_start_piecemeal_fills_what_is_there() -> None:
    one = made("tetrisched", [node("n", 3)])
    submit(one, Job(id="j", stages=(stage(8),)), 10_000)
    assert where(one.handle(Tick(0))) == {"j": ["n", "n", "n"]}


def test_the_plan_that_the_clock_stopped_is_in_the_log_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = bytearray()
    log = Log(lines.extend)
    one = made("tetrisched", gpus(), log=log)
    monkeypatch.setattr(start_plan, "SECONDS", 0.0)
    submit(one, gang("a", wishes=GPU_OR_ANY), 10_000)
    submit(one, gang("b", wishes=GPU_OR_ANY), 10_000)
    one.handle(Tick(0))
    log.flush()
    written = bytes(lines).splitlines()
    ended = [line for line in written if b"SearchEnded" in line]
    assert ended == [b'{"event":"SearchEnded","at":0,"solved":2,"why":"stopped"}']
    monkeypatch.setattr(start_plan, "SECONDS", 60.0)
    assert replay(written) == written


def test_a_window_of_thousands_of_slices_is_refused() -> None:
    with pytest.raises(InvalidParameters) as caught:
        made({"kind": "tetrisched", "plan_ahead_s": 3600.0, "cycle_s": 1.0}, gpus())
    assert str(caught.value) == "plan_ahead_s has 3600 slices of cycle_s 1 (at most 256: cycle_s from 14.0625 on)"


def test_what_ended_greedily_is_a_fact_that_puts_nothing_on_offer() -> None:
    one = made("tetrisched", gpus())
    submit(one, gang("a"), 10_000)
    assert one.handle(SearchEnded(0, 0, "stopped")) == []


@pytest.mark.parametrize("policy", ["alsched", "tetrisched"])
def test_a_job_that_came_after_the_plan_is_told_when_the_next_one_is_made(policy: str) -> None:
    one = made({"kind": policy, "cycle_s": 2.5}, gpus())
    one.handle(Tick(0))
    submit(one, gang("a"), 10_000)
    assert one.explain("a").reasons[0].sentence == (
        "there is room for it, and nothing of it starts by the last plan; the next one is made within 2.5 s"
    )


@pytest.mark.parametrize("policy", ["alsched", "tetrisched"])
def test_a_job_whose_start_waits_for_its_node_to_be_offered_is_said_to_be_planned_now(policy: str) -> None:
    one = scheduler(policy, node("n"), offers="heartbeat", predictor={"kind": "oracle"})
    submit(one, Job(id="a", stages=(stage(1),)), 10_000)
    assert not where(one.handle(Tick(0)))
    assert one.policy.passes_by(one.state.jobs["a"], one.view) == "it is planned to start now"
    assert where(one.handle(Heartbeat(1, "n"))) == {"a": ["n"]}


def test_alsched_never_says_that_it_waits_for_something_later() -> None:
    one = busy_gpus({"kind": "alsched", "preferences": "hard"}, 10_000)
    one.handle(Tick(4000))
    assert Reason.PLANNED_LATER not in [said.reason for said in one.explain("second").reasons]
