"""What a rehearsal is given and what comes of it: plain data, told to the core as a fact (event Rehearsed).

A rehearsal plays one job forward on so many containers at once, many times, with run times drawn from estimates. It
takes too long to be played while a decision waits, so whoever runs the scheduler plays it and tells what came of it;
`schedulers.planning.jockey.rehearsal` is the play itself.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Indicator = Annotated[
    Literal["totalworkWithQ", "totalwork", "vertexfrac", "cp", "minstage", "minstage_inf"],
    msgspec.Meta(description="how far a job is, from 0 to 1, by how much of each stage is done (Jockey's names)"),
]


class Act(msgspec.Struct, frozen=True):
    """One stage as it is played: so many tasks, each of about `task_ms`, when all of `parents` (indexes) are done.

    spread: standard deviation of the estimate over the estimate: one draw moves all tasks of the stage.
    """

    tasks: int
    parents: tuple[int, ...]
    task_ms: float
    spread: float = 0.0


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be played.

    allocations: containers at once, ascending; the last is also the one of which the stages' course is told. draws: so
    many plays of each. variation: of the tasks of one stage among themselves, standard deviation over mean.
    """

    acts: tuple[Act, ...]
    allocations: tuple[int, ...]
    indicator: Indicator = "totalworkWithQ"
    draws: int = 1
    variation: float = 0.0
    seed: int = 0


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage went through in one run of its job; times in ms, begin and end from the job's own start.

    queued, run: over all its tasks, between the moment at which the first could start and their own start, and until
    their end. longest: of one task.
    """

    tasks: int
    parents: tuple[int, ...] = ()
    queued: int = 0
    run: int = 0
    longest: int = 0
    begin: int = 0
    end: int = 0


class Row(msgspec.Struct, frozen=True, array_like=True):
    """From this progress on: how long it still takes (ms), by allocation; in most plays, and in half of them."""

    progress: float
    remaining_ms: tuple[int, ...]
    usual_ms: tuple[int, ...] = ()


class Table(msgspec.Struct, frozen=True):
    """C(progress, allocation) (Jockey, EuroSys'12): rows from progress 0 on, columns by allocation, both ascending."""

    allocations: tuple[int, ...]
    rows: tuple[Row, ...]

    def at(self, progress: float) -> Row:
        """The row with the largest progress that is not above this one."""
        found = self.rows[0]
        for row in self.rows:
            if row.progress > progress:
                break
            found = row
        return found
