"""Policy `rayon`: who is accepted, what a reservation is worth while it lasts, and what remains of it afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator import api
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.scheduler import Scheduler

#: A monitor that takes at once all that is wanted.
AT_ONCE: dict[str, Any] = {
    "enabled": True,
    "period_ms": 1000,
    "max_wait_before_kill_ms": 0,
    "total_per_round": 1.0,
    "natural_termination_factor": 1.0,
}


def entry(name: str, tasks: int, duration: str, submit: str = "0s", deadline: str | None = None) -> dict[str, Any]:
    """A job, a gang if it has a deadline."""
    due = {} if deadline is None else {"deadline": deadline}
    stage = {"name": "s", "tasks": tasks, "gang": deadline is not None, "demand": {"cpu": 1}, "duration": duration}
    return {"name": name, "submit": submit, "stages": [stage], **due}


class Run:
    """Jobs on four nodes with room for a task each. error: of all estimates, relative; faults: as in a scenario; the
    rest: of the policy.
    """

    def __init__(
        self, *jobs: dict[str, Any], error: float = 0.0, faults: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        policy = {"kind": "rayon", "predictor": {"kind": "oracle", "error": [error, error]}, **settings}
        spec = {
            "cluster": {
                "profile": "events",
                "nodes": [{"count": 4, "racks": 2, "capacity": {"cpu": 1}}],
                **({"faults": faults} if faults else {}),
            },
            "workload": {"kind": "jobs", "jobs": list(jobs)},
            "policies": [policy],
        }
        head = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "rayon"}}
        self.accepted: dict[str, bool] = {}
        ended = api.play({**head, "spec": spec}, watch=self._watch).jobs
        self.starts = dict(ended.select("name", "first_start_ms").iter_rows())
        self.ends = dict(ended.select("name", "finish_ms").iter_rows())

    def _watch(self, scheduler: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        decisions = decide(event)
        for job in scheduler.state.jobs.values():
            said = scheduler.policy.about(job)
            if "accepted" in said:
                self.accepted[job.spec.name] = said["accepted"]
        return decisions


CROWD = entry("crowd", 100, "1s")


def test_a_reserved_gang_starts_in_its_time_though_earlier_tasks_wait() -> None:
    run = Run(CROWD, entry("due", 3, "10s", deadline="20s"), padding=0.1)
    assert run.accepted == {"due": True}
    assert run.ends["due"] <= 20_000 < run.ends["crowd"]


def test_nobody_but_the_jobs_before_it_keeps_a_gang_waiting_for_idle_room() -> None:
    run = Run(entry("due", 3, "10s", deadline="60s"))
    assert run.starts["due"] == 0  # reserved from 50 s on


@pytest.mark.parametrize(("monitor", "met"), [({}, False), (AT_ONCE, True)], ids=["without preemption", "with it"])
def test_long_tasks_make_way_only_under_preemption(monitor: dict[str, Any], met: bool) -> None:
    jobs = entry("long", 4, "100s"), entry("due", 3, "10s", submit="1s", deadline="30s")
    assert (Run(*jobs, padding=0.5, preemption=monitor).ends["due"] <= 31_000) is met


def test_of_two_gangs_for_the_same_time_the_second_is_rejected_and_runs_afterwards() -> None:
    jobs = entry("first", 3, "10s", deadline="15s"), entry("second", 3, "10s", submit="1ms", deadline="15s")
    run = Run(*jobs)
    assert run.accepted == {"first": True, "second": False}
    assert run.starts["second"] == run.ends["first"]


def test_a_job_that_outlives_its_reservation_makes_way_for_the_next() -> None:
    jobs = entry("longer", 3, "40s", deadline="21s"), entry("next", 3, "20s", submit="1ms", deadline="60s")
    run = Run(*jobs, error=-0.5, fit="earliest", preemption=AT_ONCE)
    assert run.accepted == {"longer": True, "next": True}
    assert 20_000 <= run.starts["next"] < 25_000
    assert run.ends["longer"] > 60_000  # its tasks begin anew


def test_a_job_that_ends_early_gives_the_rest_of_its_time_back() -> None:
    jobs = entry("shorter", 3, "10s", deadline="21s"), entry("next", 3, "10s", submit="12s", deadline="22s")
    assert Run(*jobs, error=1.0).accepted == {"shorter": True, "next": True}


def test_a_time_too_short_for_the_wrong_estimate_is_rejected() -> None:
    jobs = (entry("due", 3, "10s", deadline="15s"),)
    assert [Run(*jobs, error=error).accepted["due"] for error in (0.0, 1.0)] == [True, False]


def test_a_reservation_is_for_the_time_on_the_slowest_of_the_wished_nodes() -> None:
    slow = {**entry("due", 3, "10s", deadline="15s"), "wishes": {"prefer": [{"same_rack": True}, {"slowdown": 2}]}}
    assert Run(slow).accepted == {"due": False}


def test_a_reservation_outlasts_the_loss_of_all_nodes() -> None:
    down = {"schedule": [{"at": "8s", "for": "4s", "node": f"n{number}"} for number in range(1, 5)]}
    run = Run(CROWD, entry("due", 3, "10s", submit="5s", deadline="40s"), error=0.5, fit="earliest", faults=down)
    assert run.accepted == {"due": True}
    assert 12_000 <= run.starts["due"] + 10_000 <= run.ends["due"] < run.ends["crowd"]
