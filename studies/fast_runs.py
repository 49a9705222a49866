"""Figures of runs by the fast simulator, for the rules and settings of which it plays the engine's runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from rm_emulator.learn.fast_rules import RULES, rule_of
from rm_emulator.scenario.schema import Scenario
from schedulers.predictors.oracle import misjudged
from studies.tables import document

#: Blocks of a scenario on which episodes hang.
_DRAWN: Final = ("cluster", "workload")


def is_played(policy: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """Whether the fast simulator plays a policy of a scenario on TPC-H jobs as the engine does."""
    told = policy.get("predictor", {}).get("kind") == "oracle"
    return "executors" in cluster and policy["kind"] in RULES and told


def found(scenario: Mapping[str, Any]) -> dict[int, FastSetting]:
    """The episodes of a scenario's seeds, for any policy."""
    spec = scenario["spec"]
    text = json.dumps(document("episodes", [0], {"any": {"kind": "fifo"}}, **{key: spec[key] for key in _DRAWN}))
    return {seed: _episode(text, seed) for seed in spec["seeds"]}


@lru_cache(maxsize=128)
def _episode(text: str, seed: int) -> FastSetting:
    return setting_of(Scenario.model_validate(json.loads(text)), seed)


def figures(policy: Mapping[str, Any], episodes: Mapping[int, FastSetting]) -> dict[int, dict[str, Any]]:
    """Mean JCT and makespan by seed, as in summary.json. policy: with its predictor `oracle`, which may err."""
    error = policy["predictor"].get("error", (0.0, 0.0))
    plain = {key: value for key, value in policy.items() if key != "predictor"}
    made = {}
    for seed, each in episodes.items():
        jobs = [entry.job for entry in each.workload]
        told: Sequence[Sequence[float]] = [
            [ms * misjudged(seed, job.id, stage, error) for stage, ms in enumerate(means)]
            for job, means in zip(jobs, each.told, strict=True)
        ]
        ends = each.play.ends(rule_of(plain, jobs, told, each.play.executors), each.draws)
        span = int(ends.max() - each.play.jobs.jobs["submit_ms"].min())
        made[seed] = {"jct_s": {"mean": each.play.mean_jct_s(ends)}, "makespan_s": span / 1000}
    return made
