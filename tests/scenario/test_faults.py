"""The block `faults` of a scenario: presets, racks, tables, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rm_emulator.engine.config import Faults
from rm_emulator.experiments.resolved import resolved
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario import without_effect
from rm_emulator.scenario.check import check
from rm_emulator.scenario.cluster import engine_config, resources_of
from rm_emulator.scenario.load import load
from rm_emulator.workload.model import Fixed

HOUR = 3_600_000
STAGE = {"name": "s", "tasks": 2, "duration": "30m", "demand": {"cpu": 1}}
INLINE = {"kind": "jobs", "jobs": [{"name": "a", "stages": [STAGE]}]}


def scenario(faults: Any, *, until: str | None = None, workload: Any = None, **cluster: Any) -> dict[str, Any]:
    nodes = [{"count": 6, "capacity": {"cpu": 8, "memory": "32Gi"}, "racks": 2}]
    spec = {
        "cluster": {"nodes": nodes, "faults": faults, **cluster},
        "workload": workload or {"kind": "synthetic", "preset": "2sigma-like", "jobs": 5},
        "policies": [{"kind": "fifo"}],
    }
    if until is not None:
        spec["until"] = until
    return {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "f"}, "spec": spec}


def faults_of(faults: Any, **more: Any) -> Faults:
    read = load(scenario(faults, **more)).scenario
    made = engine_config(read, resources_of(read)).faults
    assert made is not None
    return made


def mistakes(faults: Any, **more: Any) -> str:
    with pytest.raises(InvalidInput) as found:
        check(load(scenario(faults, **more)))
    return str(found.value)


def test_restarts_are_read_from_times_with_units() -> None:
    made = faults_of({"restarts": [{"at": "10m", "for": "30s"}]})
    assert [(each.at_ms, each.lasts_ms) for each in made.restarts] == [(600_000, 30_000)]


def test_no_leader_on_kubernetes_forgets_jobs() -> None:
    said = mistakes({"restarts": [{"at": "1m", "for": "1s", "recovery": False}]}, profile="kubernetes")
    assert "restarts without recovery do not go with profile 'kubernetes'" in said


def test_a_restart_after_the_end_is_refused() -> None:
    said = mistakes({"restarts": [{"at": "1m", "for": "1s"}]}, until="30s")
    assert "restarts[0].at: 1m is after the end of the run (`until: 30s`)" in said


def test_a_rack_fails_with_all_its_nodes() -> None:
    made = faults_of({"schedule": [{"at": "10m", "rack": "rack2", "for": "2h", "kind": "unhealthy"}]})
    assert [(each.node, each.at_ms, each.lasts_ms, each.kind) for each in made.outages] == [
        (node, 600_000, 2 * HOUR, "unhealthy") for node in ("n4", "n5", "n6")
    ]


def test_a_preset_gives_rates_and_says_when_nodes_are_back() -> None:
    rates = faults_of({"preset": "gpu-2024"}).nodes
    assert rates is not None
    assert rates.lemons is not None
    assert (rates.per_1000_node_days, rates.lemons.share, rates.lemons.times) == (4.0, 0.03, 10.0)
    assert not isinstance(rates.repair, Fixed)
    half = 3**0.5 * rates.repair.cov * rates.repair.mean_ms
    assert (rates.repair.mean_ms - half, rates.repair.mean_ms + half) == pytest.approx((HOUR, 4 * HOUR))


def test_a_table_of_faults_is_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text("node,from,to,kind\nn1,10m,1h10m,\nn2,90,,drain\n")
    text = str(scenario({"trace": "failures.csv"})).replace("'", '"')
    (tmp_path / "s.yaml").write_text(text)
    read = load(tmp_path / "s.yaml").scenario
    made = engine_config(read, resources_of(read)).faults
    assert made is not None
    assert [(each.node, each.at_ms, each.lasts_ms, each.kind) for each in made.outages] == [
        ("n1", 600_000, HOUR, "death"),
        ("n2", 90_000, None, "drain"),
    ]


def test_a_resolved_scenario_has_the_lines_of_its_table_of_faults(tmp_path: Path) -> None:
    file = tmp_path / "failures.csv"
    file.write_text("node,from,to,kind\nn1,10m,1h10m,\nn2,90.5,,drain\n")
    given = scenario({"trace": str(file), "schedule": [{"at": "1m", "node": "n3"}]})
    before = load(given)
    data = resolved(before)
    made = engine_config(before.scenario, resources_of(before.scenario)).faults
    file.unlink()
    after = load(data).scenario
    assert "trace" not in data["spec"]["cluster"]["faults"]
    assert engine_config(after, resources_of(after)).faults == made


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({}, "nothing breaks"),
        ({"schedule": [{"at": "1m"}]}, "names either a `node` or a `rack`"),
        ({"schedule": [{"at": "1m", "node": "n1", "rack": "rack1"}]}, "names either a `node` or a `rack`"),
        ({"schedule": [{"at": "1m", "node": "n1", "kind": "slow"}]}, "`times` above 1, and"),
        ({"schedule": [{"at": "1m", "node": "n1", "times": 2}]}, "`times` above 1, and"),
        ({"schedule": [{"at": "1m", "node": "n1", "for": 0}]}, "expected a duration above zero"),
        ({"schedule": [{"at": "1m", "node": "n7"}]}, "schedule[0].node: no node 'n7' in this cluster (nodes: n1, n2"),
        ({"schedule": [{"at": "1m", "rack": "rac1"}]}, "did you mean 'rack1'"),
        ({"schedule": [{"at": "1m", "node": "n1", "kind": "dead"}]}, "did you mean 'death'"),
        ({"tasks": {}}, "expected per_hour, probability, hangs or stragglers"),
        ({"tasks": {"per_hour": 1, "probability": 0.1}}, "tasks.probability: a second rate"),
        ({"tasks": {"hangs": 0.1, "watchdog": 0}}, "expected a duration above zero"),
        ({"tasks": {"probability": 1.5}}, "probability: 1.5 is not accepted"),
        ({"tasks": {"per_hour": 1, "attempts": 0}}, "attempts: 0 is not accepted"),
        ({"preset": "cpu", "nodes": {"per_1000_node_days": 1, "repair": "1h"}}, "nodes: a second set of rates"),
        ({"preset": "gpu"}, "'gpu' is not accepted"),
        ({"nodes": {"per_1000_node_days": 0, "repair": "1h"}}, "per_1000_node_days: 0 is not accepted"),
        ({"nodes": {"per_1000_node_days": 4, "repair": 0}}, "`repair` is 0"),
        ({"nodes": {"per_1000_node_days": 4}}, "repair"),
        ({"checkpoints": {"every": "1h"}}, "nothing breaks"),
        ({"preset": "cpu", "checkpoints": {"every": 0}}, "expected a duration above zero"),
        ({"preset": "cpu", "checkpoints": {"cost": "1s"}}, "checkpoints.every: 'every' is missing"),
        ({"restarts": [{"at": "1m"}]}, "restarts[0].for: 'for' is missing"),
        ({"restarts": [{"at": "1m", "for": 0}]}, "expected a duration above zero"),
        ({"restarts": [{"at": "5m", "for": "1m"}, {"at": "1m", "for": "5m"}]}, "during a restart that lasts until 6m"),
        ({"masters": {"keep_containers": True}}, "masters: no master fails (expected per_hour above 0"),
        ({"masters": {"per_hour": 1, "attempts": 0}}, "attempts: 0 is not accepted"),
        ({"masters": {"per_hour": 1, "hangs": 2}}, "hangs: 2 is not accepted"),
        ({"trace": "none.csv"}, "cannot be read as a table of faults"),
    ],
)
def test_a_mistake_is_named_with_its_place(faults: Any, words: str) -> None:
    assert words in mistakes(faults)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"until": "30s"}, "1m is after the end of the run (`until: 30s`)"),
    ],
)
def test_what_faults_do_not_go_with_yet_is_refused(more: dict[str, Any], words: str) -> None:
    assert words in mistakes({"schedule": [{"at": "1m", "node": "n1"}]}, **more)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("node,to\nn1,2\n", 1, "no column 'from'"),
        ("node,from\nn8,2\n", 2, "no node 'n8'"),
        ("node,from,to\nn1,2m,1m\n", 2, "'to' '1m' is not after 'from' '2m'"),
        ("node,from,to\nn1,soon,1m\n", 2, "not a duration: 'soon'"),
        ("node,from,to,kind\nn1,1,2,death\nn1,4,5,slow\n", 3, "expected death, silent, unhealthy, drain"),
        ("node,from,to,kind\n\x00\n", 2, "no node"),
    ],
)
def test_a_table_of_faults_names_the_line_of_a_mistake(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "failures.csv"
    file.write_text(text)
    said = mistakes({"trace": str(file)})
    assert words in said
    assert f"failures.csv:{line}" in said


def notes(faults: Any, **more: Any) -> list[str]:
    read = load(scenario(faults, workload=INLINE, **more))
    return list(without_effect.notes(read, check(read).workload))


def test_masters_fail_where_they_have_containers() -> None:
    at_yarn = {"profile": "yarn", "workload": INLINE}
    assert "need application masters in containers of their own" in mistakes({"masters": {"per_hour": 1}}, **at_yarn)
    elsewhere = mistakes({"masters": {"per_hour": 1}}, profile="events")
    assert "masters: no master fails under profile 'events' (expected sls or yarn)" in elsewhere
    made = faults_of({"masters": {"per_hour": 1}}, application_master={"container": {"cpu": 1}}, **at_yarn)
    assert made.masters is not None
    assert made.masters.attempts == 2


def test_rates_without_any_fault_in_a_run_are_noted() -> None:
    rare, often = ({"per_1000_node_days": rate, "repair": "1h"} for rate in (0.01, 1e6))
    (said,) = notes({"nodes": rare})
    assert said.startswith("`faults` probably without effect on nodes: the first fault comes at")
    (said,) = notes({"nodes": rare}, until="1d")
    assert "before `until: 1d`" in said
    assert notes({"nodes": often}) == notes({"nodes": often}, until="1d") == []
