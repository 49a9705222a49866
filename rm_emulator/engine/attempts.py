"""Containers as their nodes see them, and the attempts that run in them."""

from __future__ import annotations

from typing import Any

from rm_emulator.engine.masters import Master


class Attempt:
    """A container as its node sees it."""

    __slots__ = (
        "attempt",
        "distance",
        "granted",
        "id",
        "job",
        "node",
        "pilot",
        "runtime",
        "stage",
        "started",
        "task",
        "turn",
        "wave",
    )

    def __init__(self, number: int, node: int) -> None:
        self.id, self.node = number, node
        self.started: int | None = None
        self.runtime = 0
        self.distance: int | None = None  # from its task's input
        self.wave: Any = "fresh"
        self.turn = 0  # how often the end was foretold, where others can move it
        self.job: Master
        self.stage = self.task = self.attempt = self.granted = 0
        self.pilot = False
