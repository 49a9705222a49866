"""Says why jobs wait, on the DagJob's status and on each of its waiting pods, and how DagJobs are planned.

Never in the way of deciding.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from operators.extender.brain import Brain
from operators.extender.conditions import Conditions
from operators.extender.jobs import JobEntry
from operators.extender.why import waiting_pods, why
from schedulers.core.model import Job
from schedulers.core.policy import Planned
from schedulers.objects.dagjob import PlannedStage, PlanStatus

#: Explaining looks at every node: so much of each half second may go to it.
_BUDGET_S: Final = 0.01
_PERIOD_S: Final = 0.5
#: Places in a queue change without the reason changing: look again now and then.
_AGAIN_S: Final = 15.0


class Telling:
    """Goes round the jobs whose reason has changed, and in between round all that wait."""

    def __init__(self, brain: Brain, conditions: Conditions) -> None:
        self._brain, self._conditions = brain, conditions
        self._said: dict[str, None] = {}  # jobs that carry a reason now
        self._told: dict[str, str] = {}  # pods that carry one: uid -> key
        self._all_at = time.monotonic()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            self.go_round()

    def go_round(self) -> None:
        """Tell of as many jobs as the budget allows."""
        jobs, state = self._brain.jobs, self._brain.scheduler.state
        if time.monotonic() - self._all_at > _AGAIN_S:
            self._all_at = time.monotonic()
            jobs.stirred.update(dict.fromkeys(state.waiting))
        jobs.stirred.update((job, None) for job in self._said if job not in state.waiting)
        until = time.perf_counter() + _BUDGET_S
        while jobs.stirred and time.perf_counter() < until:
            job = next(iter(jobs.stirred))
            del jobs.stirred[job]
            entry = jobs.get(job)
            if entry is None:
                self._said.pop(job, None)
            else:
                self._tell(entry)
        self._take_back()
        self._tell_plans()

    def _tell_plans(self) -> None:
        for job, planned in self._brain.scheduler.policy.new_plans().items():
            entry = self._brain.jobs.get(job)
            if entry is not None and not entry.plain:
                self._conditions.say_plan(entry.key, uid=entry.owner, plan=shown(entry.job, planned))

    def _take_back(self) -> None:
        """Pods that have been released since they were told to wait, or are gone."""
        for uid, key in list(self._told.items()):
            pod, there = self._brain.cache.pods.get(key), self._brain.ledger.pods.get(uid)
            if pod is None or pod.metadata.uid != uid:
                self._conditions.forget_pod(uid)
            elif there is not None and there.container is not None and not pod.is_gated:
                self._conditions.say_released(pod, pod.spec.nodeName or pod.narrowed_to)
            elif not pod.is_terminal:
                continue
            del self._told[uid]

    def _tell(self, entry: JobEntry) -> None:
        found = why(self._brain, entry)
        if found is None:
            if entry.id in self._said:
                del self._said[entry.id]
                if not entry.plain:
                    self._conditions.say_dagjob(
                        entry.key,
                        uid=entry.owner,
                        reason="",
                        message="",
                        position=None,
                        estimate_s=self._estimate(entry),
                    )
            return
        self._said[entry.id] = None
        reason = "".join(word.capitalize() for word in found.reason.value.split("_"))
        if not entry.plain:
            self._conditions.say_dagjob(
                entry.key,
                uid=entry.owner,
                reason=reason,
                message=found.message,
                position=found.position,
                estimate_s=found.estimate_s,
            )
        for key in waiting_pods(self._brain, entry):
            pod = self._brain.cache.pods.get(key)
            if pod is not None and not pod.is_terminal:
                self._told[pod.metadata.uid] = key
                self._conditions.say_pod(pod, reason, found.message)

    def _estimate(self, entry: JobEntry) -> float | None:
        job = self._brain.scheduler.state.jobs.get(entry.id)
        return job.size_ms / 1000 if job is not None and job.size_ms is not None else None


def shown(job: Job, planned: Planned) -> PlanStatus:
    """A plan as `status.plan` of a DagJob; times in seconds."""
    return PlanStatus(
        machines=planned.machines,
        boundSeconds=planned.bound / 1000,
        makespanSeconds=planned.makespan / 1000,
        stages=[PlannedStage(job.stages[stage].name, start / 1000) for stage, start in planned.starts.items()],
        troublesome=[job.stages[stage].name for stage in planned.troublesome],
    )
