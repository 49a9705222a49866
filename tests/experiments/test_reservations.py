"""A gang that is served first starts soon, though a backlog of small tasks takes room as it frees."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rm_emulator.experiments import grid
from rm_emulator.experiments.explain import explain, sentences
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load

#: The queue of the highest weight is empty when a gang of 20 x 8 CPU comes; elsewhere wait 2-CPU tasks for 140 s.
GANG = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: gang}
spec:
  cluster: {nodes: [{count: 20, capacity: {cpu: 16, memory: 64Gi}}], profile: PROFILE, reserve_after: 30s}
  queues: [{name: batch}, {name: gold, weight: 10}]
  workload:
    kind: jobs
    jobs:
    - name: backlog
      queue: batch
      stages:
      - {name: long, tasks: 560, demand: {cpu: 2}, duration: {kind: lognormal, mean: 20s, cov: 0.2}}
      - {name: short, tasks: 560, demand: {cpu: 2}, duration: {kind: lognormal, mean: 15s, cov: 0.2}}
    - name: train
      queue: gold
      submit: 7s
      stages: [{name: g, tasks: 20, gang: true, demand: {cpu: 8}, duration: 30s}]
  policies: [{kind: hdrf, predictor: {kind: oracle, error: [ERROR, ERROR]}}]
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs the gang under a profile, with estimates that are wrong by a relative error; its run directory."""
    monkeypatch.setattr("rm_emulator.results.report.write", lambda out: (out / "report.html").write_text(""))

    def _ran(*overrides: str, profile: str = "events", error: float = 0.0) -> Path:
        path = tmp_path / "s.yaml"
        path.write_text(GANG.replace("PROFILE", profile).replace("ERROR", str(error)))
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        grid.run(load(path, overrides=overrides), out, jobs=1)
        return out

    return _ran


def wait_s(out: Path) -> float:
    (path,) = out.rglob("jobs.parquet")
    job = pl.read_parquet(path).filter(pl.col("id") == "train")
    return float((job["first_start_ms"] - job["submit_ms"]).item()) / 1000


def test_without_reservations_it_waits_for_the_backlog_to_drain(ran: Callable[..., Path]) -> None:
    assert wait_s(ran("spec.cluster.reserve_after=null")) > 100


@pytest.mark.parametrize("profile", ["events", "kubernetes"])
@pytest.mark.parametrize("error", [-0.9, 0.0])
@pytest.mark.drawn(of=4)
def test_it_starts_within_a_minute(ran: Callable[..., Path], profile: str, error: float) -> None:
    assert wait_s(ran(profile=profile, error=error)) <= 60


def test_with_estimates_ten_times_too_long_it_waits_for_one_more_task_of_each_node(ran: Callable[..., Path]) -> None:
    assert wait_s(ran(error=9.0)) <= 30 + 2 * 25


def test_explain_names_the_nodes_and_the_expected_start(ran: Callable[..., Path]) -> None:
    text = "\n".join(sentences(explain(ran(), "train").story))
    assert re.search(r"reserved for stage g: n\d+ and .* and \d+ more, where it is expected to start at \d+ s", text)


def test_yarns_policies_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        GANG.replace("PROFILE", "yarn").replace("hdrf, predictor: {kind: oracle, error: [ERROR, ERROR]}", "capacity")
    )
    with pytest.raises(InvalidInput, match="policy 'capacity': reserve_after does not go with a policy that makes res"):
        check(load(path))
