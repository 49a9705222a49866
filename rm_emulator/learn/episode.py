"""One run of a scenario that stops wherever somebody outside has to choose, and goes on with what was chosen.

The engine runs as it does for scenarios; the policy's `choose` switches out of it (a greenlet) and back in with the
answer. An episode is stepped in the thread that began it.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from greenlet import getcurrent, greenlet

from rm_emulator.engine.recording import Attempt, JobRow, NullRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.cell import Cell, waves_of, workload_of
from rm_emulator.experiments.deciders import is_told_the_truth, scheduler_config
from rm_emulator.learn.agents import DECIMA, Agent, Chosen, Seen
from rm_emulator.learn.gantt import Bar
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.schema import Scenario
from schedulers.core.log import Log
from schedulers.core.policy import ClusterView, Policy
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler

Objective = Literal["mean_jct", "makespan"]
#: What a reward of -1 stands for, in ms of waiting (decima-sim: reward_scale).
REWARD_MS: Final = 1e5


class _Course(NullRecording):
    """What jobs took that are done, in ms, and, where `draws`, what ran on which node."""

    def __init__(self, *, draws: bool) -> None:
        self.jct_ms: list[int] = []
        self.bars: list[Bar] = []
        self._draws = draws

    def task(self, attempt: Attempt) -> None:
        """See Recording."""
        if self._draws:
            self.bars.append(Bar(attempt.node, attempt.job, attempt.granted_ms, attempt.ended_ms))

    def job(self, row: JobRow) -> None:
        """See Recording."""
        if row.finish_ms is not None:
            self.jct_ms.append(row.finish_ms - row.submit_ms)


class Setting(msgspec.Struct, frozen=True):
    """What an episode is made of: the scenario with one policy, whose predictor and placement serve whoever chooses."""

    scenario: Scenario
    cell: Cell

    def simulation(
        self, *, log: Log | None = None, policy: Policy | None = None, draws: bool = False
    ) -> tuple[Simulation, Scheduler, _Course]:
        """The run as the scenario has it. policy: who decides, in place of the scenario's."""
        built, seed = workload_of(self.scenario, self.cell.seed), self.cell.seed
        config = engine_config(self.scenario, Resources(built.workload.resources))
        entry = self.cell.scenario["spec"]["policies"][0]
        scheduler = Scheduler(scheduler_config(entry, seed, self.scenario, config, 0), log=log, policy=policy)
        course, oracle = _Course(draws=draws), is_told_the_truth(entry.get("predictor"))
        simulation = Simulation(
            config, built.workload, scheduler, course, seed=seed, waves_of=waves_of(built), oracle=oracle
        )
        return simulation, scheduler, course


class Episode:
    """A run of a setting that is asked for one action after another.

    agent: who is told. until_ms: it ends there at the latest, jobs or not. asked: what has to be chosen from now, None
    when it is over. policy: the one that is told. view: what it is shown.
    """

    def __init__(
        self,
        setting: Setting,
        agent: Agent = DECIMA,
        *,
        until_ms: int | None = None,
        keeps_log: bool = False,
        draws: bool,
    ) -> None:
        self._chunks: list[bytes] = []
        self._log = Log(self._chunks.append) if keeps_log else None
        self.policy = agent.policy(self._ask, setting.cell.seed)
        self._simulation, scheduler, self._course = setting.simulation(log=self._log, policy=self.policy, draws=draws)
        self._until = until_ms
        self.view = scheduler.view
        self._engine: Any = greenlet(self._play)
        self.asked: Seen | None = None
        self._go_on()

    def _play(self) -> None:
        self._simulation.go(self._until)

    def _ask(self, seen: Seen, _: ClusterView) -> Chosen:
        return self._engine.parent.switch(seen)

    def _go_on(self, *answer: Chosen) -> None:
        self._engine.parent = getcurrent()
        self.asked = None  # so it stays where the engine raises
        self.asked = self._engine.switch(*answer)

    def act(self, action: Chosen) -> None:
        """Go on to the next choice, or to the end. Raises Stalled where jobs can never finish."""
        self._go_on(action)

    def close(self) -> None:
        """Leave it where it is."""
        if not self._engine.dead:
            self._engine.parent = getcurrent()
            self._engine.throw()
        self.asked = None

    @property
    def is_truncated(self) -> bool:
        """Whether it was ended by the clock, with jobs unfinished or still to come."""
        return self.asked is None and self._simulation.finished_jobs < len(self._simulation.workload.jobs)

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        if self.asked is not None:
            return self._simulation.calendar.now
        return self._until if self.is_truncated and self._until is not None else self._simulation.end_ms

    def cost_ms(self, of: Objective) -> int:
        """What has been spent so far: the time that jobs have been there, summed over jobs, or the time itself."""
        now = self.now_ms
        if of == "makespan":
            return now
        live = self._simulation.jobs.values()
        return sum(self._course.jct_ms) + sum(now - job.source.submit_ms for job in live)

    @property
    def figures(self) -> dict[str, float]:
        """Mean JCT of the jobs that are done and the time, in s; how many jobs are done."""
        done = self._course.jct_ms
        mean = sum(done) / len(done) / 1000 if done else 0.0
        return {"mean_jct_s": mean, "time_s": self.now_ms / 1000, "finished_jobs": len(done)}

    @property
    def log(self) -> bytes:
        """The event log so far; empty where none is kept."""
        if self._log is not None:
            self._log.flush()
        return b"".join(self._chunks)

    @property
    def nodes(self) -> list[str]:
        """The names of the cluster's nodes."""
        return [node.id for node in self._simulation.config.nodes]

    @property
    def bars(self) -> list[Bar]:
        """What has run, and what runs, to now."""
        now = self.now_ms
        running = self._simulation.containers.values()
        return [
            *self._course.bars,
            *(Bar(c.node, c.job, c.granted_ms, now) for c in running if c.stage >= 0 and c.ended_ms <= c.granted_ms),
        ]
