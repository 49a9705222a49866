"""Containers as their nodes see them."""

from __future__ import annotations

from rm_emulator.engine.masters import Master
from rm_emulator.engine.recording import Attempt
from rm_emulator.engine.waves import Wave
from schedulers.core.decisions import Move, Place, Run


class Container(Attempt, kw_only=True, eq=False):
    """A container, the attempt that is in it, and what only the engine knows of that.

    index: its node's. master: of the job that it is for. runtime: of the attempt, ms.
    distance: from the task's input, see `Distances`; None: no input.
    wave: what measured run times are told of the executor. turn: how often the end was foretold, where others move it.
    """

    index: int
    master: Master
    runtime: int = 0
    distance: int | None = None
    wave: Wave = "fresh"
    turn: int = 0

    def take(self, decision: Place | Run | Move, master: Master, now: int, pilot: bool) -> None:
        """It is granted a task."""
        self.master, self.job = master, decision.job
        self.stage, self.task, self.attempt = decision.stage, decision.task, decision.attempt
        self.granted_ms, self.started_ms, self.distance, self.pilot = now, None, None, pilot


def empty(number: int, node: str, index: int, master: Master) -> Container:
    """A new container on its way to a job, without a task as yet."""
    return Container(master.name, -1, -1, 0, node, number, 0, None, 0, False, 0, index=index, master=master)
