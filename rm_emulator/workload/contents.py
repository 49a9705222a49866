"""Facts that a source of jobs has, and the reader's assumption for each fact that the source lacks."""

from __future__ import annotations

from typing import Final

import msgspec

_ASSUMED: Final = {
    "gangs": "Tasks of a stage start one by one.",
    "gpu": "No task asks for a GPU.",
    "queue": "Every job goes to the queue `default`.",
    "user": "Jobs have no user.",
    "recurrence": "Jobs have no name, so earlier runs of a job are not recognised.",
    "dag": "No stage waits for another stage, no job for another job.",
    "submission": "A job arrives when its first task starts.",
    "dates": "Times count from the start of the trace; the time of day and the weekday are unknown.",
}


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a trace by flag. A flag is false if the trace does not have the fact; `lacks` then has the assumption.

    Without a sentence in `lacks`, a false flag means that nobody knows.
    """

    task_times: bool = False
    """Run time of each task. False: a single run time stands for several tasks, so their variation is unknown."""
    recurrence: bool = False
    """A name, program or logical id that recognises the runs of one job."""
    gangs: bool = False
    """Tasks that start together."""
    cpu: bool = False
    """Cores of a task."""
    memory: bool = False
    """Memory of a task."""
    gpu: bool = False
    """GPUs of a task."""
    queue: bool = False
    """Queue of a job."""
    user: bool = False
    """User of a job."""
    dag: bool = False
    """Order among the stages of a job."""
    submission: bool = False
    """Time of each job's submission, as distinct from the start of its tasks."""
    dates: bool = False
    """Calendar dates of arrivals. Times of a workload count from the first arrival; `Workload.began` has its date."""
    lacks: dict[str, str] = {}
    """Assumption of the reader for each false flag, one sentence per flag."""

    @classmethod
    def lacking(cls, *usual: str, **assumed: str) -> Contents:
        """Every fact but the named ones.

        `usual`: lacking facts with the usual assumption. `assumed`: lacking facts with their own sentence.
        Raises TypeError for the name of no fact, KeyError for a fact without a usual assumption.
        """
        return msgspec.structs.replace(cls(), **dict.fromkeys(FACTS, True)).without(*usual, **assumed)

    def without(self, *usual: str, **assumed: str) -> Contents:
        """The same contents with further facts lacking. Parameters and errors as for `lacking`."""
        named = {name: _ASSUMED[name] for name in usual} | assumed
        lacks = {name: sentence for name in FACTS if (sentence := named.get(name, self.lacks.get(name, "")))}
        return msgspec.structs.replace(self, **dict.fromkeys(named, False), lacks=lacks)

    @property
    def carried(self) -> list[str]:
        """Names of the true flags."""
        return [name for name in FACTS if getattr(self, name)]


def plain(fact: str) -> str:
    """The name of a flag as words."""
    return fact.replace("_", " ")


#: Names of the flags.
FACTS: Final = tuple(name for name in Contents.__struct_fields__ if name != "lacks")
