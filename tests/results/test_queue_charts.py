"""The report's charts of queues, from courses made by hand."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from rm_emulator.results import fairness
from rm_emulator.results.chart import charts
from rm_emulator.results.charts import jain, shares, states
from rm_emulator.results.fairness import HUNGRY, IDLE, SATISFIED, STARVED, QueueShares
from rm_emulator.results.figures import Run, Summary
from rm_emulator.results.water_filling import SharingTree


def course(held, fair, state=None, start_ms=0):
    """A course of 1 s buckets; held, fair, state: a row per bucket, a column per queue."""
    held, fair = np.array(held, dtype=float), np.array(fair, dtype=float)
    names = tuple(f"q{index:02d}" for index in range(held.shape[1]))
    codes = np.full(held.shape, SATISFIED) if state is None else np.array(state)
    rest = {"demand": fair, "waiting": fair, "task": fair[0], "asked": fair[:, :, None]}
    more = {"queues": names, "start_ms": start_ms, "width_ms": 1000, "tree": SharingTree((), names, 1)}
    return QueueShares(held=held, fair=fair, state=codes.astype(np.int8), **rest, **more)


def summary(**courses):
    runs = [Run(label=label, seed=1, **fairness.figures(found, [])) for label, found in courses.items()]
    return Summary(scenario="made", version=None, workload=None, baseline=runs[0].label, runs=runs, comparisons=[])


def drawn(make, settings=MappingProxyType({}), /, **courses):
    cells = SimpleNamespace(courses=courses, summary=summary(**courses), seeds=[1])
    drawing, params = charts.parse({"kind": make.__name__, **settings})
    return drawing(params).draw(cells)


HALVES = course([[1.0, 0.0]] * 30, [[0.5, 0.5]] * 30, [[SATISFIED, STARVED]] * 10 + [[IDLE, HUNGRY]] * 20)


@pytest.mark.parametrize("make", [shares.shares, jain.jain, states.states])
def test_a_single_queue_has_no_chart(make):
    assert drawn(make, fifo=course([[1.0]] * 3, [[1.0]] * 3)) is None


def test_shares_stand_above_fair_shares():
    found = drawn(shares.shares, fifo=HALVES, fair=HALVES)
    assert [name for name, _ in found.variants] == ["fifo", "fair"]
    traces = found.variants[0][1]["data"]
    assert [(t["name"], t["stackgroup"], t["y"][0]) for t in traces] == [
        *(("q00", "y", 1.0), ("q01", "y", 0.0)),
        *(("q00", "y2", 0.5), ("q01", "y2", 0.5)),
    ]
    assert ("fifo", "q01", "0.0 %", "50.0 %") in found.rows


def test_the_last_bucket_has_its_width():
    assert len(drawn(shares.shares, fifo=HALVES).variants[0][1]["data"][0]["y"]) == 31


def test_time_is_that_of_the_run():
    late = course([[1.0, 0.0]] * 5, [[0.5, 0.5]] * 5, start_ms=7000)
    trace = drawn(shares.shares, fifo=late).variants[0][1]["data"][0]
    assert (trace["x0"], trace["dx"]) == (7.0, 1.0)


def test_many_queues_are_summed():
    held = [[(index + 1) / 200 for index in range(15)]] * 4
    traces = drawn(shares.shares, fifo=course(held, held)).variants[0][1]["data"]
    names = [t["name"] for t in traces if t["yaxis"] == "y"]
    assert names == [*(f"q{index:02d}" for index in range(4, 15)), "others"]
    assert traces[11]["y"][0] == pytest.approx((1 + 2 + 3 + 4) / 200)


def test_long_runs_are_drawn_in_few_points():
    long = course([[0.5, 0.5]] * 5000, [[0.5, 0.5]] * 5000)
    assert all(len(t["y"]) <= 302 for t in drawn(shares.shares, fifo=long).variants[0][1]["data"])


def test_jain_has_a_variant_per_window():
    found = drawn(jain.jain, fifo=HALVES)
    assert [name for name, _ in found.variants] == ["10 s", "60 s", "240 s"]
    assert found.variants[0][1]["data"][0]["y"] == [0.5, 0.5, 0.5, 0.5]
    assert found.rows[0] == ("fifo", "10 s", "0.500", "0.500")


def test_a_window_with_one_queue_is_a_gap():
    alone = course([[1.0, 0.0]] * 30, [[0.5, 0.5]] * 10 + [[1.0, 0.0]] * 10 + [[0.5, 0.5]] * 10)
    line = drawn(jain.jain, fifo=alone).variants[0][1]["data"][0]
    assert line["x"] == [0.0, 10.0, 10.0, 20.0, 30.0]
    assert line["y"] == [0.5, 0.5, None, 0.5, 0.5]


def test_all_labels_have_the_time_axis_of_the_longest_run():
    short, long = course([[1.0, 0.0]] * 60, [[0.5, 0.5]] * 60), course([[1.0, 0.0]] * 1200, [[0.5, 0.5]] * 1200)
    figure = drawn(jain.jain, fifo=short, fair=long).variants[0][1]
    assert figure["layout"]["xaxis"] == {"title": {"text": "time (min)"}, "range": [0.0, 20.0]}
    assert figure["data"][0]["x"][-1] == 1.0


def test_states_are_bars_from_change_to_change():
    starved, hungry, satisfied = drawn(states.states, fifo=HALVES).variants[0][1]["data"]
    assert (starved["name"], starved["y"], starved["base"], starved["x"]) == ("starved", [1], [0.0], [10.0])
    assert (hungry["name"], hungry["y"], hungry["base"], hungry["x"]) == ("hungry", [1], [10.0], [20.0])
    assert (satisfied["name"], satisfied["y"], satisfied["base"], satisfied["x"]) == ("satisfied", [0], [0.0], [10.0])


def test_a_column_of_many_buckets_shows_what_held_longest():
    codes = np.array([STARVED, IDLE, IDLE, HUNGRY, STARVED], dtype=np.int8)
    assert states._most(codes, 3).tolist() == [IDLE, STARVED]


def test_of_many_queues_those_that_starved_longest_are_shown():
    held = [[0.05] * 15] * 4
    state = [[STARVED if index >= 3 else SATISFIED for index in range(15)]] * 4
    found = drawn(states.states, fifo=course(held, held, state))
    assert found.variants[0][1]["layout"]["yaxis"]["ticktext"] == [f"q{index:02d}" for index in range(3, 15)]
    assert "3 more are in the table" in found.caption
    assert len(found.rows) == 15


def test_more_queues_than_the_setting_says_are_summed():
    parts = [[0.25] * 4] * 30
    traces = drawn(shares.shares, {"queues": 3}, fifo=course(parts, parts)).variants[0][1]["data"]
    assert [trace["name"] for trace in traces if trace["yaxis"] == "y"] == ["q00", "q01", shares.OTHERS]
