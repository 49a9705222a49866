"""Episodes: a scenario's workload played by a policy that is being trained, in the emulator itself; by processes.

A plain simulation rather than an environment: nothing is copied between a decision and its outcome.
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
from typing import Final

import msgspec
import numpy as np

from rm_emulator.engine.recording import JobRow, NullRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.cell import waves_of
from rm_emulator.experiments.deciders import scheduler_config
from rm_emulator.experiments.grid import at_point
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.agents import AGENTS, DECIMA, Decide, Decision, Notes
from rm_emulator.learn.config import Sequences
from rm_emulator.learn.returns import Outcome
from rm_emulator.scenario.check import check
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.load import Loaded, load
from rm_emulator.scenario.workload import build
from schedulers.core import keyed
from schedulers.core.errors import UserError
from schedulers.core.policy import Policy
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.learned.weights import unpack

#: The predictor of a policy that is being trained: it is told mean run times, as in Decima.
ORACLE: Final = {"kind": "oracle"}


class Episode(msgspec.Struct, frozen=True, eq=False):
    """What came of it. decisions: those kept; asked: how many there were."""

    outcome: Outcome
    decisions: list[Decision]
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


class _Ends(NullRecording):
    """Keeps when each job came and ended."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def job(self, row: JobRow) -> None:
        """See Recording."""
        if row.finish_ms is not None:
            self.rows.append((row.submit_ms, row.finish_ms))


class Theatre:
    """Plays episodes of some workloads in this process."""

    def __init__(self, workloads: Sequence[Sequences], kind: str = DECIMA.kind) -> None:
        self._agent = AGENTS[kind]
        self.scenarios = [load(each.scenario) for each in workloads]
        self._weights = lru_cache(maxsize=1)(lambda data: unpack(data, "the weights in training"))

    def check(self) -> None:
        """Raises InvalidInput for scenarios that cannot be run."""
        for loaded in self.scenarios:
            check(loaded)
            if len(loaded.points) > 1:
                raise InvalidInput([loaded.issue(("spec", "sweep"), "a sweep cannot be trained on: name one point")])

    def play(self, task: Task) -> Episode:
        """One episode."""
        agent = self._agent
        notes = Notes(self._decides(task), agent.is_forced, draw=task.draw, keep=task.keep)
        policy = agent.policy(notes.ask, task.draw)
        outcome = simulate(self.scenarios[task.workload], task.seed, policy, task.limit_ms)
        return Episode(outcome, notes.decisions, notes.asked)

    def _decides(self, task: Task) -> Decide:
        if isinstance(task.player, str):
            rule = self._agent.rules[task.player]
            return lambda seen, view, asked: (rule(seen, view, asked), 0.0)
        draws = None if task.greedy else keyed.generator(task.draw, "actions")
        # A new network: what it keeps is of one episode.
        return self._agent.decides(self._weights(task.player), draws)


def simulate(loaded: Loaded, seed: int, player: Policy, limit_ms: int | None = None) -> Outcome:
    """The scenario's workload of a seed under this policy, to the end or to a time: when jobs came and ended.

    Placement and copies are those of the scenario's first policy.
    """
    scenario = loaded.scenario
    built = build(scenario, loaded.folder, seed)
    config = engine_config(scenario, Resources(built.workload.resources))
    entry = {**at_point(loaded)["spec"]["policies"][0], "predictor": ORACLE}
    scheduler = Scheduler(scheduler_config(entry, seed, scenario, config, 0), policy=player)
    ends = _Ends()
    simulation = Simulation(config, built.workload, scheduler, ends, seed=seed, waves_of=waves_of(built), oracle=True)
    simulation.run(limit_ms)
    end = simulation.end_ms if limit_ms is None or not simulation.jobs else limit_ms
    rows = ends.rows + [(job.source.submit_ms, end) for job in simulation.jobs.values()]
    times = np.array(sorted(rows), dtype=float).reshape(-1, 2)
    return Outcome(times[:, 0], times[:, 1], end)


class Company:
    """Plays episodes in processes of their own; with one job in this one."""

    def __init__(self, workloads: Sequence[Sequences], jobs: int, kind: str = DECIMA.kind) -> None:
        self._here = Theatre(workloads, kind) if jobs == 1 else None
        self._pool = None
        if jobs > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(jobs, context, initializer=_settle, initargs=(tuple(workloads), kind))

    def begin(self, tasks: Sequence[Task]) -> Callable[[], list[Episode]]:
        """Start; the call that is returned waits for all of them, in their order. Raises WorkerDied."""
        if self._here is not None:
            here = self._here
            return lambda: [here.play(task) for task in tasks]
        assert self._pool is not None
        futures: list[Future[Episode]] = [self._pool.submit(_play, task) for task in tasks]
        return lambda: _gathered(futures)

    def play(self, tasks: Sequence[Task]) -> list[Episode]:
        """All episodes, in the order of their tasks."""
        return self.begin(tasks)()

    def close(self) -> None:
        """End the processes; what they were about is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class WorkerDied(UserError, RuntimeError):
    """A process that played episodes is gone."""


def _gathered(futures: Iterable[Future[Episode]]) -> list[Episode]:
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


def _play(task: Task) -> Episode:
    return _theatre[0].play(task)
