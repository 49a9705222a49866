"""The DAG experiment of SLearn's section 6: its scenario is valid, and its tables hold the paper's figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rm_emulator import api
from rm_emulator.scenario.load import load
from studies import chains, tables


def test_the_scenario_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(chains.scenario([1, 2])))
    assert [policy.label for policy in load(path).scenario.spec.policies] == list(chains.POLICIES)


def test_the_paper_s_figures_are_about_policies_of_the_study() -> None:
    assert {*chains.PAPER, *chains.PAPER_ERROR} <= set(chains.POLICIES)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> api.Results:
    folder = tmp_path_factory.mktemp("chains")
    return tables.run(chains.scenario([1], jobs=10), folder / "runs", 1, progress=False)


def test_the_speedups_stand_beside_the_paper_s(measured: api.Results) -> None:
    rows = chains.speedups(measured).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {label}" for label in chains.POLICIES if label != "slearn_dag"]
    assert [row.split(" | ")[-1] for row in rows[:3]] == ["1.26 |", "1.74 |", "2.15 |"]


def test_the_errors_stand_beside_the_paper_s(measured: api.Results) -> None:
    rows = {row.split(" | ")[0]: row.split(" | ")[-1] for row in chains.errors(measured).splitlines()[2:]}
    assert rows["| slearn_dag"] == "33.9 |"
    assert rows["| three_sigma_dag"] == "47.2 |"
    assert rows["| oracle"] == "- |"
