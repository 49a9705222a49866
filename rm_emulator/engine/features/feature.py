"""Features: optional parts of a run, in hooks along a task's life."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Engine
from schedulers.core.decisions import Decision
from schedulers.core.events import Event

#: In place of a start that no feature can foresee; no later feature is to move such a start.
HELD: Final = -1


class Feature(ABC):
    """An optional part of a run, present where `is_in` holds. The hooks stand in the order of a task's life.

    A run calls only the hooks overridden by its features, so absent features cost nothing. `runs`, `ended` and
    `completed` take the place of the usual course: at most one feature of a run may override each.
    """

    @classmethod
    @abstractmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether this run has the feature, by its cluster, its workload and its policy."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def granted(self, container: Container, at: int) -> int:
        """Start in ms of a granted task that would start at time `at`; HELD: the feature itself enters the start."""
        return at

    def started(self, container: Container) -> bool:
        """Act on a container's first instant. True: the end cannot be foreseen."""
        return False

    def run_time(self, container: Container, runtime: int) -> int:
        """Run time in its container of a task with this run time, ms."""
        return runtime

    def runs(self, container: Container) -> None:
        """Enter the end of a container on the calendar; `runtime` holds if no other task interferes."""

    def over(self, container: Container) -> None:
        """Act on a container's last instant, on its node."""

    def ended(self, container: Container) -> bool:
        """Act on the end of a container on its node, in place of `Profile.ended`."""
        return False

    def counts(self, container: Container) -> bool:
        """Whether the application counts the ended task; False for a task counted before."""
        return True

    def completed(self, event: Event) -> list[Decision]:
        """Tell the scheduler a completion; returns the decisions."""
        return []

    def end_heard(self, job: Master) -> None:
        """Act on an end in this job heard by the scheduler."""

    def master_ended(self, container: Container) -> None:
        """Act on the end of a master's own container heard by the scheduler."""

    def removed(self, container: Container) -> None:
        """Act on a container that leaves its node before its end, perhaps before its start."""

    def endless_containers(self) -> int:
        """Number of running containers without an end of their own."""
        return 0

    def facts_to_come(self) -> bool:
        """Whether a fact of the feature's own is sure to come."""
        return False

    def job_over(self) -> None:
        """Act on a batch job that has ended, or was given up."""

    def begins_anew(self, job: Master) -> None:
        """Act on a job that is submitted anew, and has lost its containers."""

    def finish(self) -> None:
        """Act on the end of the run."""


class Hooks:
    """The hooks of a run, bound once: the overrides of its features, in the order of the features.

    `runs`, `ended`, `completed`: the override in place of the usual course, or None. All else: see `Feature`.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        # Bound methods in tuples: a loop over an empty tuple is the whole cost of an absent feature.
        self.granted: tuple[Callable[[Container, int], int], ...] = _all(features, "granted")
        self.started: tuple[Callable[[Container], bool], ...] = _all(features, "started")
        self.run_time: tuple[Callable[[Container, int], int], ...] = _all(features, "run_time")
        self.over: tuple[Callable[[Container], None], ...] = _all(features, "over")
        self.counts: tuple[Callable[[Container], bool], ...] = _all(features, "counts")
        self.end_heard: tuple[Callable[[Master], None], ...] = _all(features, "end_heard")
        self.master_ended: tuple[Callable[[Container], None], ...] = _all(features, "master_ended")
        self.removed: tuple[Callable[[Container], None], ...] = _all(features, "removed")
        self.endless_containers: tuple[Callable[[], int], ...] = _all(features, "endless_containers")
        self.facts_to_come: tuple[Callable[[], bool], ...] = _all(features, "facts_to_come")
        self.job_over: tuple[Callable[[], None], ...] = _all(features, "job_over")
        self.begins_anew: tuple[Callable[[Master], None], ...] = _all(features, "begins_anew")
        # At most one: two features with the same end to enter would enter two ends.
        self.runs: Callable[[Container], None] | None = _one(features, "runs")
        self.ended: Callable[[Container], bool] | None = _one(features, "ended")
        self.completed: Callable[[Event], list[Decision]] | None = _one(features, "completed")

    def count_endless(self) -> int:
        """Number of running containers without an end of their own."""
        return sum(count() for count in self.endless_containers)

    def is_any_to_come(self) -> bool:
        """Whether a fact of a feature's own is sure to come."""
        return any(to_come() for to_come in self.facts_to_come)


def _all(features: Sequence[Feature], name: str) -> tuple[Callable[..., Any], ...]:
    # A method inherited from `Feature` is no hook: compared by identity, so that nothing has to be declared.
    return tuple(getattr(each, name) for each in features if getattr(type(each), name) is not getattr(Feature, name))


def _one(features: Sequence[Feature], name: str) -> Callable[..., Any] | None:
    found = _all(features, name)
    assert len(found) < 2, f"two features say what happens in `{name}`"
    return found[0] if found else None
