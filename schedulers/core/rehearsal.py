"""Input and result of a rehearsal: plain data, told to the core as a fact (event Rehearsed).

A rehearsal plays a job forward on a number of containers, many times, with run times drawn from estimates. A play takes
too long for a waiting decision, so the program around the scheduler plays and tells the result;
`schedulers.planning.jockey.rehearsal` is the play itself.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Indicator = Annotated[
    Literal["totalworkWithQ", "totalwork", "vertexfrac", "cp", "minstage", "minstage_inf"],
    msgspec.Meta(
        description="measure of a job's progress, from 0 to 1, by the finished part of each stage (Jockey's names)"
    ),
]


class Act(msgspec.Struct, frozen=True):
    """A stage as played: `tasks` tasks, each of about `task_ms`, when all of `parents` (indexes) are done."""

    tasks: int
    parents: tuple[int, ...]
    task_ms: float
    spread: float = 0.0
    """Standard deviation of the estimate over the estimate: a single draw moves all tasks of the stage."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be played."""

    acts: tuple[Act, ...]
    allocations: tuple[int, ...]
    """Numbers of containers, ascending; the profiles of stages are of plays on the last."""
    indicator: Indicator = "totalworkWithQ"
    draws: int = 1
    """Number of plays of each allocation."""
    variation: float = 0.0
    """Variation among tasks of a stage, standard deviation over mean."""
    seed: int = 0


class StageProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Job profile (Jockey) of a stage in a run of its job; times in ms, begin and end from the job's own start."""

    tasks: int
    parents: tuple[int, ...] = ()
    queued: int = 0
    """Sum over all tasks of the time between the first possible start and their own start."""
    run: int = 0
    """Sum over all tasks of the time between their start and their end."""
    longest: int = 0
    """Run time of the longest task."""
    begin: int = 0
    end: int = 0


# As an array: a table has hundreds of rows, and the log keeps each table.
class Row(msgspec.Struct, frozen=True, array_like=True):
    """Remaining time (ms) by allocation, from a progress on; in most plays, and in half of them."""

    progress: float
    remaining_ms: tuple[int, ...]
    usual_ms: tuple[int, ...] = ()


class Table(msgspec.Struct, frozen=True):
    """C(progress, allocation) (Jockey, EuroSys'12): rows from progress 0 on, columns by allocation, both ascending."""

    allocations: tuple[int, ...]
    rows: tuple[Row, ...]

    def at(self, progress: float) -> Row:
        """The row with the largest progress not above the given progress."""
        found = self.rows[0]
        # A plain loop: the table is asked for a job once per period of the policy.
        for row in self.rows:
            if row.progress > progress:
                break
            found = row
        return found
