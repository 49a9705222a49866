"""Rollouts: episodes of the policy in training, in separate processes.

The episodes are those of the environment (`episode.py`), with observations as they are, without padding.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import msgspec

from rm_emulator.experiments.resolved import at_point
from rm_emulator.learn.agents import AGENTS, DECIMA, Decide, Decision
from rm_emulator.learn.config import Sequences
from rm_emulator.learn.episode import Episode, EpisodeSetting, stepped
from rm_emulator.learn.returns import EpisodeTimes
from rm_emulator.plugins import load_plugins
from rm_emulator.program import end_with_parent
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import Scenario
from schedulers.core import keyed
from schedulers.core.errors import UserError
from schedulers.core.policy import ClusterView
from schedulers.learned.weights import unpack

#: The predictor of a policy in training knows mean run times, as in Decima.
ORACLE: Final = {"kind": "oracle"}


class Rollout(msgspec.Struct, frozen=True, eq=False):
    """The result of an episode."""

    outcome: EpisodeTimes
    decisions: list[Decision[Any, Any]]
    """The kept decisions."""
    decision_count: int
    """Number of all decisions."""


class RolloutTask(msgspec.Struct, frozen=True):
    """One episode to play."""

    workload: int
    """Index in the configuration."""
    seed: int
    """Seed of arrivals and durations."""
    action_seed: int
    """Seed of this rollout's own choices."""
    policy: bytes | str
    """Weights as bytes, or the name of a rule."""
    greedy: bool = False
    """Whether to take the likeliest action each time."""
    limit_ms: int | None = None
    """The episode's end; None: when all jobs are done."""
    keep_fraction: float = 0.0
    """Part of the decisions to return."""


def playable(workloads: Sequence[Sequences], profiles: str | None = None) -> list[dict[str, Any]]:
    """The scenarios of workloads, as resolved. profiles: see Config. Raises InvalidInput for unusable scenarios."""
    changes = {} if profiles is None else {"spec.workload.profiles": profiles}
    found = []
    for each in workloads:
        loaded = load(each.scenario, changes=changes)
        stepped(loaded)
        found.append(at_point(loaded))
    return found


class RolloutWorker:
    """Plays episodes of some workloads in this process. scenarios: as of `playable`."""

    def __init__(self, scenarios: Sequence[Mapping[str, Any]], kind: str = DECIMA.kind) -> None:
        self._agent = AGENTS[kind]
        for each in scenarios:
            load_plugins(each["spec"]["plugins"])
        self._settings = [(Scenario.model_validate(each), each["spec"]["policies"][0]) for each in scenarios]
        self._weights = lru_cache(maxsize=1)(lambda data: unpack(data, "the weights in training"))

    def episode(self, workload: int, seed: int, limit_ms: int | None = None) -> Episode[Any, Any]:
        """A new episode. Placement and copies are those of the scenario's first policy."""
        scenario, entry = self._settings[workload]
        return Episode(EpisodeSetting(scenario, {**entry, "predictor": ORACLE}, seed), self._agent, until_ms=limit_ms)

    def play(self, task: RolloutTask) -> Rollout:
        """One episode."""
        decide, kept, asked = self._decides(task), keyed.generator(task.action_seed, "kept"), 0
        decisions: list[Decision[Any, Any]] = []

        def ask(seen: Any, view: ClusterView) -> Any:
            nonlocal asked
            action, log_prob = decide(seen, view, asked)
            asked += 1
            if task.keep_fraction and kept.random() < task.keep_fraction and not self._agent.is_forced(seen):
                decisions.append(Decision(view.now, seen, action, log_prob))
            return action

        outcome = self.episode(task.workload, task.seed, task.limit_ms).play(ask)
        return Rollout(outcome, decisions, asked)

    def _decides(self, task: RolloutTask) -> Decide[Any, Any]:
        if isinstance(task.policy, str):
            rule = self._agent.rules[task.policy]
            return lambda seen, view, asked: (rule(seen, view, asked), 0.0)
        draws = None if task.greedy else keyed.generator(task.action_seed, "actions")
        # A new network, because its kept results belong to one episode.
        return self._agent.decides(self._weights(task.policy), draws)


class RolloutPool:
    """Plays episodes in separate processes; with one job in this process. scenarios: as of `playable`."""

    def __init__(self, scenarios: Sequence[Mapping[str, Any]], jobs: int, kind: str = DECIMA.kind) -> None:
        self._local = RolloutWorker(scenarios, kind) if jobs == 1 else None
        self._pool = None
        if jobs > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                jobs, context, initializer=_start_worker, initargs=(tuple(scenarios), kind)
            )

    def begin(self, tasks: Sequence[RolloutTask]) -> Callable[[], list[Rollout]]:
        """Start; the returned function waits for all episodes, in their order. Both raise WorkerDied."""
        if self._local is not None:
            here = self._local
            return lambda: [here.play(task) for task in tasks]
        assert self._pool is not None
        with death_named():  # a pool that has noticed a dead process takes no more tasks
            futures: list[Future[Rollout]] = [self._pool.submit(_play, task) for task in tasks]
        return lambda: _results(futures)

    def play(self, tasks: Sequence[RolloutTask]) -> list[Rollout]:
        """All episodes, in the order of their tasks."""
        return self.begin(tasks)()

    def close(self) -> None:
        """End the processes; unfinished episodes are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class WorkerDied(UserError, RuntimeError):
    """A process of the pool has died."""


@contextmanager
def death_named() -> Iterator[None]:
    """Raises WorkerDied for a pool that lost a process."""
    try:
        yield
    except BrokenProcessPool:
        why = "a process that played episodes was ended, often for lack of memory; go on with --resume and fewer --jobs"
        raise WorkerDied(why) from None


def _results(futures: Iterable[Future[Rollout]]) -> list[Rollout]:
    with death_named():
        return [future.result() for future in futures]


_worker: list[RolloutWorker] = []


def _start_worker(scenarios: Sequence[Mapping[str, Any]], kind: str) -> None:
    start_player()
    _worker[:] = [RolloutWorker(scenarios, kind)]


def start_player() -> None:
    """In a new process: end with the parent, even if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears the signal and ends this process
    end_with_parent()


def _play(task: RolloutTask) -> Rollout:
    return _worker[0].play(task)
