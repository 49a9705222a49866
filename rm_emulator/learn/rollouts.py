"""Rollouts: episodes played by whoever is being trained, in processes of their own.

The episodes are those that the environment steps (`episode.py`); what is seen is not padded into arrays in between.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, Final

import msgspec

from rm_emulator.experiments.grid import at_point
from rm_emulator.learn.agents import AGENTS, DECIMA, Decide, Decision
from rm_emulator.learn.config import Sequences
from rm_emulator.learn.episode import Episode, Setting, stepped
from rm_emulator.learn.returns import Outcome
from rm_emulator.scenario.load import load
from schedulers.core import keyed
from schedulers.core.errors import UserError
from schedulers.core.policy import ClusterView
from schedulers.learned.weights import unpack

#: The predictor of a policy that is being trained: it is told mean run times, as in Decima.
ORACLE: Final = {"kind": "oracle"}


class Rollout(msgspec.Struct, frozen=True, eq=False):
    """What came of an episode. decisions: those kept; asked: how many there were."""

    outcome: Outcome
    decisions: list[Decision[Any, Any]]
    asked: int


class Task(msgspec.Struct, frozen=True):
    """One episode to be played.

    workload: index in the configuration's. seed: of arrivals and durations. draw: names this rollout's own choices.
    player: weights as bytes, or the name of a rule. greedy: the likeliest action each time. limit_ms: the episode's
    end, None: when all jobs are done. keep: the part of its decisions that is handed back.
    """

    workload: int
    seed: int
    draw: int
    player: bytes | str
    greedy: bool = False
    limit_ms: int | None = None
    keep: float = 0.0


class Theatre:
    """Plays episodes of some workloads in this process. Raises InvalidInput for scenarios that cannot be played."""

    def __init__(self, workloads: Sequence[Sequences], kind: str = DECIMA.kind) -> None:
        self._agent = AGENTS[kind]
        loaded = [load(each.scenario) for each in workloads]
        self._settings = [(stepped(each), at_point(each)["spec"]["policies"][0]) for each in loaded]
        self._weights = lru_cache(maxsize=1)(lambda data: unpack(data, "the weights in training"))

    def episode(self, workload: int, seed: int, limit_ms: int | None = None) -> Episode[Any, Any]:
        """A new one. Placement and copies are those of the scenario's first policy."""
        scenario, entry = self._settings[workload]
        return Episode(Setting(scenario, {**entry, "predictor": ORACLE}, seed), self._agent, until_ms=limit_ms)

    def play(self, task: Task) -> Rollout:
        """One episode."""
        decide, kept, asked = self._decides(task), keyed.generator(task.draw, "kept"), 0
        decisions: list[Decision[Any, Any]] = []

        def ask(seen: Any, view: ClusterView) -> Any:
            nonlocal asked
            action, log_prob = decide(seen, view, asked)
            asked += 1
            if task.keep and kept.random() < task.keep and not self._agent.is_forced(seen):
                decisions.append(Decision(view.now, seen, action, log_prob))
            return action

        outcome = self.episode(task.workload, task.seed, task.limit_ms).play(ask)
        return Rollout(outcome, decisions, asked)

    def _decides(self, task: Task) -> Decide[Any, Any]:
        if isinstance(task.player, str):
            rule = self._agent.rules[task.player]
            return lambda seen, view, asked: (rule(seen, view, asked), 0.0)
        draws = None if task.greedy else keyed.generator(task.draw, "actions")
        # A new network: what it keeps is of one episode.
        return self._agent.decides(self._weights(task.player), draws)


class Company:
    """Plays episodes in processes of their own; with one job in this one."""

    def __init__(self, workloads: Sequence[Sequences], jobs: int, kind: str = DECIMA.kind) -> None:
        self._here = Theatre(workloads, kind) if jobs == 1 else None
        self._pool = None
        if jobs > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(jobs, context, initializer=_settle, initargs=(tuple(workloads), kind))

    def begin(self, tasks: Sequence[Task]) -> Callable[[], list[Rollout]]:
        """Start; the call that is returned waits for all of them, in their order. Raises WorkerDied."""
        if self._here is not None:
            here = self._here
            return lambda: [here.play(task) for task in tasks]
        assert self._pool is not None
        futures: list[Future[Rollout]] = [self._pool.submit(_play, task) for task in tasks]
        return lambda: _gathered(futures)

    def play(self, tasks: Sequence[Task]) -> list[Rollout]:
        """All episodes, in the order of their tasks."""
        return self.begin(tasks)()

    def close(self) -> None:
        """End the processes; what they were about is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class WorkerDied(UserError, RuntimeError):
    """A process that played episodes is gone."""


def _gathered(futures: Iterable[Future[Rollout]]) -> list[Rollout]:
    try:
        return [future.result() for future in futures]
    except BrokenProcessPool:
        why = "a process that played episodes was ended, often for lack of memory; go on with --resume and fewer --jobs"
        raise WorkerDied(why) from None


_theatre: list[Theatre] = []


def _settle(workloads: Sequence[Sequences], kind: str) -> None:
    """In a new process: read the scenarios; end with the parent, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    parent = multiprocessing.parent_process()
    assert parent is not None
    Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()
    _theatre[:] = [Theatre(workloads, kind)]


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _play(task: Task) -> Rollout:
    return _theatre[0].play(task)
