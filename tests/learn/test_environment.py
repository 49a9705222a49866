"""The Gymnasium environment: what it promises, and that it is the emulator itself that is stepped."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rm_emulator.experiments.cell import run_cell
from rm_emulator.experiments.grid import cells
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.environment import SchedulingEnv, spark
from rm_emulator.results.replay import logs_of
from rm_emulator.scenario.load import load
from schedulers.core.policy import policies
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.orders import RULES
from tests.examples import examples

SMALL = {"num_executors": 8, "job_arrival_cap": 4, "job_arrival_rate": None}
EXECUTORS = {"moving_delay": "2s", "warmup": "1s"}
#: Jobs of few tasks, so that an episode is short.
QUICK = {"spec.workload.sizes": [2], "spec.workload.queries": [1, 4, 6, 11]}
BLOCKS = {
    "cluster": {"nodes": [{"count": 8, "capacity": {"cpu": 1, "memory": "2Gi"}}], "profile": "events"},
    "workload": {"kind": "tpch", "jobs": 4, "arrivals": "batch", "sizes": [2], "queries": [1, 4, 6, 11]},
}


def small(**others: Any) -> SchedulingEnv:
    """Four small jobs at once on eight executors."""
    return spark(**SMALL, changes=QUICK, **others)


def document(*entries: dict[str, Any], executors: dict[str, str] | None = EXECUTORS) -> dict[str, Any]:
    """The same as a scenario, with these policies. executors: None, containers that end with their task."""
    spec = {**BLOCKS, "seeds": [3], "policies": list(entries)}
    if executors is None:
        spec["workload"] = {**BLOCKS["workload"], "durations": "per_task"}
    else:
        spec["cluster"] = {**BLOCKS["cluster"], "executors": executors}
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "spec": spec,
    }


def of_scenario(made: dict[str, Any], folder: Path) -> tuple[bytes, str]:
    """The event log of the first cell of a scenario, and the hash that its cell.json has."""
    cell = cells(load(made))[0]
    run_cell(cell, folder, lambda _: None)
    (path,) = logs_of(folder)
    raw = path.read_bytes()
    log = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return log, json.loads((folder / "cell.json").read_text())["log_sha256"]


def first(env: SchedulingEnv, info: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The first row that may be chosen, with a limit of 4."""
    return np.array([int(np.argmax(info["action_mask"][0])), 3])


def played(env: SchedulingEnv, **reset: Any) -> tuple[float, dict[str, Any], bool, bool]:
    """An episode of first rows: its rewards in sum, the last info, whether it terminated, was truncated."""
    _, info = env.reset(**reset)
    total, over, cut = 0.0, False, False
    while not (over or cut):
        _, reward, over, cut, info = env.step(first(env, info))
        total += reward
    return total, info, over, cut


# -- what Gymnasium asks for ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*WARN.*")
def test_gymnasium_finds_nothing_wrong() -> None:
    made = gymnasium.make("rm_emulator/Spark-v0", **SMALL, changes=QUICK)
    check_env(made.unwrapped)


def test_a_seed_gives_the_same_episode() -> None:
    env = small()
    assert played(env, seed=5)[1]["mean_jct_s"] == played(env, seed=5)[1]["mean_jct_s"]
    assert played(env, seed=5)[1]["mean_jct_s"] != played(env, seed=6)[1]["mean_jct_s"]


def test_episodes_without_a_seed_are_of_unlike_jobs() -> None:
    env = small()
    env.reset(seed=1)
    assert len({played(env)[1]["mean_jct_s"] for _ in range(3)}) == 3


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_environments_side_by_side_give_what_each_gives_alone(mode: str) -> None:
    several = gymnasium.make_vec("rm_emulator/Spark-v0", num_envs=2, vectorization_mode=mode, **SMALL, changes=QUICK)
    alone = [small(), small()]
    seeds = (5, 6)
    found, _ = several.reset(seed=list(seeds))
    expected = [env.reset(seed=seed)[0] for env, seed in zip(alone, seeds, strict=True)]
    for _ in range(4):
        for index, wanted in enumerate(expected):
            assert all(np.array_equal(found[name][index], wanted[name]) for name in wanted)
        actions = np.array([[int(np.argmax(wanted["stage_mask"])), 1] for wanted in expected])
        found = several.step(actions)[0]
        expected = [env.step(action)[0] for env, action in zip(alone, actions, strict=True)]
    several.close()


def test_an_episode_that_is_left_leaves_the_garbage_collector_as_it_was() -> None:
    before, env = gc.get_threshold(), small()
    env.reset(seed=1)
    assert gc.get_threshold() == before
    env.reset(seed=2)
    env.close()
    assert gc.get_threshold() == before


# -- rewards and ends -----------------------------------------------------------------------------


def test_rewards_of_jct_add_up_to_the_time_that_jobs_were_there() -> None:
    total, info, over, _ = played(small(), seed=2)
    assert over
    assert total == pytest.approx(-info["mean_jct_s"] * info["finished_jobs"] / 100)


def test_rewards_of_makespan_add_up_to_the_end() -> None:
    total, info, *_ = played(small(objective="makespan"), seed=2)
    assert total == pytest.approx(-info["time_s"] / 100)


def test_jobs_that_come_later_cost_nothing_before_they_come() -> None:
    env = spark(num_executors=8, job_arrival_cap=4, job_arrival_rate=1e-5, changes=QUICK)
    total, info, *_ = played(env, seed=2)
    assert total == pytest.approx(-info["mean_jct_s"] * info["finished_jobs"] / 100)


def test_the_clock_truncates_an_episode_where_it_says() -> None:
    total, info, over, cut = played(small(), seed=2, options={"time_limit_s": 10.0})
    assert (over, cut, info["time_s"]) == (False, True, 10.0)
    assert total == pytest.approx(
        -(4 - info["finished_jobs"]) * 10 / 100 - info["finished_jobs"] * info["mean_jct_s"] / 100
    )


def test_times_of_a_memoryless_limit_are_drawn_anew_for_each_episode() -> None:
    env = small(mean_time_limit=5000.0)
    env.reset(seed=1)
    assert len({played(env)[1]["time_s"] for _ in range(3)}) == 3


# -- masks and padding ----------------------------------------------------------------------------


@pytest.mark.slow
def test_no_mask_is_violated_in_random_steps() -> None:
    env = small(mean_time_limit=60_000.0)
    env.action_space.seed(1)
    _, info = env.reset(seed=1)
    for _ in range(examples(10_000)):
        observed, _, over, cut, after = env.step(env.action_space.sample(info["action_mask"]))
        assert after["allowed"]
        assert env.observation_space.contains(observed)
        info = env.reset()[1] if over or cut else after


def test_a_row_that_the_mask_forbids_counts_as_the_next_that_it_allows() -> None:
    env = small()
    _, info = env.reset(seed=4)
    row = int(np.argmax(info["action_mask"][0]))
    last = env.step(np.array([len(info["action_mask"][0]) - 1, 3]))
    env.reset(seed=4)
    same = env.step(np.array([row, 3]))
    assert not last[-1]["allowed"]
    assert all(np.array_equal(last[0][name], same[0][name]) for name in same[0])


def test_padded_arrays_hold_what_the_graph_has() -> None:
    env = small()
    observed, _ = env.reset(seed=4)
    graph = env.graph
    rows, edges, jobs = observed["sizes"]
    assert np.array_equal(observed["nodes"][:rows], np.concatenate([job.nodes for job in graph.jobs]))
    assert np.array_equal(observed["stage_mask"][:rows], np.concatenate([job.valid for job in graph.jobs]))
    assert np.array_equal(observed["least"][:jobs], [job.least for job in graph.jobs])
    assert edges == sum(len(job.edges) for job in graph.jobs)
    parents, children = observed["edges"][:edges].T
    assert (observed["node_job"][parents] == observed["node_job"][children]).all()
    assert not observed["stage_mask"][rows:].any()


def test_without_room_for_all_jobs_those_with_something_to_choose_stay() -> None:
    env = small(most_jobs=1)
    _, info = env.reset(seed=4)
    over = cut = False
    while not (over or cut):
        assert info["action_mask"][0].any()
        _, _, over, cut, info = env.step(first(env, info))
    assert over


# -- the engine itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("executors", [EXECUTORS, None])
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.drawn(of=4)
def test_a_rule_stepped_through_the_environment_gives_the_log_of_its_scenario(
    rule: str, executors: dict[str, str] | None, tmp_path: Path
) -> None:
    made = document({"kind": "dispatch", "rule": rule, "predictor": {"kind": "oracle"}}, executors=executors)
    log, sha256 = of_scenario(made, tmp_path)
    env = SchedulingEnv(made, keeps_log=True)
    env.reset(seed=3)
    over = False
    while not over:
        _, _, over, *_ = env.step(env.encode(RULES[rule](env.graph, env.view, env.episode.policy.question_count)))
    assert env.episode.log == log
    assert hashlib.sha256(log).hexdigest() == sha256


def test_an_executor_class_is_part_of_the_action_where_nodes_have_several_capacities(tmp_path: Path) -> None:
    made = document({"kind": "dispatch", "rule": "fair"}, executors=None)
    made["spec"]["workload"] = {**made["spec"]["workload"], "drawn": {"memory": "2Gi"}}
    nodes = [{"count": 4, "capacity": {"cpu": 1, "memory": size}} for size in ("1Gi", "2Gi")]
    made["spec"]["cluster"] = {**made["spec"]["cluster"], "nodes": nodes}
    log, _ = of_scenario(made, tmp_path)
    env = SchedulingEnv(made, keeps_log=True)
    observation, info = env.reset(seed=3)
    assert [len(mask) for mask in info["action_mask"]] == [1000, 8, 2]
    assert observation["classes"].tolist() == [0.5, 1.0]
    over = False
    while not over:
        action = env.encode(RULES["fair"](env.graph, env.view, env.episode.policy.question_count))
        assert observation["rooms"][action[0]][action[2]] > 0
        observation, _, over, *_ = env.step(action)
    assert env.episode.log == log


def test_the_trained_policy_stepped_through_the_environment_gives_the_log_of_its_scenario(tmp_path: Path) -> None:
    made = document({"kind": "decima", "predictor": {"kind": "oracle"}})
    make, params = policies.parse({"kind": "decima"})
    agent = make(params, seed=3)
    assert isinstance(agent, Dispatch)
    env = SchedulingEnv(made, keeps_log=True)
    env.reset(seed=3)
    over = False
    while not over:
        _, _, over, *_ = env.step(env.encode(agent.choose(env.graph, env.view)))
    assert env.episode.log == of_scenario(made, tmp_path)[0]


@pytest.mark.parametrize("kind", ["fifo", "fair", "capped_sjf", "weighted_fair", "graphene", "gs"])
@pytest.mark.drawn(of=4)
def test_a_policy_of_the_scenario_played_in_the_environment_gives_the_log_of_the_scenario(
    kind: str, tmp_path: Path
) -> None:
    made = document({"label": kind, "kind": kind, "predictor": {"kind": "oracle"}})
    assert SchedulingEnv(made).play(kind, seed=3).log == of_scenario(made, tmp_path)[0]


def test_a_played_policy_has_the_figures_of_its_jobs() -> None:
    found = small().play("fair", seed=3)
    assert 0 < found.mean_jct_s <= found.makespan_s


# -- pictures and mistakes ------------------------------------------------------------------------


def test_the_picture_has_a_colour_for_what_ran_and_none_before_anything_did() -> None:
    env = small(render_mode="rgb_array")
    env.reset(seed=2)
    blank = env.render()
    played(env, seed=2)
    full = env.render()
    assert blank is not None
    assert full is not None
    assert full.shape == blank.shape
    assert full.dtype == np.uint8
    coloured = [(picture.std(axis=2) > 0).mean() for picture in (blank, full)]
    assert coloured[0] == 0
    assert coloured[1] > 0.3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "mean_jtc"}, "objective='mean_jtc': expected mean_jct or makespan, did you mean 'mean_jct'?"),
        ({"label": "fare"}, "label='fare': expected capped_sjf or fair or fifo, did you mean 'fair'?"),
        ({"most_stages": 0}, "most_stages=0: expected 1 or more"),
        ({"mean_time_limit": -1.0}, "mean_time_limit_s=-0.001: expected a time above 0, in s"),
        ({"render_mode": "human"}, "render_mode='human': expected rgb_array"),
    ],
)
def test_what_the_environment_is_not_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        small(**given)
    assert str(raised.value) == said


def test_a_time_limit_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="time_limit_s=nan: expected a time above 0, in s"):
        small().reset(options={"time_limit_s": float("nan")})


def test_schedulers_that_think_cannot_be_stepped() -> None:
    changes = {"spec.cluster.architecture": {"kind": "central", "t_job": "1s"}, "spec.cluster.executors": None}
    with pytest.raises(InvalidInput, match="architecture 'central' cannot be stepped"):
        spark(**SMALL, changes={**QUICK, **changes, "spec.workload.durations": "per_task"})


def test_mistakes_of_the_scenario_are_said_as_everywhere() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.workload"):
        spark(**SMALL, changes={"spec.workload.sizes": [3]})


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        small().step(np.array([0, 0]))


def test_a_trace_is_found_beside_its_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.csv").write_text("job,submit,stage,tasks,mean\na,0,m,4,3\nb,1,m,4,3\n")
    made = document({"kind": "fifo"})
    made["spec"]["workload"] = {
        "kind": "trace",
        "format": "csv",
        "path": "mine.csv",
        "options": {"time_unit": "s"},
    }
    (tmp_path / "scenario.yaml").write_text(json.dumps(made))
    monkeypatch.chdir("/")
    env = SchedulingEnv(tmp_path / "scenario.yaml")
    env.reset(seed=1)
    assert len(env.graph.jobs) == 1
