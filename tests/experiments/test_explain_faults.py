"""The story of a job in a cluster that breaks: which fault lost an attempt, and which fault a wait is due to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.api import API_VERSION
from rm_emulator.results.story import Story, clock

pytestmark = pytest.mark.usefixtures("no_report")


def job(name: str, tasks: int, duration: str, cpu: int = 1, **more: Any) -> dict[str, Any]:
    stage = {"name": "m", "tasks": tasks, "demand": {"cpu": cpu}, "duration": duration}
    return {"name": name, "stages": [stage], **more}


def told(
    folder: Path,
    jobs: list[dict[str, Any]],
    of: str,
    faults: dict[str, Any],
    profile: str = "yarn",
    nodes: Sequence[int] = (1,),
) -> Story:
    """The story of a job under `fifo`; nodes: the cpu of each."""
    machines = [{"count": 1, "name": f"n{number}", "capacity": {"cpu": cpu}} for number, cpu in enumerate(nodes, 1)]
    spec = {
        "cluster": {"profile": profile, "nodes": machines, "faults": faults},
        "workload": {"kind": "jobs", "jobs": jobs},
        "policies": [{"kind": "fifo"}],
    }
    scenario = {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "faulty"}, "spec": spec}
    return rm_emulator.explain(rm_emulator.run(scenario, out=folder / "out"), of).story


def texts(story: Story, kind: str) -> list[str]:
    return [moment.text for moment in story.moments if moment.kind == kind]


def sentences(story: Story) -> list[str]:
    return [part.sentence for wait in story.waits for part in wait.parts]


def at(minute: int, node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"schedule": [{"at": f"{minute}m", "node": node, **more}]}


def test_a_death_is_told_when_it_happens_and_again_when_it_is_noticed(tmp_path: Path) -> None:
    story = told(tmp_path, [job("a", 1, "30m")], "a", at(5, **{"for": "1h"}))
    # Dead at 5 m; the first check beyond 600 s of silence is at 16 m 40 s. Started at 1 s.
    assert texts(story, "nodes") == [
        "node n1 dies with task m/0 of it, and nobody notices yet",
        "node n1 (dead since 5 m 00 s) is lost: 0 nodes take tasks",
        "node n1 is there: 1 node takes tasks",
    ]
    assert texts(story, "lost") == [
        "task m/0 is lost with node n1 (dead since 5 m 00 s) after running for 4 m 59 s; it waits again"
    ]


def test_a_task_that_seems_to_run_on_a_dead_node_does_not_count_as_running(tmp_path: Path) -> None:
    story = told(tmp_path, [job("a", 1, "30m")], "a", at(5, **{"for": "1h"}))
    dead = next(wait for wait in story.waits if wait.from_ms == 300_000)
    assert (dead.to_ms, dead.idle_ms) == (1_000_000, 700_000)
    assert [(part.reason, part.ms) for part in dead.parts] == [("on_dead_node", 700_000)]
    assert dead.parts[0].sentence == "task m/0 seems to run on n1 (dead since 5 m 00 s) and is not given up yet"
    assert story.ran_ms < 299_000 + 1_801_000


def test_room_on_nodes_that_are_out_is_named_with_kind_and_time(tmp_path: Path) -> None:
    story = told(tmp_path, [job("a", 1, "30m")], "a", at(5, kind="unhealthy", **{"for": "1h"}))
    assert "the cluster has no node that takes containers; out of use: n1 (unhealthy since 5 m 00 s)" in sentences(
        story
    )


def test_a_drained_node_is_named_too(tmp_path: Path) -> None:
    jobs = [job("a", 2, "30m"), job("b", 1, "1m", submit="6m")]
    story = told(tmp_path, jobs, "b", at(5, kind="drain", **{"for": "2h"}), nodes=(1, 1))
    (first, *_) = sentences(story)
    assert "1 draining" in first
    assert "; out of use: n1 (drained since 5 m 00 s)" in first


def test_room_held_on_a_dead_node_is_named_before_anybody_notices(tmp_path: Path) -> None:
    jobs = [job("a", 2, "30m"), job("b", 1, "1m", submit="6m")]
    story = told(tmp_path, jobs, "b", at(5, **{"for": "1h"}), nodes=(1, 1))
    unseen, seen = sentences(story)[:2]
    assert "; nobody has noticed yet: n1 (dead since 5 m 00 s), where 1 cpu stays held" in unseen
    assert "; out of use: n1 (dead since 5 m 00 s)" in seen
    assert "noticed" not in seen


def test_a_node_too_small_for_the_job_is_not_blamed(tmp_path: Path) -> None:
    jobs = [job("a", 1, "30m", cpu=8), job("b", 1, "1m", cpu=8, submit="6m")]
    story = told(tmp_path, jobs, "b", at(5, kind="unhealthy", **{"for": "3h"}), nodes=(1, 8))
    assert sentences(story)
    assert not any("out of use" in sentence for sentence in sentences(story))


def test_a_silent_node_that_is_heard_again_ends_the_blame(tmp_path: Path) -> None:
    jobs = [job("a", 1, "30m"), job("b", 1, "1m", submit="2m")]
    story = told(tmp_path, jobs, "b", at(5, kind="silent", **{"for": "5m"}))
    silent = next(wait for wait in story.waits if wait.from_ms == 300_000)
    assert silent.to_ms == 600_000
    assert "; nobody has noticed yet: n1 (unheard since 5 m 00 s), where 1 cpu stays held" in silent.parts[0].sentence
    assert "noticed" not in story.waits[-1].parts[0].sentence
    assert texts(story, "nodes") == ["node n1 falls silent, and nobody notices yet", "node n1 is heard again"]


def test_a_death_noticed_at_once_is_told_once(tmp_path: Path) -> None:
    story = told(tmp_path, [job("a", 1, "30m")], "a", at(5, **{"for": "1h"}), profile="events")
    assert texts(story, "nodes") == [
        "node n1 (dead since 5 m 00 s) is lost: 0 nodes take tasks",
        "node n1 is there: 1 node takes tasks",
    ]


def test_a_failure_names_attempt_code_and_time_and_its_stage_backs_off(tmp_path: Path) -> None:
    faults = {"tasks": {"probability": 1.0, "attempts": 3, "backoff": "1m"}}
    story = told(tmp_path, [job("a", 1, "10s")], "a", faults, profile="events")
    first, second, _ = texts(story, "lost")
    assert first.startswith("task m/0 fails (exit code 1) after running for ")
    assert second.startswith("task m/0, attempt 2, fails (exit code 1) after running for ")
    off = [wait for wait in story.waits if wait.parts[0].reason == "waits_for_ask"]
    assert [wait.to_ms - wait.from_ms for wait in off] == [60_000, 120_000]
    failed = [moment.at_ms for moment in story.moments if moment.kind == "lost"]
    assert off[0].parts[0].sentence == f"stage m backs off since {clock(failed[0])}, when task m/0 ended early"
    assert "stage m asks for tasks again after 1 m 00 s" in texts(story, "stage")
    assert story.ended_early == 3


def test_an_attempt_that_hung_is_told_apart_from_one_that_failed(tmp_path: Path) -> None:
    faults = {"tasks": {"hangs": 1.0, "watchdog": "10m", "attempts": 2}}
    story = told(tmp_path, [job("a", 1, "10s")], "a", faults, profile="events")
    hung = texts(story, "lost")[0]
    assert hung.startswith("task m/0 hung and is ended by the watchdog (exit code -105) after running for 10 m 0")


def test_attempts_lost_together_share_a_moment(tmp_path: Path) -> None:
    story = told(tmp_path, [job("a", 8, "10m")], "a", at(5, **{"for": "1h"}), profile="events", nodes=(4, 4))
    (lost,) = texts(story, "lost")
    assert lost.endswith(
        "is lost with node n1 (dead since 5 m 00 s) after running for 5 m 00 s, and 3 others likewise "
        "(20 m 00 s in all); they wait again"
    )
    assert (story.ended_early, story.in_vain_ms) == (4, 4 * 300_000)
