"""A run with several schedulers: its figures, its logs, and the story of a job."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rm_emulator
from rm_emulator.cli import main
from rm_emulator.experiments.explain import explain, sentences
from rm_emulator.issues import InvalidInput
from rm_emulator.results import replay
from rm_emulator.results.charts.thinking import _number

SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: several}
spec:
  cluster:
    nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]
    architecture:
      kind: shared_state
      conflict: sequence
      give_up: {none_placed: 2}
      schedulers:
      - {name: service, kinds: [service], t_job: 4s}
      - {name: batch, t_job: 1s, t_task: 0s, policy: {kind: gs, predictor: {kind: slearn}}}
  workload:
    kind: jobs
    jobs:
    - {name: web, service: {start_within: 20s}, stages: [{name: s, tasks: 2, demand: {cpu: 1}}]}
    - {name: etl, stages: [{name: m, tasks: 4, demand: {cpu: 1}, duration: 6s}]}
    - {name: big, submit: 1s, stages: [{name: m, demand: {cpu: 2}, duration: 30s}]}
    - {name: last, submit: 60s, stages: [{name: m, demand: {cpu: 1}, duration: 3s}]}
  policies: [{kind: fifo}, {kind: fair}]
  expect: ['fifo.schedulers["service"].conflicts > 0', "fifo.services.in_time == 1", "fifo.unfinished_jobs == 1"]
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run, whose expectations hold."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "s.yaml").write_text(SCENARIO)
    results = rm_emulator.run(str(folder / "s.yaml"), out=str(folder / "out"))
    assert all(outcome["holds"] for outcome in results.summary["expect"])
    return folder / "out"


def test_each_scheduler_has_a_log_of_its_own(out: Path) -> None:
    logs = replay.event_logs(out)
    assert [log.name for log in logs] == ["events-batch.jsonl", "events-service.jsonl"]
    assert [replay.main(log) for log in logs] == [0, 0]


def test_a_log_that_was_cut_is_not_the_whole_log(out: Path, tmp_path: Path) -> None:
    cell = tmp_path / "cell"
    shutil.copytree(out / "runs/fifo/1", cell)
    log = cell / "events-batch.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InvalidInput, match="is not the whole log of its run"):
        replay.main(log)


@pytest.mark.parametrize(("job", "log"), [("web", "events-service.jsonl"), ("etl", "events-batch.jsonl")])
def test_explain_finds_the_log_of_a_job(job: str, log: str, out: Path) -> None:
    assert explain(out, job, label="fifo").log.endswith(log)


def told(out: Path, job: str) -> str:
    return "\n".join(sentences(explain(out, job, label="fifo").story))


def test_explain_tells_of_refused_claims(out: Path) -> None:
    assert "claims were refused: others were faster" in told(out, "web")


def test_explain_tells_that_a_job_was_given_up(out: Path) -> None:
    assert "given up after 3 attempts, none of which placed any of its tasks" in told(out, "big")


def test_every_attempt_is_a_row(out: Path) -> None:
    tries = pl.read_parquet(out / "runs/fifo/1/tries.parquet")
    assert set(tries["scheduler"]) == {"service", "batch"}
    assert tries.filter("given_up")["job"].to_list() == ["big"]
    assert tries["placed"].sum() == 2 + 4 + 1


def test_figures_of_schedulers_follow_from_the_attempts(out: Path) -> None:
    run: dict[str, Any] = json.loads((out / "summary.json").read_text())["runs"][0]
    tries = pl.read_parquet(out / "runs/fifo/1/tries.parquet").filter(pl.col("scheduler") == "service")
    thought = (tries["ended_ms"] - tries["began_ms"]).sum() / 1000
    assert run["schedulers"]["service"]["busyness"] == pytest.approx(thought / run["sim_s"])
    assert run["services"] == {
        "jobs": 1,
        "started": 1,
        "start_s": {name: pytest.approx(14.03) for name in ("mean", "p50", "p90", "p99")},
        "in_time": 1.0,
    }
    assert run["jobs"] == 4


def test_the_report_draws_the_schedulers(out: Path) -> None:
    assert "Schedulers that take their time" in (out / "report.html").read_text()


def test_replay_of_a_run_replays_every_log(out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["rm-emulator", "replay", str(out)])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.count("identical; sha256") == 2


@pytest.mark.parametrize(("value", "seconds"), [("100ms", 0.1), ("2m", 120.0), (3, 3.0), ("fifo", None), (True, None)])
def test_a_swept_duration_is_drawn_in_seconds(value: Any, seconds: float | None) -> None:
    assert _number(value) == seconds
