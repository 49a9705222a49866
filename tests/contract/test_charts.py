"""Every registered chart keeps what `check_chart` says, in runs that have something to show for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import rm_emulator
from rm_emulator.forecasts import picture
from rm_emulator.results import answers
from rm_emulator.results.chart import Cells, charts
from rm_emulator.testing import check_chart, check_registered

SCENARIO = """
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: charts}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 4, memory: 8Gi}}]}
  queues: [{name: a}, {name: b}]
  policies:
  - {kind: gs, predictor: {kind: slearn}}
  - {kind: graphene, label: planned, predictor: {kind: oracle}}
  workload:
    kind: jobs
    jobs:
    - {name: j, queue: a, stages: [{name: s, tasks: 40, demand: {cpu: 1, memory: 1Gi}, duration: 2s}]}
    - {name: j, queue: b, stages: [{name: s, tasks: 30, demand: {cpu: 1, memory: 1Gi}, duration: 3s}]}
    - {name: j, queue: b, stages: [{name: s, tasks: 20, demand: {cpu: 1, memory: 1Gi}, duration: 5s}]}
    - {name: thin, queue: a, stages: [{name: s, tasks: 1, demand: {cpu: 1, memory: 1Gi}, duration: 5s}]}
    - name: uneven
      queue: a
      stages:
      - {name: s, tasks: 30, demand: {cpu: 1, memory: 1Gi}, duration: {kind: lognormal, mean: 300s, cov: 2}}
"""
SWEEP = "  sweep: {cluster.heartbeat: [1s, 2s], 'cluster.nodes[0].count': [2, 3]}\n"
#: Drawn of the points of a sweep alone.
OF_SWEEPS = {"over_axes", "best_label"}
#: Need schedulers that take their time, or policies that are told what to minimise: tests/results has runs for these.
ELSEWHERE = {"thinking", "over_thinking", "over_architectures", "objectives"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Path]:
    """A run that was asked when its jobs end, and one that is a sweep."""
    folder = tmp_path_factory.mktemp("charts")
    for swept in (False, True):
        (folder / f"{swept}.yaml").write_text(SCENARIO + SWEEP * swept)
        rm_emulator.run(folder / f"{swept}.yaml", out=folder / str(swept), jobs=1)
    asked = folder / "False"
    answer = rm_emulator.simulate(asked, "20s", draws=2, earlier=0, add="1xn1").answer
    answers.keep(asked, asked / "runs" / "slearn" / "1", picture.charts(answer))
    return {swept: folder / str(swept) for swept in (False, True)}


@pytest.mark.parametrize("name", [entry.name for entry in charts])
def test_a_chart_is_listed_with_all_that_is_asked_for(name: str) -> None:
    check_registered(charts, name)


@pytest.mark.parametrize("name", [entry.name for entry in charts if entry.name not in ELSEWHERE])
@pytest.mark.drawn(of=4)
def test_a_chart_draws_what_a_run_has_to_show(name: str, runs: Mapping[bool, Path]) -> None:
    swept = name in OF_SWEEPS
    check_chart(name, runs[swept], runs[not swept] if swept else None)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_chart_of_something_else_is_none(name: str, runs: Mapping[bool, Path]) -> None:
    drawing, params = charts.parse({"kind": name})
    assert drawing(params).draw(Cells.of(runs[False])) is None
