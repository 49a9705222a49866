"""Messages between schedulers and workers without shared state (Sparrow, SOSP 2013, sections 3 and 4).

A message goes from a job's scheduler to workers, or from a worker to a job's scheduler. A message with several workers
stands for as many messages with the same words, sent at once in the order given.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag_field="message", gc=False):
    """Words about a stage of a job. scheduler: number of the job's scheduler, the sender or the receiver."""

    job: str
    stage: int
    scheduler: int


class Probe(Message, frozen=True, tag="Probe"):
    """To workers: how many tasks run and wait there? task: the task in question, -1 for all tasks of the stage."""

    workers: tuple[str, ...]
    task: int = -1


class Load(Message, frozen=True, tag="Load"):
    """From a probed worker: number of tasks that run or wait there."""

    worker: str
    load: int
    task: int = -1


class LateBindingProbe(Message, frozen=True, tag="Reservation"):
    """To workers: a probe of late binding. Queue the probe; at its turn, with a slot free, request a task."""

    workers: tuple[str, ...]


class TaskRequest(Message, frozen=True, tag="Request"):
    """From a worker: a slot is free and kept for the scheduler's answer."""

    worker: str


class Launch(Message, frozen=True, tag="Launch"):
    """To a worker: run a task, in the slot kept for the answer (`kept`), or when its turn in the queue comes."""

    worker: str
    task: int
    kept: bool = False


class NoTask(Message, frozen=True, tag="NoTask"):
    """To a worker with a request for a task: no task is left."""

    worker: str


class Cancellation(Message, frozen=True, tag="Cancellation"):
    """To workers: forget the stage's probes still in the queue."""

    workers: tuple[str, ...]


class TaskFailed(Message, frozen=True, tag="Failed"):
    """From a worker: a task has failed there."""

    task: int


AnyMessage = Probe | Load | LateBindingProbe | TaskRequest | Launch | NoTask | Cancellation | TaskFailed


def receivers(message: AnyMessage) -> tuple[str, ...]:
    """The workers to which a message goes; () for a message to a scheduler."""
    if isinstance(message, Launch | NoTask):
        return (message.worker,)
    return message.workers if isinstance(message, Probe | LateBindingProbe | Cancellation) else ()


def alone(message: AnyMessage, worker: str) -> AnyMessage:
    """The message to one of its receivers."""
    if isinstance(message, Probe | LateBindingProbe | Cancellation):
        there = message.workers.count(worker)
        return msgspec.structs.replace(message, workers=(worker,) * there)
    return message


def without(message: AnyMessage, worker: str) -> AnyMessage | None:
    """The message without this receiver; None: no receiver is left."""
    if isinstance(message, Probe | LateBindingProbe | Cancellation):
        left = tuple(each for each in message.workers if each != worker)
        return msgspec.structs.replace(message, workers=left) if left else None
    return None if receivers(message) == (worker,) else message
