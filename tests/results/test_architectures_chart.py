"""The chart of a sweep over architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.issues import show_swept
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts.architectures import over_architectures
from rm_emulator.results.summary import read_summary


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


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    swept = scenario({"kind": "central"}, {"kind": "decentralised", "method": "batch"})
    rm_emulator.run(swept, out=tmp_path / "out")
    return Cells(tmp_path / "out", read_summary(tmp_path / "out"), swept["spec"])


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
