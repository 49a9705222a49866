"""The figures of Queues, from the brain's own books: labels of pods do not matter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from operators import metrics
from operators.extender.brain import Brain
from operators.extender.reports import ReportWriter
from schedulers.core.vectors import dominant_share

_PERIOD_S: Final = 1.0


class Figures(msgspec.Struct):
    """Figures of a queue with all queues below."""

    jobs: int = 0
    """Live DagJobs."""
    pending: int = 0
    """Tasks without room."""
    running: int = 0
    """Tasks with room."""
    share: float = 0.0
    """Dominant share of the cluster, 0 to 1."""

    def shown(self) -> dict[str, Any]:
        """As fields of a Queue's status."""
        return {**msgspec.structs.asdict(self), "share": f"{100 * self.share:.1f}%"}


class QueueFigures:
    """Counts once a second if anything was heard or decided since; Queues with changed figures are written."""

    def __init__(self, brain: Brain, reports: ReportWriter) -> None:
        self._brain, self._reports = brain, reports
        self._version = -1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.go_round()
            await asyncio.sleep(_PERIOD_S)

    def go_round(self) -> None:
        """Show and report changed figures; O(jobs x stages), so not in each cycle."""
        version = self._brain.scheduler.state.version
        # An idle brain costs one comparison a second.
        if version == self._version:
            return
        self._version = version
        found = figures_of(self._brain)
        show_figures(found)
        for name, queue in self._brain.cache.queues.items():
            if name in found:
                self._reports.report_queue(queue, found[name].shown())


def show_figures(found: Mapping[str, Figures]) -> None:
    """Set the metrics of queues; queues that are gone disappear."""
    metrics.show(metrics.QUEUE_PENDING, {name: each.pending for name, each in found.items()})
    metrics.show(metrics.QUEUE_RUNNING, {name: each.running for name, each in found.items()})
    metrics.show(metrics.QUEUE_SHARE, {name: each.share for name, each in found.items()})


def figures_of(brain: Brain) -> dict[str, Figures]:
    """Figures by queue, for every queue still there."""
    state = brain.scheduler.state
    tree, found = state.tree, {name: Figures() for name in state.queues if name not in state.tree.removed}
    # The way up is looked up once per queue, not once per job.
    ups = {name: [found[above] for above in tree.up(name) if above in found] for name in state.queues}
    for job in state.jobs.values():
        entry = brain.jobs.get(job.id)
        pending = 0 if job.cancelled else sum(stage.waiting for stage in job.stages if not stage.parents_left)
        for figures in ups.get(job.spec.queue, ()):
            figures.jobs += entry is not None and not entry.plain
            figures.pending += pending
            figures.running += job.running
    for name, figures in found.items():
        figures.share = dominant_share(tree.used(name), state.capacity)
    return found
