"""Finished runs of the emulator pass the validator of schedules, and one that was changed does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rm_emulator
from rm_emulator.known_answers.emulated import finished
from rm_emulator.known_answers.schedules import violations
from schedulers.core import abilities
from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions
from schedulers.policies.fifo import Fifo

pytestmark = pytest.mark.usefixtures("no_report")

NODES = [
    {"name": "n1", "capacity": {"cpu": 1}, "rack": "a"},
    {"name": "n2", "capacity": {"cpu": 2}, "rack": "a", "speed": 2},
    {"name": "n3", "capacity": {"cpu": 2}, "speed": 1.3},
]
LINKS = {"rate": "1Mi", "in_rack": "8Mi", "between": {"n1": {"n3": "100Ki"}}}
STAGES = [
    {"name": "map", "tasks": 5, "duration": "10s", "demand": {"cpu": 1}},
    {"name": "side", "tasks": 1, "duration": {"by_node": {"n1": "7s", "n2": "3s", "n3": "5s"}}, "demand": {"cpu": 2}},
    {
        "name": "join",
        "tasks": 3,
        "duration": "4s",
        "demand": {"cpu": 1},
        "parents": [{"stage": "map", "data": "40Mi"}, "side"],
    },
]


class Copying(Fifo, abilities.Copies):
    """Copies whatever has begun wherever there is room, before it starts anything."""

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        for live in list(view.jobs.values()):
            for part in live.stages:
                for task in range(part.tasks):
                    for there in list(offer.nodes or view.nodes.values()):
                        if view.may_copy(live, part, task, there):
                            yield Suggestion(live.id, part.index, node=there.id, task=task, copy=True)
        yield from super().schedule(view, offer)


def run(out: Path, profile: str, copies: dict[str, Any] | None = None, **workload: Any) -> Path:
    jobs = [{"name": f"j{number}", "submit": f"{number}s", "stages": STAGES} for number in range(4)]
    scenario = {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "validated"},
        "spec": {
            "cluster": {"nodes": NODES, "profile": profile, "links": LINKS},
            "workload": workload or {"kind": "jobs", "jobs": jobs},
            "policies": [{"label": "fifo", "kind": Copying if copies else "fifo"}],
            **({"copies": copies} if copies else {}),
        },
    }
    rm_emulator.run(scenario, out=out)
    return out


@pytest.mark.parametrize("profile", ["events", "yarn", "sls", "kubernetes"])
@pytest.mark.drawn(of=4)
def test_a_run_with_transfers_is_a_schedule(tmp_path: Path, profile: str) -> None:
    problem, runs = finished(run(tmp_path / "out", profile), "fifo", 1)
    assert len(runs) == 36
    assert violations(problem, runs) == []


@pytest.mark.parametrize("others", ["run", "end"])
@pytest.mark.drawn(of=2)
def test_a_run_with_copies_is_a_schedule(tmp_path: Path, others: str) -> None:
    problem, runs = finished(run(tmp_path / "out", "events", {"max": 3, "others": others}), "fifo", 1)
    assert any(each.copy for each in runs)
    assert violations(problem, runs) == []


def test_a_run_of_random_dags_is_a_schedule(tmp_path: Path) -> None:
    problem, runs = finished(run(tmp_path / "out", "events", kind="dags", jobs=3), "fifo", 1)
    assert problem.edges
    assert violations(problem, runs) == []


def test_a_task_that_started_before_its_data_came_is_found(tmp_path: Path) -> None:
    folder = run(tmp_path / "out", "events")
    table = folder / "runs/fifo/1/tasks.parquet"
    early = pl.when(pl.col("stage") == 2).then(3000).otherwise(0)
    frame = pl.read_parquet(table)
    frame.with_columns(
        (pl.col("started_ms") - early).cast(frame.schema["started_ms"]),
        (pl.col("ended_ms") - early).cast(frame.schema["ended_ms"]),
    ).write_parquet(table)
    assert any("what it needs of task" in wrong for wrong in violations(*finished(folder, "fifo", 1)))
