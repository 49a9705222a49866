"""Copies that masters ask for, under policies with tasks in queues of nodes: such copies come in no queue."""

from __future__ import annotations

from schedulers.core.events import CopyAsked, Event
from schedulers.core.policy import ClusterView, Suggestion, Suggestions


class AskedCopies:
    """The stages whose masters asked for copies. The state of the jobs tells the same, so no snapshot stores them."""

    __slots__ = ("_stages",)

    def __init__(self) -> None:
        self._stages: dict[tuple[str, int], None] = {}  # job and index of stages that may have some

    def observe(self, event: Event) -> None:
        """Hear of a fact."""
        if isinstance(event, CopyAsked):
            self._stages[event.job, event.stage] = None

    def load(self, view: ClusterView) -> None:
        """Find the copies asked for in a state."""
        there = ((job.id, stage.index) for job in view.jobs.values() for stage in job.stages if stage.copies)
        self._stages = dict.fromkeys(there)

    def suggest(self, view: ClusterView) -> Suggestions:
        """Suggest each of them, wherever there is room."""
        for key in sorted(self._stages):
            name, index = key
            tasks = tuple(view.jobs[name].stages[index].copies) if name in view.jobs else ()
            if not tasks:
                del self._stages[key]
            for task in tasks:
                yield Suggestion(name, index, task=task)
