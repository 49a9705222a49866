"""What schedulers and workers that share no state say to each other (Sparrow, SOSP 2013, sections 3 and 4).

A message goes from a job's scheduler to workers, or from one worker to a job's scheduler. One with several workers
stands for as many messages of the same words, sent at once in this order.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag_field="message", gc=False):
    """Words about one stage of a job. scheduler: the job's, by number; from or to it."""

    job: str
    stage: int
    scheduler: int


class Probe(Message, frozen=True, tag="Probe"):
    """To workers: how much runs and waits there? task: for which it is asked, -1 for all tasks of the stage."""

    workers: tuple[str, ...]
    task: int = -1


class Load(Message, frozen=True, tag="Load"):
    """From a worker that was probed: so many tasks run or wait there."""

    worker: str
    load: int
    task: int = -1


class Reservation(Message, frozen=True, tag="Reservation"):
    """To workers: a probe of late binding. Queue a reservation; at its turn, with a slot free, request a task."""

    workers: tuple[str, ...]


class Request(Message, frozen=True, tag="Request"):
    """From a worker: a slot is free and kept for what the scheduler says."""

    worker: str


class Launch(Message, frozen=True, tag="Launch"):
    """To a worker: run this task, in the slot that was kept for it (`kept`), or when its turn in the queue comes."""

    worker: str
    task: int
    kept: bool = False


class NoTask(Message, frozen=True, tag="NoTask"):
    """To a worker that has requested a task: there is none left."""

    worker: str


class Cancellation(Message, frozen=True, tag="Cancellation"):
    """To workers: forget the reservations of this stage that are still in your queue."""

    workers: tuple[str, ...]


AnyMessage = Probe | Load | Reservation | Request | Launch | NoTask | Cancellation
