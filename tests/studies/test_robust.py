"""Policies beside their own rules otherwise than in training, and which runs the fast simulator plays for that."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from studies import alphas, fast_runs, robust
from studies.learned_settings import PROFILES, ROBUST
from studies.tables import document
from tests.studies.test_learned import figures


def test_each_policy_stands_beside_its_own_rule_seed_by_seed() -> None:
    measured = figures(capped_sjf=(50.0, 100.0), priced=(50.0, 50.0), curves=(51.0, 99.0), decima=(51.0,))
    curves, priced, decima = robust.rows("wrong", measured)
    assert curves[1:] == ["curves", "2", "75.0", "capped_sjf", "+0.0 [-12.7, +12.7]", "+0.0"]
    assert priced[4:] == ["capped_sjf", "-25.0 [-342.7, +292.7]", "-33.3"]
    assert decima[1:5] == ["decima", "1", "51.0", "priced"]
    assert decima[-1] == "+2.0"


def test_where_nobody_is_told_the_rule_is_fair() -> None:
    [row] = robust.rows("untold", figures(fair=(9.0, 9.0), fair_rule=(4.0, 6.0), decima=(5.0, 5.0)))
    assert row[4] == "fair_rule"
    assert row[-1] == "+0.0"


def test_all_cases_have_a_setting_and_words() -> None:
    assert [*robust.CASES] == [*(setting.name for setting in ROBUST), "dags"]


def test_table_2_has_the_papers_means_and_ours_beside_the_best_weighted_fair() -> None:
    made = robust.table_2(figures(**dict.fromkeys(robust.OURS, (50.0, 40.0)) | {"curves": (45.0, 36.0)}))
    assert made[1] == ["paper: Decima, trained on a job each 45 s", "65.4", "-28"]
    assert made[5] == ["best weighted fair", "45.0", ""]
    assert made[-1][1:] == ["40.5", "-10.0 [-10.0, -10.0]"]


def test_longer_profiles_have_each_measured_time_times_the_factor(tmp_path: Path) -> None:
    stage = {"tasks": 1, "fresh_durations": {"2": [3, 5]}, "first_wave": {}, "rest_wave": {"5": [7]}}
    read = {"source": "s", "queries": [{"query": 1, "size": "2g", "edges": [], "stages": [stage]}]}
    (tmp_path / PROFILES).write_bytes(gzip.compress(json.dumps(read).encode()))
    folder = robust.longer(tmp_path, tmp_path / "out", 10)
    [query] = json.loads(gzip.decompress((folder / PROFILES).read_bytes()))["queries"]
    assert query["stages"] == [stage | {"fresh_durations": {"2": [30, 50]}, "rest_wave": {"5": [70]}}]


def test_the_exponent_for_all_is_the_one_nearest_to_the_best_of_each() -> None:
    plain = dict.fromkeys(alphas.ALPHAS, 20.0)
    made = alphas.rows({"batch": plain | {-1.0: 10.0, -0.8: 11.0}, "stream": plain | {-0.4: 10.0, -0.8: 12.0}})
    above = {row[0]: float(row[-1]) for row in made}
    assert min(above, key=above.__getitem__) == "-0.8"
    assert above["-0.8"] == 15.0


@pytest.mark.slow
@pytest.mark.parametrize("error", [None, [-0.5, 0.5]])
@pytest.mark.drawn(of=2)
def test_figures_of_the_fast_simulator_are_those_of_the_engine(tmp_path: Path, error: list[float] | None) -> None:
    predictor: dict[str, Any] = {"kind": "oracle", **({"error": error} if error else {})}
    kinds = ({"kind": "weighted_fair", "alpha": -0.6}, {"kind": "capped_sjf"}, {"kind": "curves"})
    policies = {str(policy["kind"]): {**policy, "predictor": predictor} for policy in kinds}
    workload = {"kind": "tpch", "jobs": 6, "interarrival": "8s", "draws": "released", "sizes": [2, 5], "history": 0}
    nodes = [{"count": 12, "capacity": {"cpu": 1, "memory": "2Gi"}}]
    cluster = {"nodes": nodes, "profile": "events", "executors": {"moving_delay": "2s", "warmup": "1s"}}
    made = document("small", [1000, 1001], policies, cluster=cluster, workload=workload)
    results, episodes = rm_emulator.run(made, out=tmp_path / "out", jobs=1), fast_runs.found(made)
    for label, policy in policies.items():
        assert fast_runs.is_played(policy, cluster)
        for seed, fast in fast_runs.figures(policy, episodes).items():
            run = results.by_label[label][seed]
            assert (fast["jct_s"]["mean"], fast["makespan_s"]) == (
                pytest.approx(run["jct_s"]["mean"]),
                run["makespan_s"],
            )


def test_policies_that_need_the_engine_are_not_played_fast() -> None:
    executors, oracle = {"executors": {}}, {"predictor": {"kind": "oracle"}}
    assert fast_runs.is_played({"kind": "curves", **oracle}, executors)
    assert not fast_runs.is_played({"kind": "curves", **oracle}, {})
    assert not fast_runs.is_played({"kind": "curves", "predictor": {"kind": "slearn_dag"}}, executors)
    assert not fast_runs.is_played({"kind": "decima", **oracle}, executors)
