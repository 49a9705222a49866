"""One run of a scenario with a stop at each choice, until the caller answers.

The engine runs as for scenarios; the policy's `choose` switches out of the engine (a greenlet) and back in with the
answer. An episode has to be stepped in the thread of its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Literal

import msgspec
import numpy as np
from greenlet import getcurrent, greenlet

from rm_emulator.engine.config import Central, kind
from rm_emulator.engine.recording import MemoryRecording, Recording
from rm_emulator.engine.simulation import few_collections
from rm_emulator.experiments.assembly import AssembledRun, assemble, workload_of
from rm_emulator.experiments.resolved import at_point
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.agents import Agent, Ask, Chosen, Seen
from rm_emulator.learn.gantt import GanttBar
from rm_emulator.learn.returns import EpisodeTimes
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema import Scenario
from schedulers.core.log import Log
from schedulers.core.policy import ClusterView, Policy

Objective = Literal["mean_jct", "makespan"]
#: Cost of a reward of -1, in ms of waiting (decima-sim: reward_scale).
REWARD_MS: Final = 1e5


class EpisodeSetting(msgspec.Struct, frozen=True):
    """The setting of an episode."""

    scenario: Scenario
    """With absolute paths, one scheduler and no sweep (see `stepped`)."""
    entry: Mapping[str, Any]
    """An entry of the policies; its predictor and placement serve the agent."""
    seed: int
    """Seed of arrivals and durations."""

    def run(self, recording: Recording, *, log: Log | None = None, policy: Policy | None = None) -> AssembledRun:
        """The run as in the scenario. policy: takes the place of the entry's policy."""
        logs = None if log is None else lambda _: log
        built = workload_of(self.scenario, self.seed)
        return assemble(self.scenario, self.entry, self.seed, built, recording, log=logs, policy=policy)


def stepped(loaded: Loaded) -> Scenario:
    """The scenario in the form for `EpisodeSetting`. Raises InvalidInput if it cannot run, or not step by step."""
    check(loaded)
    if len(loaded.points) > 1:
        raise InvalidInput([loaded.issue(("spec", "sweep"), "a sweep cannot be stepped: name one point")])
    scenario = Scenario.model_validate(at_point(loaded))
    if (where := scenario.spec.cluster.architecture) != Central():
        raise InvalidInput(f"architecture '{kind(where)}' cannot be stepped: one scheduler is, that decides at once")
    return scenario


class Episode(Generic[Seen, Chosen]):
    """A run of a setting that takes one action after another.

    until_ms: the latest end of the episode, finished jobs or not. draws: whether `bars` has bars.
    """

    def __init__(
        self,
        setting: EpisodeSetting,
        agent: Agent[Seen, Chosen],
        *,
        until_ms: int | None = None,
        keeps_log: bool = False,
        draws: bool = False,
    ) -> None:
        self._chunks: list[bytes] = []
        self._log = Log(self._chunks.append) if keeps_log else None
        self.policy, self._kept = agent.policy(self._ask), MemoryRecording(attempts=draws)
        """The policy that takes the actions."""
        self._simulation, who = setting.run(self._kept, log=self._log, policy=self.policy)
        self._until = until_ms
        self.view = who.schedulers[0].view
        """The policy's view."""
        self._engine: Any = greenlet(self._play)
        self.asked: Seen | None = None
        """The present choices; None after the end."""
        self.act()

    def _play(self) -> None:
        # Not `run`, which changes the garbage collector: a coroutine is left and continued.
        self._simulation.begin(self._until)
        self._simulation.go_on()

    def _ask(self, seen: Seen, _: ClusterView) -> Chosen:
        action: Chosen = self._engine.parent.switch(seen)
        return action

    def act(self, *action: Chosen) -> None:
        """Go on to the next choice, or to the end; without an action: begin. Raises Stalled if jobs never finish."""
        self._engine.parent = getcurrent()
        self.asked = None  # and stays None where the engine raises
        self.asked = self._engine.switch(*action)

    def play(self, ask: Ask[Seen, Chosen]) -> EpisodeTimes:
        """Go on to the end with the choices of `ask`."""
        with few_collections():
            while self.asked is not None:
                self.act(ask(self.asked, self.view))
        return self.outcome

    def close(self) -> None:
        """End the run at its present state."""
        if not self._engine.dead:
            self._engine.parent = getcurrent()
            self._engine.throw()
        self.asked = None

    @property
    def is_truncated(self) -> bool:
        """Whether the clock ended the episode, with jobs unfinished or still to come."""
        return self.asked is None and self._simulation.arrivals.finished < len(self._simulation.workload.jobs)

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        if self.asked is not None:
            return self._simulation.calendar.now
        return self._until if self.is_truncated and self._until is not None else self._simulation.end_ms

    def cost_ms(self, of: Objective) -> int:
        """Cost so far: the time of jobs in the cluster, summed over jobs, or the time itself."""
        now = self.now_ms
        if of == "makespan":
            return now
        live = self._simulation.jobs.values()
        return sum(self._jcts_ms) + sum(now - job.source.submit_ms for job in live)

    @property
    def _jcts_ms(self) -> list[int]:
        """Completion times of finished jobs, in the order of their ends."""
        return [row.finish_ms - row.submit_ms for row in self._kept.jobs if row.finish_ms is not None]

    @property
    def outcome(self) -> EpisodeTimes:
        """Arrivals and ends of all jobs that have arrived; live jobs end now."""
        live = self._simulation.jobs.values()
        end = self._until if live and self._until is not None else self._simulation.end_ms
        rows = [(row.submit_ms, row.finish_ms) for row in self._kept.jobs if row.finish_ms is not None]
        times = np.array(sorted(rows + [(job.source.submit_ms, end) for job in live]), dtype=float).reshape(-1, 2)
        return EpisodeTimes(times[:, 0], times[:, 1], end)

    @property
    def figures(self) -> dict[str, float]:
        """Mean JCT of finished jobs and the time, in s; number of finished jobs."""
        done = self._jcts_ms
        mean = sum(done) / len(done) / 1000 if done else 0.0
        return {"mean_jct_s": mean, "time_s": self.now_ms / 1000, "finished_jobs": len(done)}

    @property
    def log(self) -> bytes:
        """The event log so far; empty without `keeps_log`."""
        if self._log is not None:
            self._log.flush()
        return b"".join(self._chunks)

    @property
    def nodes(self) -> list[str]:
        """The names of the cluster's nodes."""
        return [node.id for node in self._simulation.config.nodes]

    @property
    def bars(self) -> list[GanttBar]:
        """Past tasks, and present tasks up to now."""
        now = self.now_ms
        running = self._simulation.containers.values()
        return [
            *(
                GanttBar(attempt.node, attempt.job, attempt.granted_ms, attempt.ended_ms)
                for attempt in self._kept.tasks
            ),
            *(
                GanttBar(c.node, c.job, c.granted_ms, now)
                for c in running
                if c.stage >= 0 and c.ended_ms <= c.granted_ms
            ),
        ]
