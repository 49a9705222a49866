"""Orders out: the acts of the core, in the imperative. A decision has the time of the event before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from schedulers.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping


# No garbage collection: decisions are made by the million and hold no cycles.
class Decision(msgspec.Struct, frozen=True, tag_field="decision", omit_defaults=True, gc=False):
    """An order of the core to its shell."""


class Place(Decision, frozen=True, tag="Place"):
    """Start a container on a node and run a task inside (a YARN container, a pod, a new executor)."""

    container: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int = 0


# Not a Place with a flag: readers of logs count each Place as the start of a task.
class Copy(Decision, frozen=True, tag="Copy"):
    """Start another container of a task under way or done, on a different node."""

    container: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int = 0


class Run(Decision, frozen=True, tag="Run"):
    """Run another task of the same job in an executor of the job."""

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
    """Bring an executor to a job with no task for the executor yet: an idle executor, or a new container on a node.

    The executor waits at the job, idle, for a stage with tasks of the same size as the stage named here.
    """

    container: int
    job: str
    stage: int
    node: str = ""


class Release(Decision, frozen=True, tag="Release"):
    """Give an executor without a task back to its node."""

    container: int


class Preempt(Decision, frozen=True, tag="Preempt"):
    """Kill a container: the rule behind the choice, and the job to make room for."""

    container: int
    rule: str
    cause: str = ""


class Reserve(Decision, frozen=True, tag="Reserve", omit_defaults=True):
    """Keep nodes for work that cannot start piecemeal: a large task, or a gang."""

    job: str
    stage: int
    nodes: tuple[tuple[str, int], ...]
    """Node ids, each with the number of tasks to keep the node for."""
    starts: int
    """Expected time of enough room, by the estimates of running tasks, ms. Different tasks may run on the nodes until
    then; late ends do not move the time.
    """
    guessed: bool = False
    """Whether `starts` depends on a task without an estimate. The time may then be far too late, so no different task
    starts on the nodes.
    """


class Hold(Decision, frozen=True, tag="Hold"):
    """Say why waiting tasks of a job do not start: the first reason, said only when the reason changes.

    The numbers behind it are not part of the log; `Scheduler.explain` has them all.
    """

    job: str
    reason: Reason


class Send(Decision, frozen=True, tag="Send"):
    """Bring a message to its receiver, who hears the message as `Delivered`."""

    message: Any
    """A struct of the sender's own, or plain data when read from a log: the core never looks inside."""


# No tag, because no log holds it: a started task already tells that the job goes on.
class Resume(Decision, frozen=True):
    """End the last `Hold` of a job: no task of the job waits any more. Neither logged nor told to the shell."""

    job: str


AnyDecision = Place | Copy | Run | Move | Commit | Release | Preempt | Reserve | Hold | Send


def describe(decision: Decision) -> Mapping[str, object]:
    """A decision as plain data, in the form used by the log."""
    data: dict[str, object] = msgspec.to_builtins(decision)
    return data
