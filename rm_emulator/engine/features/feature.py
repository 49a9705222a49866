"""What a feature is: something that a run may have, in hooks along a task's life."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Engine
from schedulers.core.decisions import Decision
from schedulers.core.events import Event


class Feature(ABC):
    """Something that a run may have. `is_in` says whether a run has it; the hooks stand in the order of a task's life.

    A run calls the hooks that one of its features overrides and no others, so what it does not have costs nothing.
    `runs`, `ended` and `completed` take the place of what happens otherwise: at most one feature of a run has each.
    """

    @classmethod
    @abstractmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether this run has the feature, by its cluster, its workload and its policy."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def granted(self, container: Container, at: int) -> int:
        """A container is granted a task that would start at that time, in ms: when does it start?"""
        return at

    def started(self, container: Container) -> bool:
        """Its first instant. True: it has no end that could be foreseen."""
        return False

    def run_time(self, container: Container, runtime: int) -> int:
        """How long a task of this run time takes in its container, in ms."""
        return runtime

    def runs(self, container: Container) -> None:
        """It runs, by itself for its `runtime`: enters its end on the calendar."""

    def over(self, container: Container) -> None:
        """Its last instant, on its node."""

    def ended(self, container: Container) -> bool:
        """It has ended on its node: in place of `Profile.ended`."""
        return False

    def counts(self, container: Container) -> bool:
        """The application hears of its end: whether it counts the task, which else was counted before."""
        return True

    def completed(self, event: Event) -> list[Decision]:
        """Its end is told to the scheduler; what was decided then."""
        return []

    def heard(self, job: Master) -> None:
        """The scheduler has heard of an end in this job."""

    def left(self, container: Container) -> None:
        """It uses nothing of its node any more, before its end has come; it need not have started."""

    def lasting(self) -> int:
        """How many containers run that will not end by themselves."""
        return 0

    def job_over(self) -> None:
        """A job that ends by itself has ended, or was given up."""

    def finish(self) -> None:
        """The run is over."""


class Hooks:
    """The hooks of a run, bound once: of each those that its features override, in their order.

    granted, started, run_time, over, counts, heard, left, lasting, job_over: see `Feature`. runs, ended, completed: the
    one that takes the place of what happens otherwise, or None.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.granted: tuple[Callable[[Container, int], int], ...] = _all(features, "granted")
        self.started: tuple[Callable[[Container], bool], ...] = _all(features, "started")
        self.run_time: tuple[Callable[[Container, int], int], ...] = _all(features, "run_time")
        self.over: tuple[Callable[[Container], None], ...] = _all(features, "over")
        self.counts: tuple[Callable[[Container], bool], ...] = _all(features, "counts")
        self.heard: tuple[Callable[[Master], None], ...] = _all(features, "heard")
        self.left: tuple[Callable[[Container], None], ...] = _all(features, "left")
        self.lasting: tuple[Callable[[], int], ...] = _all(features, "lasting")
        self.job_over: tuple[Callable[[], None], ...] = _all(features, "job_over")
        self.runs: Callable[[Container], None] | None = _one(features, "runs")
        self.ended: Callable[[Container], bool] | None = _one(features, "ended")
        self.completed: Callable[[Event], list[Decision]] | None = _one(features, "completed")


def _all(features: Sequence[Feature], name: str) -> tuple[Callable[..., Any], ...]:
    return tuple(getattr(each, name) for each in features if getattr(type(each), name) is not getattr(Feature, name))


def _one(features: Sequence[Feature], name: str) -> Callable[..., Any] | None:
    found = _all(features, name)
    assert len(found) < 2, f"two features say what happens in `{name}`"
    return found[0] if found else None
