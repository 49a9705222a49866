"""Application masters that fail, hang, or are lost with their nodes, and the further attempts of their jobs.

A job whose master is gone asks for nothing until its next master runs. The resource manager asks for the container of
the next master, and ends the other containers of the job unless they are kept. Finished tasks count, as in MapReduce
(`yarn.app.mapreduce.am.job.recovery.enable`), whoever has heard of their ends.

Source: hadoop-yarn 3.3, RMAppAttemptImpl, RMAppImpl (attempts), CapacityScheduler.doneApplicationAttempt (containers).
"""

from __future__ import annotations

from collections import Counter
from math import log1p
from typing import Final

from rm_emulator.engine.calendar import END
from rm_emulator.engine.config import MasterFaults
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.execution import LONGEST_MS
from rm_emulator.engine.exit_codes import FAILED
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.preemptions import MASTER_LOST, fail_job
from rm_emulator.engine.profile import Engine
from schedulers.core import keyed
from schedulers.core.decisions import Preempt
from schedulers.core.events import StageWithdrawn

_MS_PER_HOUR: Final = 3_600_000


class FailingMasters(Feature):
    """Masters that end before their jobs: failures are charged to the job, lost nodes and preemptions are not."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        assert engine.config.faults is not None
        self._faults = engine.config.faults
        self._rules = self._faults.masters or MasterFaults()
        self._failures: Counter[str] = Counter()  # by job
        self._unlaunched: dict[str, list[Container]] = {}  # what a silent master has not launched, by job
        # Replaced rather than hooked into: a run without faults has no test for each start.
        self._started, self._preempt = engine.started, engine.actions[Preempt]
        engine.started = self._starts  # type: ignore[method-assign]
        engine.actions[Preempt] = self._preempts

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether anything breaks where masters have containers."""
        return engine.config.faults is not None and any(job.am for job in engine.workload.jobs)

    # -- a master fails by itself -------------------------------------------------------------------

    def started(self, container: Container) -> bool:
        """Enter the failure of a master."""
        if _is_master(container) and self._rules.per_hour:
            after = -log1p(-self._draw("failing masters", container)) / self._rules.per_hour * _MS_PER_HOUR
            at = self.engine.calendar.now + max(1, round(min(after, LONGEST_MS)))
            self.engine.calendar.at(at, END, container.container, self._fail, container)
        return False

    def _draw(self, purpose: str, container: Container) -> float:
        return keyed.uniform(self.engine.seed, purpose, container.job, container.attempt)

    def _fail(self, container: Container) -> None:
        """Let a master exit, or hang until the resource manager misses its calls."""
        engine, now = self.engine, self.engine.calendar.now
        if not self._runs(container) or container.code:
            return
        container.master.fall_silent(now)
        container.code = FAILED
        if self._draw("hanging masters", container) < self._rules.hangs:
            noticed, _ = engine.profile.notices(self._faults, now)
            engine.later(noticed, END, container.container, self._expire, container)
            return
        assert container.started_ms is not None
        container.runtime = now - container.started_ms
        engine.over(container)

    def _expire(self, container: Container) -> None:
        """End a hanging master (AMLivelinessMonitor)."""
        if self._runs(container):
            self._preempt(Preempt(container.container, MASTER_LOST, container.job))
            self._end_attempt(container, is_charged=True)

    def _runs(self, container: Container) -> bool:
        return self.engine.containers.get(container.container) is container and not container.has_ended

    def over(self, container: Container) -> None:
        """Take a failed master from its node."""
        if _is_master(container):
            self.engine.tell_removal(container)

    def counts(self, container: Container) -> bool:
        """Whether the container's end is that of a task."""
        return not _is_master(container)

    def master_ended(self, container: Container) -> None:
        """Charge the job with a failed master."""
        if container.code:
            container.master.failed_attempts += 1
            self._end_attempt(container, is_charged=True)

    def begins_anew(self, job: Master) -> None:
        """Charge the job with nothing that came before."""
        del self._failures[job.name]
        self._unlaunched.pop(job.name, None)

    # -- a master is lost, or silent for a time -------------------------------------------------------

    def node_silenced(self, node: int) -> None:
        """Let nobody hear the masters on a node from now on."""
        for container in self._masters_on(node):
            container.master.fall_silent(self.engine.calendar.now)

    def node_heard(self, node: int) -> None:
        """Hear the masters of a node again: they ask, and launch what was granted meanwhile, in their next calls."""
        for container in self._masters_on(node):
            if container.code or not container.master.is_silent:
                continue
            self.engine.profile.master_started(container)
            for each in self._unlaunched.pop(container.job, ()):
                if self._runs(each):
                    self.engine.launch(each)

    def node_lost(self, node: int) -> None:
        """End the attempts of masters whose node the scheduler has heard to be lost."""
        for container in self._masters_on(node):
            self._end_attempt(container, is_charged=False)

    def _masters_on(self, node: int) -> list[Container]:
        masters = [job.container for job in self.engine.jobs.values() if job.container is not None]
        return [container for container in masters if container.index == node]

    def _preempts(self, decision: Preempt) -> None:
        engine, container = self.engine, self.engine.containers.get(decision.container)
        self._preempt(decision)
        if container is None or container is not container.master.container or self._runs(container):
            return
        container.master.fall_silent(engine.calendar.now)
        # With the fact of the master's end, which may not come before the other decisions of the same list.
        engine.later(engine.calendar.now + 1, END, container.container, self._preempted, container)

    def _preempted(self, container: Container) -> None:
        self._end_attempt(container, is_charged=False)

    def _end_attempt(self, container: Container, *, is_charged: bool) -> None:
        """Let the job ask for nothing, and end its containers, or the job with its last attempt."""
        engine, job = self.engine, container.master
        if job.container is not container or job.name not in engine.jobs:
            return
        job.fall_silent(engine.calendar.now)
        job.container = None
        self._unlaunched.pop(job.name, None)
        self._failures[job.name] += is_charged
        if is_charged and self._failures[job.name] >= self._rules.attempts:
            fail_job(engine, job, f"its application master failed {self._rules.attempts} times")
            return
        for stage in job.state.stages[: job.master_stage]:
            if stage.asked and stage.finished < stage.tasks:
                engine.tell(StageWithdrawn(engine.calendar.now, job.name, stage.index))
        for each in [each for each in engine.containers.values() if each.master is job and not _is_master(each)]:
            if each.started_ms is None or not self._rules.keep_containers:
                # At once wherever the container is: what nobody hears counts for nothing from now on.
                self._preempt(Preempt(each.container, MASTER_LOST, job.name))

    # -- what a master launches -------------------------------------------------------------------

    def _starts(self, container: Container) -> None:
        """Start a container that its master has launched before falling silent."""
        since = container.master.silent_since_ms
        if since is None or self.engine.profile.has_reached(container, since):
            self._started(container)
        else:
            self._unlaunched.setdefault(container.job, []).append(container)


def _is_master(container: Container) -> bool:
    return container.stage == container.master.master_stage
