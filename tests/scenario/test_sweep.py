"""What a sweep makes of a scenario, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import Loaded, load
from rm_emulator.scenario.schema import json_schema

SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs: [{name: a, stages: [{name: m, tasks: 6, demand: {cpu: 1}, duration: 30s}]}]
  policies: [{kind: fifo}, {kind: fair}]
  sweep:
"""


@pytest.fixture
def swept(tmp_path: Path):
    """Loads the scenario with these lines below `sweep:`, which is in line 10."""

    def swept(*lines: str, overrides: tuple[str, ...] = ()) -> Loaded:
        path = tmp_path / "s.yaml"
        path.write_text(SCENARIO + "".join(f"    {line}\n" for line in lines))
        return load(path, overrides=overrides)

    return swept


def test_every_combination_is_a_point_and_the_last_axis_is_the_fastest(swept) -> None:
    loaded = swept("cluster.nodes[0].count: [2, 3]", "cluster.heartbeat: [1s, 2s]")
    spec = [each.scenario.spec.cluster for each in loaded.points]
    assert [(c.nodes[0].count, c.heartbeat) for c in spec] == [(2, 1000), (2, 2000), (3, 1000), (3, 2000)]
    assert loaded.points[2].point.values == {"cluster.nodes[0].count": 3, "cluster.heartbeat": "1s"}
    assert [each.point.number for each in loaded.points] == [1, 2, 3, 4]


def test_a_scenario_without_a_sweep_is_one_point_of_number_0(swept) -> None:
    loaded = swept("{}")
    assert [each.point.number for each in loaded.points] == [0]


def test_what_is_swept_need_not_stand_in_the_scenario(swept) -> None:
    loaded = swept("policies[1].predictor: [{kind: slearn}, {kind: oracle}]", overrides=("spec.policies[1].label=f",))
    assert [each.scenario.spec.policies[1].predictor for each in loaded.points] == [
        {"kind": "slearn"},
        {"kind": "oracle"},
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["cluster.nodes[0].cuont: [1]"], "s.yaml:11:5 .*unknown key 'cuont'.*did you mean 'count'"),
        (["clutser.heartbeat: [1s]"], "s.yaml:11:5 .*'clutser' cannot be swept .*did you mean 'cluster'"),
        (["seeds: [1, 2]"], "s.yaml:11:5 .*'seeds' cannot be swept"),
        (["spec.cluster.heartbeat: [1s]"], "s.yaml:11:5 .*begins below 'spec'"),
        (["policies: [[{kind: fifo}]]"], "s.yaml:11:5 .*policies are compared at every point"),
        (["cluster.nodes[3].count: [1]"], "s.yaml:11:5 .*spec.cluster.nodes has 1 entries"),
        (["cluster.nodse[0].count: [1]"], "s.yaml:11:5 .*spec.cluster has no list 'nodse', did you mean 'nodes'"),
        (["cluster.heartbeat: [1s,", "  2s, 1s]"], "s.yaml:12:11 .*'1s' is there twice"),
        (["cluster.nodes[0].count: [3, 3.0]"], "s.yaml:11:33 .*3.0 is there twice"),
        (["cluster.nodes[0].count: [2,", "  many]"], "s.yaml:12:7 .*'many' is not accepted .expected a whole number"),
        (["cluster.heartbeat: []"], "s.yaml:11:24 .*is empty: expected at least one"),
        (["cluster.heartbeat: 1s"], "s.yaml:11:24 .*'1s' is not accepted .expected a list"),
        (["workload: [{}]", "workload.load: [1]"], "s.yaml:12:5 .*'workload.load' and 'workload' set the same setting"),
        (["policies[0].kind: [fifo, fair]"], "s.yaml:9:14 .*is called 'fifo' at one point and 'fair' at another"),
    ],
)
def test_a_mistake_is_told_once_with_its_line(swept, lines: list[str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        swept(*lines, "cluster.containers_per_heartbeat: [1, 2, 3]")
    assert refused.value.count == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "values", "says"),
    [(1, 10_001, "10,001 points"), (100, 60, "60 points x 2 policies x 100 seeds .expected at most 10,000 runs")],
)
def test_too_many_cells_are_refused_with_their_number(swept, seeds: int, values: int, says: str) -> None:
    with pytest.raises(InvalidInput, match=rf"s.yaml:10:3 spec.sweep: {says}"):
        swept(f"cluster.nodes[0].count: {list(range(1, values + 1))}", overrides=(f"spec.seeds=1..{seeds}",))


@pytest.mark.parametrize("change", ["cluster.heartbeat=3s", "cluster.heartbeat.x=3s"])
def test_setting_what_is_swept_is_refused(swept, change: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^--set spec.{change}: 'cluster.heartbeat' is swept: set spec.sweep\["):
        swept("cluster.heartbeat: [1s, 2s]", overrides=(f"spec.{change}",))


def test_the_values_themselves_can_be_set(swept) -> None:
    loaded = swept("cluster.heartbeat: [1s, 2s]", overrides=('spec.sweep["cluster.heartbeat"]=[3s]',))
    assert [each.scenario.spec.cluster.heartbeat for each in loaded.points] == [3000]
    with pytest.raises(InvalidInput, match=r"^--set spec.sweep.*: 'x' "):
        swept("cluster.heartbeat: [1s, 2s]", overrides=('spec.sweep["cluster.heartbeat"]=[3s, x]',))


def test_what_is_wrong_at_one_point_says_at_which(swept) -> None:
    loaded = swept("cluster.nodes[0].capacity.cpu: [4, 500m]", "cluster.heartbeat: [1s, 2s]")
    with pytest.raises(
        InvalidInput, match=r"larger than every node.*\(at cluster.nodes\[0\].capacity.cpu=500m, .*=1s, and at 1 more\)"
    ) as refused:
        check(loaded)
    assert refused.value.count == 1


def test_the_schema_knows_the_sweep() -> None:
    assert "sweep" in json_schema()["$defs"]["Spec"]["properties"]
