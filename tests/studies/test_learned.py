"""The tables of learned policies: their scenarios are valid, and they say what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rm_emulator.scenario.load import load
from studies import learned
from studies.tables import document


def figures(**jcts: tuple[float, ...]) -> dict[str, dict[int, dict[str, Any]]]:
    return {
        label: {seed: {"jct_s": {"mean": mean}, "makespan_s": 2 * mean} for seed, mean in enumerate(means)}
        for label, means in jcts.items()
    }


@pytest.mark.parametrize("setting", [*learned.SETTINGS, *learned.ROBUST], ids=lambda setting: setting.name)
def test_the_scenarios_of_a_setting_are_valid(setting: learned.Setting) -> None:
    compared = learned.compared(setting)
    assert list(compared) == list(dict.fromkeys([*setting.rules, "decima"]))
    for label, policy in compared.items():
        spec = load(learned.scenario(setting, label, policy, 2, Path("data"))).scenario.spec
        assert [policy.label for policy in spec.policies] == [label]
        assert spec.seeds == [1000, 1001]
        assert (spec.policies[0].predictor is not None) == bool(setting.predictor)


def small(**workload: object) -> dict[str, Any]:
    """A scenario of one policy that takes a twentieth of a second."""
    jobs = {"kind": "tpch", "jobs": 2, "arrivals": "batch", "sizes": [2], "queries": [2, 14], "history": 0}
    cluster = {"nodes": [{"count": 4, "capacity": {"cpu": 1, "memory": "2Gi"}}], "profile": "events", "executors": {}}
    return document("small", [1, 2], {"fair": {"kind": "fair"}}, cluster=cluster, workload={**jobs, **workload})


def as_if_by_another_version(out: Path, *, ended_otherwise: bool) -> None:
    for file in out.glob("runs/*/*/cell.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"key": "old", "version": "of then"}))
        if ended_otherwise:
            jobs = pl.read_parquet(file.parent / "jobs.parquet")
            jobs.with_columns(pl.col("finish_ms") + 1).write_parquet(file.parent / "jobs.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("ended_otherwise", [False, True])
def test_runs_of_another_version_are_kept_if_the_first_one_ends_as_it_did(
    tmp_path: Path, ended_otherwise: bool
) -> None:
    out = tmp_path / "fair"
    first = learned.measured(small(), out, 1)
    as_if_by_another_version(out, ended_otherwise=ended_otherwise)
    assert learned.measured(small(), out, 1).keys() == first.keys()
    versions = [json.loads(file.read_text())["version"] for file in out.glob("runs/*/*/cell.json")]
    assert [version == "of then" for version in versions] == [not ended_otherwise] * 2


@pytest.mark.slow
def test_runs_of_another_workload_are_not_kept(tmp_path: Path) -> None:
    first = learned.measured(small(), tmp_path / "fair", 1)
    other = learned.measured(small(jobs=3), tmp_path / "fair", 1)
    assert all(first[seed]["jct_s"] != other[seed]["jct_s"] for seed in first)


def test_differences_are_paired_seed_by_seed() -> None:
    [_, row] = learned.rows(figures(fair=(50.0, 70.0, 90.0), decima=(40.0, 61.0, 91.0)), "fair")
    # -10, -9 and +1: a mean of -6 with Student's t for two degrees of freedom, 4.303 x 6.083 / sqrt(3)
    assert row == ["decima", "3", "64.0", "-6.0 [-21.1, +9.1]", "-8.6", "2 of 3", "128"]


def test_the_baseline_is_held_against_nothing() -> None:
    [row] = learned.rows(figures(fair=(50.0, 70.0)), "fair")
    assert row == ["fair", "2", "60.0", "", "", "", "120"]


def test_the_way_goes_from_capped_sjf_to_the_replanned_reference() -> None:
    made = learned.rows(
        figures(priced=(99.0, 197.0), capped_sjf=(100.0, 200.0), curves=(90.55, 190.55)), "priced", way=True
    )
    assert [row[-1] for row in made] == ["21", "0", "100"]


def test_the_page_has_the_tables_of_its_settings() -> None:
    made = learned.page("{{ seeds.batch }} seeds\n{{ tables.batch }}\n", {"batch": "| a |"}, {"batch": 3})
    assert made == "3 seeds\n| a |\n"


def test_the_ways_that_were_tried_have_their_curves() -> None:
    config = {"method": "evolution", "network": "released", "start": "w", "cloning": None}
    curve = [{"score": 1.02}, {"score": 1.01}]
    tried = {"name": "es", "config": config, "iterations": 8, "elapsed_s": 600, "curve": curve, "note": "no better"}
    [cells] = learned.ways({"runs": [], "tried": [tried]})
    way = "evolution strategies, network released"
    assert cells == ["es", way, "w", "8", "10", "1.020 → 1.010: no better"]


@pytest.mark.parametrize("names", [["batch", "stream"], [setting.name for setting in learned.SETTINGS]])
def test_the_page_of_docs_shows_what_was_measured_and_nothing_else(names: list[str]) -> None:
    template = (Path(__file__).parents[2] / "docs" / "results-learned.in.md").read_text(encoding="utf-8")
    made = learned.page(template, {name: f"| {name} |" for name in names}, dict.fromkeys(names, 7))
    assert [setting.name for setting in learned.SETTINGS if f"| {setting.name} |" in made] == names
    assert ("## What was not trained for" in made) == (len(names) > 2)
    assert "{%" not in made
