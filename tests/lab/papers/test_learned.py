"""The tables of learned policies: their scenarios are valid, and they say what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rm_emulator.lab.papers import learned
from rm_emulator.scenario.load import load


def figures(**jcts: tuple[float, ...]) -> dict[str, dict[int, dict[str, Any]]]:
    return {
        label: {seed: {"jct_s": {"mean": mean}, "makespan_s": 2 * mean} for seed, mean in enumerate(means)}
        for label, means in jcts.items()
    }


@pytest.mark.parametrize("setting", learned.SETTINGS, ids=lambda setting: setting.name)
def test_the_scenario_of_a_setting_is_valid(setting: learned.Setting) -> None:
    spec = load(learned.scenario(setting, 2, Path("data"))).scenario.spec
    labels = [policy.label for policy in spec.policies]
    assert labels == [*setting.rules, *learned.known(setting)]
    assert spec.baseline == labels[0]
    assert spec.seeds == [1000, 1001]
    assert all((policy.predictor is not None) == setting.is_told for policy in spec.policies)


def test_differences_are_paired_seed_by_seed() -> None:
    [_, row] = learned.rows(figures(fair=(50.0, 70.0, 90.0), decima=(40.0, 61.0, 91.0)), "fair")
    # -10, -9 and +1: a mean of -6 with Student's t for two degrees of freedom, 4.303 x 6.083 / sqrt(3)
    assert row == ["decima", "64.0", "-6.0 [-21.1, +9.1]", "-8.6", "2 of 3", "128"]


def test_the_baseline_is_held_against_nothing() -> None:
    [row] = learned.rows(figures(fair=(50.0, 70.0)), "fair")
    assert row == ["fair", "60.0", "", "", "", "120"]


def test_the_page_has_the_tables_of_its_settings() -> None:
    made = learned.page("{{ seeds.batch }} seeds\n{{ tables.batch }}\n", {"batch": "| a |"}, {"batch": 3})
    assert made == "3 seeds\n| a |\n"


def test_what_needs_estimates_is_left_out_where_nobody_is_told_any() -> None:
    [batch] = [setting for setting in learned.SETTINGS if setting.name == "batch"]
    assert "lookahead" in learned.known(batch)
    assert learned.known(batch._replace(is_told=False)) == ["decima"]
