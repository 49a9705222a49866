"""`rm-emulator simulate` and `rm_emulator.simulate` on a small run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rm_emulator
from rm_emulator.forecasts.asked import Question, ask
from rm_emulator.forecasts.scoring import pinball, scores
from rm_emulator.issues import InvalidInput
from rm_emulator.results.report import render
from tests.cli.conftest import Command, command

pytestmark = pytest.mark.slow
__all__ = ["command"]

SCENARIO: dict[str, Any] = {
    "apiVersion": "rm-emulator.io/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "small"},
    "spec": {
        "cluster": {"nodes": [{"count": 4, "capacity": {"cpu": 4, "memory": "16Gi"}}], "profile": "events"},
        "queues": [{"name": "root"}, {"name": "default", "parent": "root"}, {"name": "fast", "parent": "root"}],
        "workload": {"kind": "synthetic", "preset": "2sigma-like", "jobs": 60, "load": 1.2},
        "policies": [
            {"label": "fifo", "kind": "fifo"},
            {"label": "told", "kind": "sjf", "predictor": {"kind": "oracle"}},
        ],
        "seeds": [1],
    },
}
DAGJOB = """
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: mine, namespace: ann}
spec:
  queue: %s
  stages:
  - name: map
    tasks: 6
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi%s}}}]}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small") / "out"
    rm_emulator.run(SCENARIO, out=out, jobs=1)
    return out


@pytest.fixture(scope="module")
def middle(run: Path) -> str:
    """A moment at which jobs wait."""
    jobs = rm_emulator.load(run).jobs
    return f"{int(jobs['submit_ms'].quantile(0.8)) // 1000}s"


def file(tmp_path: Path, queue: str = "default", more: str = "") -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(DAGJOB % (queue, more))
    return path


def test_every_live_job_is_answered_with_its_quantiles_in_order(run: Path, middle: str) -> None:
    found = rm_emulator.simulate(run, middle, draws=8, earlier=0).jobs
    assert len(found) > 3
    known = found.filter(found["finish_p10_s"].is_not_null())
    assert (known["finish_p10_s"] <= known["finish_p50_s"]).all()
    assert (known["finish_p50_s"] <= known["finish_p90_s"]).all()
    assert (known["finish_p10_s"] >= float(middle[:-1])).all()


def test_equal_questions_have_equal_answers(run: Path, middle: str) -> None:
    first, second = (rm_emulator.simulate(run, middle, draws=4, earlier=1).answer for _ in range(2))
    assert first == second


def test_a_policy_that_is_told_true_run_times_is_answered_with_what_came(run: Path, middle: str) -> None:
    answer = rm_emulator.simulate(run, middle, label="told").answer
    assert answer.draws == 1
    jobs = rm_emulator.load(run).jobs
    came = {row["id"]: row["finish_ms"] for row in jobs.filter(jobs["label"] == "told").to_dicts()}
    # Jobs that came later may pass those that wait, so only the jobs that run by then are as they were.
    started = [job for job in answer.jobs if job.started_ms is not None and job.running == job.tasks - job.ended]
    assert started
    assert all(job.finish.p50_ms == came[job.job] for job in started)


@pytest.mark.drawn(of=4)
def test_a_job_of_a_file_is_told_its_start_whom_it_delays_and_what_would_help(
    run: Path, middle: str, tmp_path: Path
) -> None:
    forecast = rm_emulator.simulate(run, middle, file(tmp_path), draws=6, earlier=0)
    (new,) = forecast.answer.asked
    assert new.job == "ann/mine"
    assert new.start.p50_ms is not None
    assert new.nodes
    assert forecast.jobs.row(0, named=True)["asked"]
    # fifo serves the job last, so nobody that is there waits for it.
    assert forecast.delays.is_empty()


@pytest.mark.drawn(of=4)
def test_fewer_tasks_of_a_gang_are_not_tried_since_nobody_knows_how_long_they_take(
    run: Path, middle: str, tmp_path: Path
) -> None:
    path = file(tmp_path)
    path.write_text(path.read_text().replace("tasks: 6", "tasks: 6\n    gang: true"))
    said: list[str] = []
    question = Question(at_ms=1000 * int(middle[:-1]), file=path, draws=2, earlier=0)
    ask(run, question, label="fifo", progress=said.append)
    tried = [line for line in said if line.startswith("trying ")]
    assert any("gang" in line or "separate" in line or "start" in line for line in tried), tried
    assert not any("tasks" in line and "half" in line for line in tried), tried


@pytest.mark.drawn(of=4)
def test_jobs_go_on_to_arrive_where_that_is_asked(run: Path, middle: str, tmp_path: Path) -> None:
    without, with_ = (
        rm_emulator.simulate(run, middle, file(tmp_path), draws=4, earlier=0, tries=False, arrivals=window)
        for window in (None, middle)
    )
    # fifo: whoever comes later delays nobody.
    assert without.answer.jobs == with_.answer.jobs


def test_the_command_prints_one_document(run: Path, middle: str, command: Command) -> None:
    done = command("simulate", "--from", f"{run}@{middle}", "--draws", "3", "--earlier", "1", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["policy"] == "fifo"
    assert answer["draws"] == 3


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("", "names no moment (expected RUN_DIR@TIME, such as out/demo@2h)"),
        ("@soon", "not a duration: 'soon'"),
        ("@900d", "the run is over by then"),
    ],
)
def test_a_moment_that_is_none_is_refused(run: Path, command: Command, at: str, says: str) -> None:
    done = command("simulate", "--from", f"{run}{at}", "-q")
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1


def test_a_folder_without_runs_is_refused(tmp_path: Path, command: Command) -> None:
    done = command("simulate", "--from", f"{tmp_path}@1h")
    assert (done.code, done.out) == (2, "")
    assert "is not a run directory: there are no runs in it" in done.err


@pytest.mark.parametrize(
    ("queue", "more", "says"),
    [
        ("nowhere", "", "nowhere"),
        ("default", ", example.com/gpu: 1", "asks for example.com/gpu, which no node of the run has"),
    ],
)
def test_a_job_that_the_cluster_has_no_place_for_is_refused(
    run: Path, middle: str, tmp_path: Path, queue: str, more: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        rm_emulator.simulate(run, middle, file(tmp_path, queue, more), draws=2, earlier=0)


def test_a_job_that_is_in_the_run_is_no_new_job(run: Path, middle: str, tmp_path: Path) -> None:
    taken = rm_emulator.simulate(run, middle, draws=1, earlier=0).answer.jobs[0].job
    path = file(tmp_path)
    path.write_text(path.read_text().replace("name: mine, namespace: ann", f"name: {taken}"))
    with pytest.raises(InvalidInput, match=f"job '{taken}' is in the run already"):
        rm_emulator.simulate(run, middle, path, draws=2, earlier=0)


def test_a_job_without_history_and_true_run_times_do_not_go_together(run: Path, middle: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="told true run times"):
        rm_emulator.simulate(run, middle, file(tmp_path), label="told")


def test_a_policy_that_fails_in_a_play_ends_in_one_line(
    run: Path, middle: str, command: Command, tmp_path: Path
) -> None:
    plugin = tmp_path / "fails_in_plays.py"
    plugin.write_text(
        "from schedulers.core.policy import policies\n"
        "from schedulers.policies.fifo import Fifo\n\n"
        '@policies.register("fails_in_plays", source="a test")\n'
        "class Fails(Fifo):\n"
        '    """As fifo, to its first decision."""\n\n'
        "    def schedule(self, view, offer):\n"
        '        raise ArithmeticError("no room for doubt")\n'
    )
    asked = ["--from", f"{run}@{middle}", "--draws", "2", "--earlier", "0", "--quiet"]
    done = command("simulate", *asked, "--policy", "fails_in_plays", "--plugin", str(plugin))
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"play [12] of 2: ArithmeticError: no room for doubt\n", done.err)


def test_answers_are_held_against_the_ends_that_came_also_when_nobody_arrives_any_more(run: Path) -> None:
    jobs = rm_emulator.load(run).jobs.filter(pl.col("label") == "fifo")
    found = scores(run, label="fifo", seed=1, questions=4, a_moment=1, draws=2)
    assert jobs["submit_ms"].max() / 1000 < 0.75 * found["at_s"].max()  # within the last quarter nobody came
    assert set(found["answerer"]) >= {"simulate", "told"}
    ends = dict(jobs.select("id", pl.col("finish_ms") / 1000).iter_rows())
    assert all(
        at + came == pytest.approx(ends[job]) for job, at, came in found.select("job", "at_s", "came_s").iter_rows()
    )


@pytest.mark.drawn(of=4)
def test_live_jobs_of_a_moment_share_its_plays_up_to_a_limit(run: Path) -> None:
    def asked(a_moment: int) -> pl.DataFrame:
        found = scores(run, label="fifo", seed=1, questions=6, a_moment=a_moment, draws=2)
        return found.filter(pl.col("answerer") == "drain_rate").group_by("at_s").len()

    alone, together = asked(1), asked(3)
    assert (alone["len"].max(), alone["len"].sum()) == (1, 6)
    assert together["len"].max() == 3
    assert together["len"].sum() >= 6
    assert together.height < alone.height


@pytest.mark.drawn(of=4)
def test_answers_that_are_kept_are_not_asked_for_again(run: Path, tmp_path: Path) -> None:
    def asked() -> tuple[pl.DataFrame, dict[str, int]]:
        found = scores(run, label="fifo", seed=1, questions=4, a_moment=1, draws=2, kept=tmp_path)
        return found, {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}

    found, written = asked()
    stopped_at = sorted(written)[-1]
    (tmp_path / stopped_at).unlink()
    again, rewritten = asked()
    assert again.equals(found)
    assert {name for name, at in rewritten.items() if at != written[name]} == {stopped_at}


def test_the_pinball_loss_weighs_an_answer_by_its_quantile() -> None:
    # 10 too late costs 0.9, 0.5 and 0.1 of it at 10, 50 and 90 %; 10 too soon the rest of it.
    assert pinball(np.array([100.0]), np.array([[110.0, 110.0, 110.0]])) == pytest.approx(10 * (0.9 + 0.5 + 0.1) / 3)
    assert pinball(np.array([100.0]), np.array([[90.0, 100.0, 100.0]])) == pytest.approx(10 * 0.1 / 3)


@pytest.mark.drawn(of=4)
def test_a_plot_into_the_runs_report_stands_there_until_the_cell_is_computed_again(
    run: Path, middle: str, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    shutil.copytree(run, out)
    report, job = out / "report.html", str(file(tmp_path))
    before = report.read_text()
    words = ["simulate", "--from", f"{out}@{middle}", "-f", job, "--draws", "3", "--earlier", "0", "--quiet"]
    assert command(*words, "--no-tries", "--plot", str(report)).code == 0
    drawn = report.read_text()
    assert "When will it run?" not in before
    assert "When will it run?" in drawn
    assert "Who ends later, and who sooner" in drawn
    assert "ann/mine" in drawn
    assert "Who waits, and why" in drawn
    cell = out / "runs" / "fifo" / "1" / "cell.json"
    cell.write_text(cell.read_text() + " ")
    assert "When will it run?" not in render(out)


def test_the_report_of_another_run_takes_no_pictures(run: Path, middle: str, tmp_path: Path, command: Command) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    done = command("simulate", "--from", f"{run}@{middle}", "--plot", str(other / "report.html"))
    assert done.code == 2
    assert "is the report of a run that is not asked" in done.err
