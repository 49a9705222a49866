"""The trace that Perfetto opens."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.results import perfetto
from rm_emulator.results.perfetto import choose_nodes, lanes


@pytest.fixture(scope="module")
def trace(run):
    return json.loads((run[0] / "runs/slearn/1/trace.json").read_bytes())


def test_every_task_is_a_slice(run, trace):
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] >= 10 and e["name"] != "start-up"]
    assert len(slices) == run[2].runs[0].tasks


def test_times_are_in_microseconds(run, trace):
    ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(ends) == pytest.approx(run[2].runs[0].sim_s * 1e6)


def test_slices_of_one_lane_do_not_overlap(trace):
    tracks = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["pid"] >= 10:
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_every_node_is_a_named_process(trace):
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {"cluster", "jobs", *(f"node-{i:03d}" for i in range(8))}


def test_every_arrow_that_starts_ends(trace):
    starts = [e["id"] for e in trace["traceEvents"] if e["ph"] == "s"]
    assert starts == [e["id"] for e in trace["traceEvents"] if e["ph"] == "f"]
    assert len(starts) == 200


@pytest.mark.parametrize("at_once", [1, 70])
def test_a_trace_does_not_depend_on_how_many_tasks_are_sorted_at_once(run, tmp_path, monkeypatch, at_once):
    jobs, tasks, nodes = (
        pl.read_parquet(run[0] / f"runs/slearn/1/{name}.parquet") for name in ("jobs", "tasks", "nodes")
    )
    names = nodes["node"].drop_nulls().unique(maintain_order=True).to_list()
    tables = {"jobs": jobs, "tasks": tasks, "nodes": names, "cluster": nodes.filter(pl.col("node").is_null())}
    perfetto.write(tmp_path / "whole", **tables)
    monkeypatch.setattr(perfetto, "_AT_ONCE", at_once)
    perfetto.write(tmp_path / "blocks", **tables)
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_small_run_shows_every_node():
    assert choose_nodes(["a", "b"], [10, 10], limit=20) == (["a", "b"], None)


def test_a_large_run_shows_whole_nodes_and_says_so():
    names = [f"n{i}" for i in range(10)]
    assert choose_nodes(names, [10] * 10, limit=30) == (
        ["n0", "n4", "n8"],
        "3 of 10 nodes, 30 of 100 task attempts",
    )


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=40))
def test_no_more_lanes_than_intervals_at_once(spans):
    spans.sort()
    starts, ends = [s for s, _ in spans], [s + length for s, length in spans]
    given_lanes = lanes(starts, ends)
    solid = [(s, max(e, s + 1)) for s, e in zip(starts, ends, strict=True)]
    peak = max((sum(a <= s < b for a, b in solid) for s in starts), default=0)
    assert len(set(given_lanes)) == peak
