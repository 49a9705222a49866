"""The error-by-size curve: its scenarios, its table and its figure."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from rm_emulator.scenario.load import load
from studies import misjudged
from studies.misjudged import HEAD, QUANTILES, SHARES, Point, picture, rows, scenario

FOUND = {share: [Point(1 + share, 18.0, 280.0, 76.0), Point(1.2 + share, 20.0, 282.0, 78.0)] for share in SHARES}


def test_a_scenario_has_slearn_and_each_share(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario(1, 100)))
    labels = [policy.label for policy in load(path).scenario.spec.policies]
    assert labels == ["slearn", *(f"underestimated-{round(100 * share)}" for share in SHARES)]


def test_half_the_errors_are_within_the_paper_s_median_and_a_tenth_above_its_p90() -> None:
    below = {error: part for part, error in QUANTILES}
    assert below[0.18] - below[-0.18] == pytest.approx(0.5)
    assert 1 - below[2.8] == pytest.approx(0.1)


def test_a_row_has_the_ratio_with_its_interval_and_the_means() -> None:
    assert rows(FOUND)[SHARES.index(0.5)] == ["50 %", "1.60 [0.33, 2.87]", "19", "281", "77"]
    assert {len(row) for row in rows(FOUND)} == {len(HEAD)}


def test_the_figure_has_a_point_for_each_share_and_the_paper_s_line() -> None:
    drawn = ElementTree.fromstring(picture(FOUND))
    name = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f"{name}circle")) == len(SHARES)
    assert any("1.56" in (text.text or "") for text in drawn.iter(f"{name}text"))
    heights = [float(circle.attrib["cy"]) for circle in drawn.iter(f"{name}circle")]
    assert heights == sorted(heights, reverse=True)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_runs_are_kept_and_table_and_figure_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misjudged, "JOBS", 30)
    made, path = misjudged.written([1], tmp_path / "out", tmp_path, 1)
    assert made.count("\n") == 1 + len(SHARES)
    assert path.read_text(encoding="utf-8").startswith("<svg")
    assert (misjudged.written([1], tmp_path / "out", tmp_path, 1)) == (made, path)
