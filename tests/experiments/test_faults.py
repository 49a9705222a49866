"""Runs with faults on disk: killed and gone on with, equal faults for all policies, and what comes next."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from rich.console import Console

from rm_emulator.experiments import grid
from rm_emulator.results import compare
from rm_emulator.results.chart import Cells
from rm_emulator.results.charts.gantt import gantt
from rm_emulator.results.drawing import duration
from rm_emulator.results.story import story
from rm_emulator.scenario.load import load

pytestmark = pytest.mark.usefixtures("no_report")
TEXT = """
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: faulty}
spec:
  cluster:
    nodes: [{count: 6, capacity: {cpu: 8, memory: 32Gi}, racks: 2}]
    faults:
      schedule: [{at: 2m, rack: rack1, for: 1h}]
      nodes: {per_1000_node_days: 20000, repair: 20m}
      tasks: {probability: 0.1, attempts: 2, backoff: 10s}
  workload: {kind: synthetic, preset: 2sigma-like, jobs: 30}
  policies: [{kind: fifo}, {kind: fair}, {kind: las}]
  seeds: 1..2
"""
SAME = ("*.parquet", "events.jsonl*")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faulty") / "faulty.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def whole(scenario: Path) -> Path:
    out = scenario.parent / "whole"
    grid.run(load(scenario), out, jobs=1)
    return out


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for pattern in SAME for path in sorted(out.rglob(pattern))}


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_run_killed_without_warning_goes_on_to_the_same_results(scenario: Path, whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rm_emulator", "run", str(scenario), "--out", str(tmp_path / "out"), "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("[2/6]"))
        process.kill()
    resumed = grid.run(load(scenario), tmp_path / "out", jobs=1)
    assert 0 < resumed.computed < 6
    assert contents(tmp_path / "out") == contents(whole)


def test_the_figures_of_faults_are_in_the_summary(whole: Path) -> None:
    runs = json.loads((whole / "summary.json").read_text())["runs"]
    assert all(run["faults"]["goodput"] < 1 for run in runs)
    failed = sum(run["faults"]["failed_jobs"] for run in runs)
    assert failed == sum(run["unfinished_jobs"] for run in runs) > 0


def test_a_comparison_has_the_figures_of_faults_and_says_whose_times_it_has(whole: Path) -> None:
    left, right = compare.sides([whole], ["fifo", "las"])
    card = compare.compare(left, right)
    runs = json.loads((whole / "summary.json").read_text())["runs"]
    for name, key in (("failed jobs", "failed_jobs"), ("goodput", "goodput"), ("ETTR", "ettr")):
        (row,) = [row for row in card["scores"] if row["name"] == name]
        for side, label in (("left", "fifo"), ("right", "las")):
            values = [run["faults"][key] for run in runs if run["label"] == label]
            assert row[side] == pytest.approx(sum(values) / len(values))
        assert row["good"] == ("lower" if key == "failed_jobs" else "higher")
    ended = [
        {
            (seed, job)
            for seed in (1, 2)
            for job in pl.read_parquet(whole / f"runs/{label}/{seed}/jobs.parquet").drop_nulls("finish_ms")["id"]
        }
        for label in ("fifo", "las")
    ]
    both = len(ended[0] & ended[1])
    assert card["finished"] == {"left": len(ended[0]), "right": len(ended[1]), "both": both}
    with (console := Console(width=120)).capture() as shown:
        compare.show(card, console)
    assert both < max(map(len, ended))
    assert f"{len(ended[0])} in A, {len(ended[1])} in B; speeds are those of {both} in both" in shown.get()


def test_kept_work_reaches_the_summary_of_one_cell_and_of_many(tmp_path: Path) -> None:
    saved = {"schedule": [{"at": "25m", "node": "n1"}], "checkpoints": {"every": "10m"}}
    stage = {"name": "s", "demand": {"cpu": 1}, "duration": "1h"}
    spec = {
        "cluster": {"profile": "events", "nodes": [{"count": 2, "capacity": {"cpu": 1}}], "faults": saved},
        "workload": {"kind": "jobs", "jobs": [{"name": "a", "stages": [stage]}]},
        "policies": [{"kind": "fifo"}, {"kind": "fair"}],
    }
    head = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "saved"}}
    for count in (1, 2):
        file = tmp_path / f"{count}.yaml"
        file.write_text(yaml.safe_dump({**head, "spec": {**spec, "policies": spec["policies"][:count]}}))
        grid.run(load(file), tmp_path / str(count), jobs=1)
        runs = json.loads((tmp_path / str(count) / "summary.json").read_text())["runs"]
        # 60 minutes of work in the 25 and 40 for which a node was held.
        assert [run["faults"]["goodput"] for run in runs] == [pytest.approx(60 / 65)] * count
        assert [run["faults"]["ettr"] for run in runs] == [pytest.approx(60 / 65)] * count


def test_faults_of_nodes_are_frames_around_the_lanes_of_the_node_on_the_gantt(whole: Path) -> None:
    faults = pl.read_parquet(whole / "runs" / "fifo" / "1" / "faults.parquet")
    hour = {"kind": "death", "begin_ms": 120_000, "end_ms": 120_000 + 3_600_000}
    assert [{"node": node, **hour} for node in ("n1", "n2", "n3")] == faults.head(3).to_dicts()
    chart = gantt(Cells.of(whole))
    assert chart is not None
    figure = dict(chart.variants)["fifo"]
    *_, frames = figure["data"]  # drawn last, over the tasks
    assert set(frames["text"]) == {"fault: death"}
    ticks, names = figure["layout"]["yaxis"]["tickvals"], figure["layout"]["yaxis"]["ticktext"]
    first = frames["customdata"].index([duration(120_000), duration(3_600_000)])
    assert frames["y"][first] == ticks[names.index("n1")]
    assert frames["width"][first] == 2 * (ticks[names.index("n1")] + 0.5)  # n1's lanes are the uppermost


def test_a_restart_that_forgets_jobs_is_shown_and_explained_and_replays(tmp_path: Path) -> None:
    stage = {"name": "s", "demand": {"cpu": 1}, "duration": "10m"}
    spec = {
        "cluster": {
            "profile": "events",
            "nodes": [{"count": 2, "capacity": {"cpu": 1}}],
            "faults": {"restarts": [{"at": "5m", "for": "1m", "recovery": False}, {"at": "14m", "for": "1m"}]},
        },
        "workload": {"kind": "jobs", "jobs": [{"name": "a", "stages": [stage]}]},
        "policies": [{"kind": "fifo"}],
    }
    head = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "restarts"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**head, "spec": spec}))
    grid.run(load(tmp_path / "s.yaml"), tmp_path / "out", jobs=1)
    cell = tmp_path / "out" / "runs" / "fifo" / "1"
    away = [(None, "restart", 300_000, 360_000), (None, "restart", 840_000, 900_000)]
    assert pl.read_parquet(cell / "faults.parquet").rows() == away
    (job,) = pl.read_parquet(cell / "jobs.parquet").to_dicts()
    assert (job["submit_ms"], job["resubmitted_ms"], job["finish_ms"]) == (0, 360_000, 960_000)
    (run,) = json.loads((tmp_path / "out" / "summary.json").read_text())["runs"]
    assert run["faults"]["goodput"] == pytest.approx(10 / 16)
    chart = gantt(Cells.of(tmp_path / "out"))
    assert chart is not None
    assert any("fault: restart" in trace["text"] for trace in dict(chart.variants)["fifo"]["data"])
    figure = dict(chart.variants)["fifo"]
    low, high = sorted(figure["layout"]["yaxis"]["range"])
    assert (figure["data"][-1]["width"], figure["data"][-1]["y"]) == (2 * [high - low], 2 * [(low + high) / 2])
    told = story(next(cell.glob("events.jsonl*")), "a")
    assert (told.submitted_ms, told.finished_ms, told.ran_ms) == (0, 960_000, 960_000)
    assert [moment.text for moment in told.moments if moment.at_ms == 360_000][-1].startswith("stage s begins")


def test_two_policies_meet_the_same_failures_of_the_same_attempts(whole: Path) -> None:
    met = []
    for label in ("fifo", "las"):
        tasks = pl.read_parquet(whole / "runs" / label / "1" / "tasks.parquet").filter(pl.col("code").is_in([0, 1]))
        met.append({row[:4]: row[4] for row in tasks.select("job", "stage", "task", "attempt", "code").iter_rows()})
    both = met[0].keys() & met[1].keys()
    assert len(both) > 100
    assert [met[0][which] for which in both] == [met[1][which] for which in both]


@pytest.mark.drawn(of=4)
def test_what_will_happen_next_is_told_with_what_is_known_of_faults(whole: Path) -> None:
    command = [sys.executable, "-m", "rm_emulator", "simulate", "--from", f"{whole}@5m", "--label", "fifo"]
    done = subprocess.run([*command, "--draws", "4"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "nodes with a fault, whether or not anybody has noticed: n1 (death), n2 (death), n3 (death)" in said
    assert "faults to come are drawn anew in each draw, at the rates of the run" in said
    changed = subprocess.run([*command, "--drain", "n4"], capture_output=True, text=True, check=False)
    assert changed.returncode == 2
    assert "cannot be taken over from a moment on: nodes or tasks have faults" in changed.stdout + changed.stderr
