"""Sampling against history: the scenarios are valid, and the tables say what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from rm_emulator.scenario.load import load
from studies import slearn, slearn_tables
from studies.tables import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", slearn.EXPERIMENTS)
def test_every_scenario_is_valid_and_has_its_baseline(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(slearn.scenario(name, [1, 2])))
    spec = load(path).scenario.spec
    assert spec.baseline in [policy.label for policy in spec.policies]


@pytest.mark.parametrize("trace", slearn_tables.PAPER)
def test_the_paper_s_figures_are_about_policies_and_traces_of_the_study(trace: str) -> None:
    assert any(slearn_tables.trace_of(name) == trace for name in slearn.EXPERIMENTS)
    assert set(slearn_tables.PAPER[trace]) <= {*slearn.POLICIES, *slearn.DAG_POLICIES}


def test_the_page_in_the_docs_has_a_part_for_every_workload() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for name, of in slearn.EXPERIMENTS.items():
        if not name.endswith(("-settings", "-occupancy")):
            assert f"### {name}\n" in page, of


class _Runs:
    """Rows of jobs and tasks as of a run of seed 1 under both predictors, and no more."""

    def __init__(self, jobs: Mapping[str, list[dict[str, Any]]], tasks: Mapping[str, list[dict[str, Any]]]) -> None:
        self.by_label = {label: {1: {"queue_placement": {"over": 0.25, "under": 0.25}}} for label in jobs}
        self.jobs, self.tasks = (
            pl.DataFrame([{"label": label, "seed": 1, **row} for label, rows in of.items() for row in rows])
            for of in (jobs, tasks or jobs)
        )


def _runs(jobs: Mapping[str, list[dict[str, Any]]], tasks: Mapping[str, list[dict[str, Any]]] | None = None) -> Any:
    return _Runs(jobs, tasks or {})


def test_places_count_over_and_under_estimated_wide_jobs() -> None:
    estimates = [
        {"bin": "wide_small", "size_ms": 2e6, "work_ms": 500_000},  # over by 300 %
        {"bin": "wide_small", "size_ms": 900_000.0, "work_ms": 600_000},  # over by 50 %
        {"bin": "wide_small", "size_ms": 500_000.0, "work_ms": 1_000_000},  # under by 50 %
        {"bin": "wide_small", "size_ms": 400_000.0, "work_ms": 400_000},
        {"bin": "thin_large", "size_ms": 1.0, "work_ms": 10**9},
    ]
    rows = slearn_tables.place_rows(_runs(dict.fromkeys(slearn_tables.PAPER_PLACES, estimates)))
    assert rows[0] == ["three_sigma", "50.0", "25.0", "175.0", "175.0", "25.0", "25.0", "-50.0", "-50.0"]
    assert rows[1][1] == "59.8"


def test_waits_are_by_the_mean_task_and_a_part_counts_jobs_in_it_under_both() -> None:
    jobs = [{"id": name, "bin": "wide_small", "submit_ms": 0} for name in "ab"]

    def tasks(a: int, b: int) -> list[dict[str, Any]]:
        """A task of 100 ms of each job, which starts so late."""
        return [{"job": name, "started_ms": at, "ended_ms": at + 100} for name, at in (("a", a), ("b", b))]

    both = _runs({"slearn": jobs, "three_sigma": jobs}, {"slearn": tasks(2, 300), "three_sigma": tasks(3, 400)})
    assert slearn_tables.wait_rows(both) == [
        ["below 0.04", "50.0", "36.6", "50.0", "100.0", "-"],
        ["0.04 to 1.9", "0.0", "30.5", "0.0", "0.0", "29.8"],
        ["above 1.9", "50.0", "32.9", "50.0", "100.0", "83.1"],
    ]


def test_a_job_s_window_ends_with_its_own_arrival() -> None:
    times = {"submit_ms": [0, 500_000, 2_000_000], "work_ms": [500_000, 3_000_000, 10_000_000]}

    def jobs(factor: float) -> list[dict[str, Any]]:
        return [
            {"id": f"{i}", "submit_ms": at, "work_ms": work, "jct_s": factor * (i + 1)}
            for i, (at, work) in enumerate(zip(times["submit_ms"], times["work_ms"], strict=True))
        ]

    rows = slearn_tables.window_rows(_runs({"slearn": jobs(1.0), "three_sigma": jobs(2.0)}), slots=2)
    assert [row[:3] for row in rows] == [  # loads of 0.25, 1.75 and 5
        ["below 1", "33.3", "2.00"],
        ["1 to 3", "33.3", "2.00"],
        ["above 3", "33.3", "2.00"],
    ]


def test_sizes_by_occupancy_are_held_against_those_by_run_times_seed_by_seed() -> None:
    both = _runs({"slearn": [], "slearn_occupancy": [], "las": []})
    for label, means in (("slearn", (10.0, 20.0)), ("slearn_occupancy", (9.0, 18.0)), ("las", (30.0, 30.0))):
        both.by_label[label] = {seed: {"jct_s": {"mean": mean}} for seed, mean in enumerate(means, 1)}
    assert slearn_tables.occupancy_rows(both) == [["slearn", "0.90 [0.90, 0.90]"]]


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_page_holds_the_measured_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, jobs = "google11-like", {**slearn.synthetic("google11-like"), "jobs": 20}
    few = {label: slearn.POLICIES[label] for label in ("slearn", "three_sigma", "oracle", "posterior")}
    settings = {label: slearn.SETTINGS[label] for label in ("slearn", "percent_1", "thin_2")}
    small = {name: slearn.Experiment(jobs, few), f"{name}-settings": slearn.Experiment(jobs, settings)}
    monkeypatch.setattr(slearn, "EXPERIMENTS", small)
    percents = {1: (14.4, 1.52, 1.0), None: (13.7, 1.56, 1.0)}
    monkeypatch.setattr(slearn_tables, "PAPER_PERCENTS", {"google11": percents})
    monkeypatch.setattr(slearn_tables, "PAPER_THIN", {"google11": {2: 1.54, 3: 1.56}})
    measured = {each: run(slearn.scenario(each, [1, 2]), tmp_path / each, 1, progress=False) for each in small}
    template = (
        "{{ seeds('google11-like') }} seeds\n{{ speedups('google11-like') }}\n{{ best }}\n"
        "{{ accuracy('google11-like') }}\n{{ thin }}\n{{ percents }}\n"
        "{{ bins('google11-like') }}\n{{ load('google11-like') }}"
    )
    page = slearn.page(measured, template)
    assert page.startswith("2 seeds\n| over | ratio of means | mean of ratios | p50 of ratios | paper |")
    assert "1.56 (P50 1.00) |" in page
    assert "86.5 / 13.7 / 50.0 |" in page
    assert "| google11-like | adaptive |" in page
    assert "| thin and small |" in page
