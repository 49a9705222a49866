"""One run of a scenario that stops wherever somebody outside has to choose, and goes on with what was chosen.

The engine runs as it does for scenarios; the policy's `choose` switches out of it (a greenlet) and back in with the
answer. An episode is stepped in the thread that began it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Literal

import msgspec
import numpy as np
from greenlet import getcurrent, greenlet

from rm_emulator.engine.config import Central, kind
from rm_emulator.engine.recording import Kept, Recording
from rm_emulator.engine.simulation import few_collections
from rm_emulator.experiments.assembly import Run, assemble, workload_of
from rm_emulator.experiments.grid import at_point
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.agents import Agent, Ask, Chosen, Seen
from rm_emulator.learn.gantt import Bar
from rm_emulator.learn.returns import Outcome
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema import Scenario
from schedulers.core.log import Log
from schedulers.core.policy import ClusterView, Policy

Objective = Literal["mean_jct", "makespan"]
#: What a reward of -1 stands for, in ms of waiting (decima-sim: reward_scale).
REWARD_MS: Final = 1e5


class Setting(msgspec.Struct, frozen=True):
    """What an episode is made of.

    scenario: with absolute paths, one scheduler and no sweep (see `stepped`). entry: of its policies; the entry's
    predictor and placement serve whoever chooses. seed: of arrivals and durations.
    """

    scenario: Scenario
    entry: Mapping[str, Any]
    seed: int

    def run(self, recording: Recording, *, log: Log | None = None, policy: Policy | None = None) -> Run:
        """The run as the scenario has it. policy: decides in place of the entry's."""
        logs = None if log is None else lambda _: log
        built = workload_of(self.scenario, self.seed)
        return assemble(self.scenario, self.entry, self.seed, built, recording, log=logs, policy=policy)


def stepped(loaded: Loaded) -> Scenario:
    """The scenario as `Setting` wants it. Raises InvalidInput for one that cannot be run, or not step by step."""
    check(loaded)
    if len(loaded.points) > 1:
        raise InvalidInput([loaded.issue(("spec", "sweep"), "a sweep cannot be stepped: name one point")])
    scenario = Scenario.model_validate(at_point(loaded))
    if (where := scenario.spec.cluster.architecture) != Central():
        raise InvalidInput(f"architecture '{kind(where)}' cannot be stepped: one scheduler is, that decides at once")
    return scenario


class Episode(Generic[Seen, Chosen]):
    """A run of a setting that is asked for one action after another.

    agent: who is told. until_ms: it ends there at the latest, jobs or not. asked: what has to be chosen from now, None
    when it is over. policy: the one that is told. view: what it is shown. draws: whether `bars` are wanted.
    """

    def __init__(
        self,
        setting: Setting,
        agent: Agent[Seen, Chosen],
        *,
        until_ms: int | None = None,
        keeps_log: bool = False,
        draws: bool = False,
    ) -> None:
        self._chunks: list[bytes] = []
        self._log = Log(self._chunks.append) if keeps_log else None
        self.policy, self._kept = agent.policy(self._ask), Kept(attempts=draws)
        self._simulation, who = setting.run(self._kept, log=self._log, policy=self.policy)
        self._until = until_ms
        self.view = who.schedulers[0].view
        self._engine: Any = greenlet(self._play)
        self.asked: Seen | None = None
        self.act()

    def _play(self) -> None:
        self._simulation.go(self._until)

    def _ask(self, seen: Seen, _: ClusterView) -> Chosen:
        action: Chosen = self._engine.parent.switch(seen)
        return action

    def act(self, *action: Chosen) -> None:
        """Go on to the next choice, or to the end; without an action: begin. Raises Stalled where jobs never finish."""
        self._engine.parent = getcurrent()
        self.asked = None  # so it stays where the engine raises
        self.asked = self._engine.switch(*action)

    def play(self, ask: Ask[Seen, Chosen]) -> Outcome:
        """Go on to the end with what `ask` chooses."""
        with few_collections():
            while self.asked is not None:
                self.act(ask(self.asked, self.view))
        return self.outcome

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
        return sum(self._jcts_ms) + sum(now - job.source.submit_ms for job in live)

    @property
    def _jcts_ms(self) -> list[int]:
        """Of the jobs that are done, in the order of their ends."""
        return [row.finish_ms - row.submit_ms for row in self._kept.jobs if row.finish_ms is not None]

    @property
    def outcome(self) -> Outcome:
        """When the jobs that have come came and ended; those that are still there end now."""
        live = self._simulation.jobs.values()
        end = self._until if live and self._until is not None else self._simulation.end_ms
        rows = [(row.submit_ms, row.finish_ms) for row in self._kept.jobs if row.finish_ms is not None]
        times = np.array(sorted(rows + [(job.source.submit_ms, end) for job in live]), dtype=float).reshape(-1, 2)
        return Outcome(times[:, 0], times[:, 1], end)

    @property
    def figures(self) -> dict[str, float]:
        """Mean JCT of the jobs that are done and the time, in s; how many jobs are done."""
        done = self._jcts_ms
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
            *(Bar(attempt.node, attempt.job, attempt.granted_ms, attempt.ended_ms) for attempt in self._kept.tasks),
            *(Bar(c.node, c.job, c.granted_ms, now) for c in running if c.stage >= 0 and c.ended_ms <= c.granted_ms),
        ]
