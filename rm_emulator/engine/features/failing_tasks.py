"""Faults of tasks: attempts that fail, hang or are slow, and jobs that fail with a task after so many attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log1p
from typing import Any, Final

from rm_emulator.engine.calendar import ASK, END, Enter
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.exit_codes import FAILED, KILLED_BY_MASTER
from rm_emulator.engine.features.checkpoints import Checkpoints
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.preemptions import fail_job
from rm_emulator.engine.profile import Engine
from schedulers.core import keyed
from schedulers.core.events import JobChanged, NodesRefused, StageWithdrawn

_MS_PER_HOUR: Final = 3_600_000
#: As of Kubernetes' controller of Jobs.
_LONGEST_BACKOFF_MS: Final = 360_000
#: `yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent`.
_IGNORED_PERCENT: Final = 33


class FailingTasks(Feature):
    """Attempts that fail, hang or are slow. An attempt that fails in an executor takes the executor along.

    The failures of services are those of their nodes: a service's task has no run time to fail in.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        faults = engine.config.faults
        assert faults is not None
        assert faults.tasks is not None
        self._rules, self._seed = faults.tasks, engine.seed
        self._survived: dict[int, int] = {}  # by container: run time so far at the last `redraw`, ms
        self._failures: Counter[tuple[str, int, int]] = Counter()  # by job, stage and task
        self._failures_on: dict[str, Counter[str]] = {}  # by job and node
        self.hung: dict[int, int] = {}
        """Attempts that stand still, by container, each with the time since, ms."""
        self.enter: Enter = engine.enter_end
        """Enters what ends an attempt."""
        engine.enter_end = self._enter_end

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether tasks have faults."""
        return engine.config.faults is not None and engine.config.faults.tasks is not None

    def run_time(self, container: Container, runtime: int) -> int:
        """Run time of an attempt that may be slow, ms."""
        slow = self._rules.stragglers
        if slow is None or self._draw("stragglers", container) >= slow.share:
            return runtime
        return max(1, round(runtime * slow.times))

    def _draw(self, purpose: str, container: Container) -> float:
        """A number in [0, 1) of the attempt; a copy has one of its own, and another one after each failure."""
        task = container.job, container.stage, container.task
        copy = 1 + self._failures[task] if container.copy else 0
        return keyed.uniform(self._seed, purpose, *task, container.attempt, copy)

    def redraw(self, draw: int) -> None:
        """Draw all faults from now on anew; attempts that run have not failed so far."""
        self._seed = keyed.digest(self.engine.seed, "later failures", draw)
        now, live = self.engine.calendar.now, self.engine.containers
        self._survived = {number: now - each.started_ms for number, each in live.items() if each.started_ms is not None}

    def is_end(self, callback: Any) -> bool:
        """Whether an entry of the calendar with this callback is in place of a task's end."""
        return bool(callback in (self._fail, self._hang))

    # -- an attempt fails -------------------------------------------------------------------------

    def _enter_end(self, when: int, rank: int, key: int, callback: Callable[[Any], object], value: Container) -> None:
        """Enter the end of a task; in place of the end a failure or a hang that comes before."""
        fails, hangs = self._fails_after(value), self._hangs_after(value)
        if hangs is not None and (fails is None or hangs < fails):
            after, callback = hangs, self._hang
        elif fails is not None:
            after, callback = fails, self._fail
        else:
            self.enter(when, rank, key, callback, value)
            return
        # Drawn from the attempt's first instant on, when a member of a gang may still wait: never in the past.
        self.enter(max(when - value.runtime + after, self.engine.calendar.now), rank, key, callback, value)

    def _hangs_after(self, container: Container) -> int | None:
        """Time from the start of an attempt until it hangs, ms; None for an attempt that does not."""
        part = self._part("hangs", self._rules.hangs, container)
        return None if part is None else round(part * container.runtime)

    def _part(self, purpose: str, share: float, container: Container) -> float | None:
        """The part of its run time after which an attempt of the share has its fault; None for all others."""
        if not share:
            return None
        # Among the attempts without a fault so far; the draw itself for an attempt that starts.
        past = share * min(1.0, self._survived.get(container.container, 0) / max(1, container.runtime))
        drawn = past + (1 - past) * self._draw(purpose, container)
        return drawn / share if drawn < share else None

    def _hang(self, container: Container) -> None:
        """Let an attempt stand still until the watchdog ends it; the others of its gang wait."""
        if self._is_running(container):
            if (saving := self.engine.feature(Checkpoints)) is not None:
                saving.stand_still(container)
            self.hung[container.container] = self.engine.calendar.now
            at = self.engine.calendar.now + self._rules.watchdog_ms
            self.engine.calendar.at(at, END, container.container, self._give_up, container)

    def _is_running(self, container: Container) -> bool:
        # As in `Simulation.over`: the container may be gone meanwhile, or have failed before.
        is_there = self.engine.containers.get(container.container) is container
        return is_there and not container.code and container.started_ms is not None

    def _fails_after(self, container: Container) -> int | None:
        """Time from the start of an attempt to its failure, ms; None for an attempt that succeeds."""
        rules, runtime = self._rules, container.runtime
        if rules.probability:
            part = self._part("failures", rules.probability, container)
            return None if part is None else max(1, round(part * runtime))
        if rules.per_hour:
            after = -log1p(-self._draw("failures", container)) / rules.per_hour * _MS_PER_HOUR
            after += self._survived.get(container.container, 0)
            return max(1, round(after)) if after < runtime else None
        return None

    def _fail(self, container: Container) -> None:
        self._end(container, FAILED)

    def _give_up(self, container: Container) -> None:
        self._end(container, KILLED_BY_MASTER)

    def _end(self, container: Container, code: int) -> None:
        if self._is_running(container):
            assert container.started_ms is not None
            container.runtime, container.code = self.engine.calendar.now - container.started_ms, code
            self.engine.over(container)

    # -- a failure is heard -----------------------------------------------------------------------

    def counts(self, container: Container) -> bool:
        """Whether the attempt succeeded; a failure may fail the job, or lets the stage back off."""
        if not container.code:
            return True
        job, rules, which = container.master, self._rules, (container.job, container.stage, container.task)
        job.failed_attempts += 1
        self._failures[which] += 1
        # A job that has failed, or was given up, may hear of further failures.
        if job.state.cancelled:
            return False
        if self._failures[which] >= rules.attempts:
            task = f"{job.source.job.stages[container.stage].name}/{container.task}"
            fail_job(self.engine, job, f"task {task} failed {rules.attempts} times", container)
            return False
        if rules.blacklist is not None:
            self._count_on_node(job, container.node, rules.blacklist)
        if rules.backoff_ms:
            wait = rules.backoff_ms << min(self._failures[which] - 1, 20)
            self._back_off(job, container.stage, min(wait, max(rules.backoff_ms, _LONGEST_BACKOFF_MS)))
        return False

    def begins_anew(self, job: Master) -> None:
        """Count the failures of the job's tasks anew."""
        self._failures_on.pop(job.name, None)
        for stage, spec in enumerate(job.source.job.stages):
            for task in range(spec.tasks):
                self._failures.pop((job.name, stage, task), None)

    def _count_on_node(self, job: Master, node: str, most: int) -> None:
        """Count a failure of the job on a node; with enough of them the node is blacklisted (RMContainerRequestor)."""
        engine, failures = self.engine, self._failures_on.setdefault(job.name, Counter())
        failures[node] += 1
        if failures[node] == most:
            listed = tuple(name for name, count in failures.items() if count >= most)
            # With so many nodes listed Hadoop takes the fault for the job's own, and ignores the list.
            ignored = len(listed) * 100 // len(engine.config.nodes) >= _IGNORED_PERCENT
            engine.tell(NodesRefused(engine.calendar.now, job.name, () if ignored else listed))

    def job_over(self) -> None:
        """Forget where ended jobs have failed."""
        for name in [name for name in self._failures_on if name not in self.engine.jobs]:
            del self._failures_on[name]

    def _back_off(self, job: Master, stage: int, wait_ms: int) -> None:
        """Let the stage ask for nothing for a while; the end of the longest wait counts."""
        engine, now = self.engine, self.engine.calendar.now
        engine.tell(StageWithdrawn(now, job.name, stage))
        job.withdrawals[stage] += 1
        engine.later(now + wait_ms, ASK, job.number, self._ask_again, (job, stage))

    def _ask_again(self, which: tuple[Master, int]) -> None:
        job, stage = which
        job.withdrawals[stage] -= 1
        # A further attempt of the job's master asks for everything, whatever the former master was waiting for.
        if not job.withdrawals[stage] and job.name in self.engine.jobs and not job.is_silent:
            self.engine.tell(JobChanged(self.engine.calendar.now, job.name, (stage,)))
