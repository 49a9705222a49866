"""Decima's batch setting: its scenario is valid, and its table says what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rm_emulator.experiments import api
from rm_emulator.scenario.load import load
from studies import decima


@pytest.mark.parametrize("grid", [False, True])
def test_the_scenario_is_valid(tmp_path: Path, grid: bool) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(decima.scenario([1000, 1001], grid=grid)))
    labels = [policy.label for policy in load(path).scenario.spec.policies]
    assert labels[: len(decima.POLICIES)] == list(decima.POLICIES)
    assert len(labels) == len(decima.POLICIES) + (len(decima.ALPHAS) if grid else 0)


def test_there_is_a_released_figure_for_every_policy() -> None:
    assert set(decima.RELEASED) == {*decima.POLICIES, "best alpha"}


def test_ratios_are_paired() -> None:
    found = {"fair": {1: 100.0, 2: 200.0}, "fifo": {1: 250.0, 2: 520.0}}
    [_, fifo] = decima.rows(found)
    assert fifo[:3] == ["fifo", "385.0", "235.0"]
    assert fifo[4:7] == ["2.567", "2.527", "+1.6 %"]
    assert fifo[7].startswith("2.550 [")


def test_the_difference_has_the_joint_interval_of_both_means() -> None:
    # 1.96 sqrt(2 * 50^2 / 2 + 22.8^2 / 100) around 150 - 93
    [fair] = decima.rows({"fair": {1: 100.0, 2: 200.0}})
    assert fair[3] == "+57.0 [-41.1, +155.1]"


def test_the_page_has_the_table(tmp_path: Path) -> None:
    made = decima.page("{{ seeds }} seeds\n{{ table }}\n", {"fair": {1: 92.0, 2: 94.0}})
    assert made.startswith("2 seeds\n| policy |")
    assert "| fair | 93.0 | 93.0 |" in made


def test_the_best_exponent_is_taken_seed_by_seed() -> None:
    runs = [
        {"label": label, "seed": seed, "jct_s": {"mean": mean}}
        for label, by_seed in {"alpha-1": (5.0, 9.0), "alpha-2": (6.0, 7.0), "fair": (8.0, 8.0)}.items()
        for seed, mean in enumerate(by_seed)
    ]
    found = decima.means(api.Results(Path(), {"runs": runs}))
    assert found == {"fair": {0: 8.0, 1: 8.0}, "best alpha": {0: 5.0, 1: 7.0}}
