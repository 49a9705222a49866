"""The trained policy: chooses the best or by chance, says why, takes other weights, and needs no torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import rm_emulator
from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import JobSubmitted
from schedulers.core.scheduler import Scheduler
from schedulers.learned import model_store
from schedulers.learned.graph import Action, Graph
from schedulers.learned.limits import candidates
from schedulers.learned.weights import ARCHITECTURES, initial, pack
from schedulers.policies.decima import Decima
from tests.learned.drawn import drawn_graph

pytestmark = pytest.mark.usefixtures("no_report")

ORACLE = {"kind": "oracle"}
TWO = (stage(2, name="wide"), stage(1, name="narrow"), stage(1, parents=(0, 1), name="last"))


def scenario(*policies: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Three TPC-H jobs at once on fifty executors, as in training."""
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "spec": {
            "cluster": {
                "nodes": [{"count": 50, "capacity": {"cpu": 1, "memory": "2Gi"}}],
                "profile": "events",
                "executors": {},
            },
            "workload": {"kind": "tpch", "jobs": 3, "arrivals": "batch", "sizes": [2], "history": 0},
            "policies": [{"predictor": ORACLE, **policy} for policy in policies],
            **spec,
        },
    }


def asked(**settings: Any) -> Scheduler:
    """Two jobs on one slot, which one of the stages of the first has; the network is asked, without ranges."""
    made = scheduler({"kind": "decima", **settings}, node(cores=1), predictor=ORACLE)
    assert isinstance(made.policy, Decima)
    made.policy._use("containers")
    made.policy.fallback.ranges, made.policy._is_open = {}, False
    for name in "ab":
        made.handle(JobSubmitted(0, job(name, *TWO)))
    return made


class Jobs:
    """As much of a view as `choose` looks at."""

    def __init__(self, graph: Graph) -> None:
        self.jobs = {each.name: self for each in graph.jobs}
        self.spec, self.stages, self.name, self.now = self, [self] * 20, "s", 0


def chosen(policy: Decima, graph: Graph) -> Action:
    """The network's choice: graphs are drawn without regard to the ranges of training."""
    policy.fallback.ranges = {}
    return policy.choose(graph, Jobs(graph))  # type: ignore[arg-type]


def test_it_starts_tasks_without_settings() -> None:
    made = asked()
    assert made.state.containers


def test_an_objective_chooses_among_the_weights_that_ship() -> None:
    graph = drawn_graph(9, np.random.default_rng(3))
    scores = [
        Decima(Decima.Params(objective=objective))._network.scores(graph).stages
        for objective in ("mean_jct", "makespan")
    ]
    assert not np.allclose(*scores)
    assert (Decima(Decima.Params(weights="makespan"))._network.scores(graph).stages == scores[1]).all()


@pytest.mark.parametrize(("outlive", "weights"), [(True, "decima"), (False, "containers")])
def test_the_weights_are_those_for_executors_that_outlive_tasks_or_for_containers_that_do_not(
    outlive: bool, weights: str
) -> None:
    graph = msgspec.structs.replace(drawn_graph(9, np.random.default_rng(3)), outlive=outlive)
    policy = Decima(Decima.Params())
    chosen(policy, graph)
    assert policy._network.weights is model_store.weights_of(weights)


def test_an_objective_beside_weights_of_ones_own_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="objective: it chooses among the weights that ship"):
        Decima(Decima.Params(objective="makespan", weights="mine"))


def test_an_explanation_says_what_was_scored_against_what() -> None:
    made = asked()
    said = [made.explain(name).about.get("said", "") for name in "ab"]
    assert any(" scored " in text and " against " in text and "; limit " in text for text in said)


def test_the_best_is_chosen_with_the_limit_scored_best() -> None:
    graph = drawn_graph(6, np.random.default_rng(1))
    policy = Decima(Decima.Params())
    action = chosen(policy, graph)
    scores = policy._network.scores(graph)
    best = int(scores.stages.argmax())
    limits, values = policy._network.limits(graph, action.job)
    assert action[:3] == (scores.jobs[best], scores.rows[best], limits[int(values.argmax())])


def test_of_equal_jobs_the_first_is_chosen() -> None:
    one = drawn_graph(1, np.random.default_rng(2)).jobs[0]
    graph = Graph(tuple(msgspec.structs.replace(one, name=f"j{index}") for index in range(9)), 50)
    assert chosen(Decima(Decima.Params()), graph).job == 0


def test_chance_follows_the_probabilities() -> None:
    graph = drawn_graph(2, np.random.default_rng(3))
    policy = Decima(Decima.Params(sample=True), seed=1)
    drawn = []
    for policy.question_count in range(2000):
        action = chosen(policy, graph)
        drawn.append((action.job, action.row))
    scores = policy._network.scores(graph)
    chances = np.exp(scores.stages - scores.stages.max())
    chances /= chances.sum()
    for at, chance in zip(zip(scores.jobs.tolist(), scores.rows.tolist(), strict=True), chances, strict=True):
        assert drawn.count(at) / 2000 == pytest.approx(chance, abs=0.04)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_in_10000_draws_nothing_is_chosen_that_may_not_be() -> None:
    generator, policy = np.random.default_rng(4), Decima(Decima.Params(sample=True))
    for _ in range(500):
        graph = drawn_graph(int(generator.integers(1, 4)), generator)
        policy._network._blocks.clear()
        for _ in range(20):
            policy.question_count += 1
            action = chosen(policy, graph)
            assert graph.jobs[action.job].valid[action.row]
            assert action.limit in candidates(graph.jobs[action.job].least, 50)


@pytest.mark.slow
def test_what_is_drawn_hangs_on_the_seed(tmp_path: Path) -> None:
    logs = []
    for name, seeds in (("a", [1]), ("b", [1]), ("c", [2])):
        rm_emulator.run(scenario({"kind": "decima", "sample": True}), out=tmp_path / name, seeds=seeds, jobs=1)
        (log,) = (tmp_path / name).rglob("events.jsonl*")
        logs.append(log.read_bytes())
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_the_story_of_a_job_tells_its_choices(tmp_path: Path) -> None:
    rm_emulator.run(scenario({"kind": "decima"}), out=tmp_path / "out", jobs=1)
    story = rm_emulator.explain(tmp_path / "out", "tpch-0").story
    told = [moment.text for moment in story.moments if moment.kind == "choice"]
    assert told
    assert all(text.startswith("stage ") and "; limit " in text for text in told)
    assert any(" scored " in text for text in told)


def test_other_weights_are_a_plugin(tmp_path: Path) -> None:
    weights = pack(initial(ARCHITECTURES["released"], np.random.default_rng(5)))
    (tmp_path / "mine.safetensors").write_bytes(weights)
    policies = [{"kind": "decima", "label": "ours"}, {"kind": "decima", "weights": "mine", "label": "mine"}]
    with_own = scenario(*policies, plugins=[str(tmp_path / "mine.safetensors")])
    results = rm_emulator.run(with_own, out=tmp_path / "out", jobs=1)
    jct = dict(zip(results.runs["label"], results.runs["jct_s.mean"], strict=True))
    assert jct["ours"] != jct["mine"]


def test_torch_is_not_in_a_process_that_decides() -> None:
    code = "import sys; from schedulers.core.policy import policies; from schedulers.policies.decima import Decima; "
    code += "Decima(Decima.Params()); assert not {'torch', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=60)
