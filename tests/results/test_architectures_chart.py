"""The chart of a sweep over architectures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.issues import show_swept
from rm_emulator.results import headline
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts.architectures import over_architectures
from rm_emulator.results.charts.thinking import over_thinking
from rm_emulator.results.summary import read_summary

pytestmark = pytest.mark.usefixtures("no_report")


def scenario(*architectures: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "spec": {
            "cluster": {"nodes": [{"count": 4, "capacity": {"cpu": 2, "memory": "64Gi"}}], "profile": "events"},
            "workload": {"kind": "synthetic", "preset": "2sigma-like", "jobs": 8},
            "policies": [{"kind": "fifo"}],
            "sweep": {"cluster.architecture": list(architectures), "workload.load": [0.5, 0.9]},
        },
    }


@pytest.fixture(scope="module")
def cells(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> Cells:
    swept = scenario({"kind": "central"}, {"kind": "decentralised", "method": "batch"})
    out = tmp_path_factory.mktemp("swept") / "out"
    rm_emulator.run(swept, out=out, jobs=1)
    return Cells(out, read_summary(out), swept["spec"])


@pytest.mark.slow
def test_there_is_a_line_per_architecture_over_the_load(cells: Cells) -> None:
    chart = over_architectures(cells)
    assert chart is not None
    first = chart.variants[0][1]["data"]
    assert [(line["name"], line["x"]) for line in first] == [
        ("central", [0.5, 0.9]),
        ("decentralised, method batch", [0.5, 0.9]),
    ]


def test_messages_are_drawn_of_those_alone_that_send_any(cells: Cells) -> None:
    chart = over_architectures(cells)
    assert chart is not None
    assert [line["name"] for line in dict(chart.variants)["messages per task"]["data"]] == [
        "decentralised, method batch"
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"kind": "central"}, "central"),
        ({"kind": "a", "b": 2}, "a, b 2"),
        ({"b": True}, "b true"),
        ("x", "x"),
        (1, "1"),
    ],
)
def test_a_swept_block_is_told_by_its_kind_and_its_keys(value: object, shown: str) -> None:
    assert show_swept(value) == shown


@pytest.mark.slow
def test_with_one_label_the_headline_says_that_no_point_is_better(cells: Cells) -> None:
    assert re.fullmatch(r"Mean JCT is [\d,]+ s at every point", headline.of(cells.summary))


def test_with_one_label_the_headline_says_with_which_values_jobs_finish_soonest(tmp_path: Path) -> None:
    swept = scenario()
    swept["spec"]["sweep"] = {"cluster.architecture": [{"kind": "central", "t_job": t} for t in ("1h", "1s")]}
    rm_emulator.run(swept, out=tmp_path / "out", jobs=1)
    said = headline.of(read_summary(tmp_path / "out"))
    assert re.fullmatch(
        r"Mean JCT is best with central, t_job 1s \(\S+ s\) and worst with central, t_job 1h \(\S+ s\)(; one seed)?",
        said,
    )


@pytest.mark.slow
def test_where_no_architecture_is_swept_they_are_not_side_by_side(tmp_path: Path) -> None:
    swept = scenario()
    swept["spec"]["cluster"]["architecture"] = {"kind": "central", "t_job": "1s"}
    swept["spec"]["sweep"] = {"cluster.architecture.t_job": ["1s", "2s"], "workload.load": [0.5, 0.9]}
    rm_emulator.run(swept, out=tmp_path / "out", jobs=1)
    assert over_architectures(Cells(tmp_path / "out", read_summary(tmp_path / "out"), swept["spec"])) is None


@pytest.mark.slow
def test_copies_of_a_scheduler_are_one_line_when_their_number_is_swept(tmp_path: Path) -> None:
    swept = scenario()
    there = [{"name": "all", "count": 1, "t_job": "100ms"}]
    swept["spec"]["cluster"]["architecture"] = {"kind": "shared_state", "schedulers": there}
    swept["spec"]["sweep"] = {"cluster.architecture.schedulers[0].count": [1, 3]}
    rm_emulator.run(swept, out=tmp_path / "out", jobs=1)
    chart = over_thinking(Cells(tmp_path / "out", read_summary(tmp_path / "out"), swept["spec"]))
    assert chart is not None
    assert [(line["name"], line["x"]) for line in chart.variants[0][1]["data"]] == [("all", [1.0, 3.0])]
