"""Why a job waits, in one sentence with its numbers: reason, blocking resource, place in the queue, share."""

from __future__ import annotations

import msgspec

from operators.extender.brain import Brain
from operators.extender.jobs import JobEntry
from operators.extender.ledger import Task
from schedulers.core.reasons import Reason


class Why(msgspec.Struct, frozen=True):
    """What the brain writes on a DagJob and on its waiting pods.

    position: 1 is the longest-waiting job of its queue. estimate_s: what the job's tasks take in all, as
    estimated now; None while there is no estimate.
    """

    reason: Reason
    message: str
    position: int
    estimate_s: float | None


def why(brain: Brain, entry: JobEntry) -> Why | None:
    """Why the job waits; None when nothing of it does. O(stages x nodes): not for the hot path."""
    scheduler, state = brain.scheduler, brain.scheduler.state
    job = state.jobs.get(entry.id)
    if job is None or job.cancelled:
        return None
    explained = scheduler.explain(entry.id)
    if not explained.reasons:
        return None
    first = explained.reasons[0]
    queue = [other for other in state.waiting.values() if other.spec.queue == job.spec.queue]
    position = 1 + sum(1 for other in queue if other.seq < job.seq)
    parts = [first.sentence]
    if first.suggestion:
        parts.append(first.suggestion)
    parts.append(f"number {position} of {max(position, len(queue))} waiting in queue {job.spec.queue}")
    parts.append(f"holds {100 * state.share(job):.1f} % of the cluster (dominant share)")
    estimate = job.size_ms / 1000 if job.size_ms is not None else None
    return Why(first.reason, "; ".join(parts), position, estimate)


def waiting_pods(brain: Brain, entry: JobEntry) -> list[str]:
    """Keys of the job's pods that are there and wait."""
    job = brain.scheduler.state.jobs.get(entry.id)
    if job is None:
        return []
    found = []
    for stage in job.stages:
        if not stage.waiting or stage.parents_left:
            continue
        for index in range(stage.tasks):
            uid = brain.ledger.current.get(Task(entry.id, stage.index, index))
            there = brain.ledger.pods.get(uid) if uid is not None else None
            if there is not None and there.container is None and not there.ended:
                found.append(there.key)
    return found
