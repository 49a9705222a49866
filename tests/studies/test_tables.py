"""The docs' result tables: their scenarios are valid, and the page says what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rm_emulator.results.figures import Speedup
from rm_emulator.scenario.load import load
from studies import tables


@pytest.mark.parametrize("workload", tables.WORKLOADS)
def test_every_scenario_of_the_tables_is_valid(workload: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tables.scenario(workload, 1.05, [1, 2])))
    assert [policy.label for policy in load(path).scenario.spec.policies][:8] == list(tables.POLICIES)


@pytest.mark.parametrize("preset", tables.PAPER)
def test_the_paper_s_figures_are_about_policies_of_the_tables(preset: str) -> None:
    assert preset in tables.WORKLOADS
    assert set(tables.PAPER[preset]) <= set(tables.POLICIES)


def test_a_figure_is_shown_with_its_interval() -> None:
    assert tables.show(Speedup(value=1.234, ci95=[1.0, 1.5])) == "1.23 [1.00, 1.50]"
    assert tables.show(Speedup()) == "-"


@pytest.mark.slow
def test_the_page_holds_the_measured_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"kind": "synthetic", "preset": "google11-like", "jobs": 20}
    monkeypatch.setattr(tables, "WORKLOADS", {"google11-like": small})
    found = {("google11-like", 1.05): tables.measure("google11-like", 1.05, [1, 2], tmp_path, 1)}
    template = (
        "{{ seeds }} seeds\n{{ slearn[('google11-like', 1.05)] }}\n{{ posterior }}\n{{ accuracy.values() | first }}\n"
    )
    page = tables.page(found, [1, 2], template)
    assert page.startswith("2 seeds\n| over | ratio of means | mean of ratios | p50 of ratios | paper |")
    assert "| three_sigma |" in page
    assert "1.56 (P50 1.00) |" in page
    assert "| google11-like | 1.05 | slearn |" in page
    assert "86.5 / 13.7 / 50.0 |" in page


def test_the_page_in_the_docs_has_a_table_for_every_workload() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    for workload in tables.WORKLOADS:
        for share in tables.LOADS_OF.get(workload, tables.LOADS):
            assert f"### {workload}, load {share}" in page
