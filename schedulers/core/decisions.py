"""Orders out: what is to be done now, in the imperative. A decision's time is that of the event before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from schedulers.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping


class Decision(msgspec.Struct, frozen=True, tag_field="decision", omit_defaults=True, gc=False):
    """One order of the core to its shell."""


class Place(Decision, frozen=True, tag="Place"):
    """Start a container on a node and run one task in it (a YARN container, a pod, a new executor)."""

    container: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int = 0


class Copy(Decision, frozen=True, tag="Copy"):
    """Start one more container of a task that is under way or done, on another node."""

    container: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int = 0


class Run(Decision, frozen=True, tag="Run"):
    """Run one more task of the same job in an executor that it holds."""

    container: int
    job: str
    stage: int
    task: int
    attempt: int = 0


class Move(Decision, frozen=True, tag="Move"):
    """Hand an idle executor to another job; the task runs when the executor has arrived."""

    container: int
    job: str
    stage: int
    task: int
    attempt: int = 0


class Commit(Decision, frozen=True, tag="Commit"):
    """Bring an executor to a job before it has a task for it: one without work, or a new one on a node.

    It waits there, idle, for a stage whose tasks are of the same size as this one's.
    """

    container: int
    job: str
    stage: int
    node: str = ""


class Release(Decision, frozen=True, tag="Release"):
    """Give an executor without a task back to its node."""

    container: int


class Preempt(Decision, frozen=True, tag="Preempt"):
    """Kill a container: the rule that chose it, and the job that it makes room for."""

    container: int
    rule: str
    cause: str = ""


class Reserve(Decision, frozen=True, tag="Reserve", omit_defaults=True):
    """Keep nodes for what cannot start piecemeal: a large task, or a gang.

    nodes: each with the number of tasks that it is kept for. starts: when there is room, by the estimates of what runs
    (ms); others may run there until then, and it is not put off when they take longer. guessed: of something that has
    to end before nobody knows how long it takes, so `starts` may come much too late, and nobody else starts there.
    """

    job: str
    stage: int
    nodes: tuple[tuple[str, int], ...]
    starts: int
    guessed: bool = False


class Hold(Decision, frozen=True, tag="Hold"):
    """A job with waiting tasks does not get (more of) them now: the first reason, said only when it changes.

    The numbers behind it are not part of the log; `Scheduler.explain` has them all.
    """

    job: str
    reason: Reason


class Send(Decision, frozen=True, tag="Send"):
    """Bring a message to whom it is for; it is heard as `Delivered`."""

    message: Any
    """A struct of whoever sends messages, plain data where it was read from a log: the core looks into none."""


class Resume(Decision, frozen=True):
    """Nothing of the job waits any more, so what was said of it last is over. Not in the log, nor told to the shell."""

    job: str


AnyDecision = Place | Copy | Run | Move | Commit | Release | Preempt | Reserve | Hold | Send


def describe(decision: Decision) -> Mapping[str, object]:
    """A decision as plain data, as it stands in the log."""
    data: dict[str, object] = msgspec.to_builtins(decision)
    return data
