"""Plays on the workers of a cluster (`simulate --engine`): each makes the paused run itself, and plays a part."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rm_emulator.experiments.advice import rebuilt
from rm_emulator.experiments.call import Call, CallFailed, CallLost, CallPlace, Needs
from rm_emulator.experiments.cell import Cell, paths_of
from rm_emulator.forecasts.moment import Paused, PausedRun, paused_cell
from rm_emulator.forecasts.plans import Here, Plan
from rm_emulator.forecasts.plays import Courses, PlayFailed, PlayKilled
from rm_emulator.forecasts.present import Present, paused_present
from rm_emulator.plugins import load_plugins

if TYPE_CHECKING:
    from rm_emulator.experiments.dask_calls import Calls
    from rm_emulator.experiments.dask_engine import DaskEngine

#: Draws of a call: a call pays once for its process, and a worker that dies loses no more. The origin travels with each
#: call: 20 ms of CPU for the 2 MB of 400 nodes and 3,000 jobs, whose five plays take 2.5 s.
_DRAWS: Final = 5


class Origin(NamedTuple):
    """Where a paused run comes from: a cell of a run directory, or the memory of a brain."""

    source: Cell | Present
    plugins: tuple[str, ...] = ()
    """Files to import besides those of the cell."""


class RemotePlays:
    """Plays on an engine's workers; answers are those of one machine. note: hears of what is worth a line.

    Raises InvalidInput for workers of another program, and for a scheduler that does not answer.
    """

    def __init__(self, engine: DaskEngine, origin: Origin, note: Callable[[str], None]) -> None:
        self._engine, self._origin, self._note = engine, origin, note
        self._name = uuid.uuid4().hex
        cell = origin.source
        inputs = paths_of(cell.scenario, (*cell.plugins, *origin.plugins)) if isinstance(cell, Cell) else origin.plugins
        self._needs = Needs(list(dict.fromkeys(inputs)))
        self._opened = ExitStack()
        self._calls: Calls | None = None
        engine.greet(self._needs)

    def play(self, plan: Plan) -> list[Courses]:
        """See Player; raises InvalidInput, too, for a scheduler that stays away."""
        if self._calls is None:
            self._calls = self._opened.enter_context(self._engine.open(self._needs, self._note))
        parts = [plan.draws[first : first + _DRAWS] for first in range(0, len(plan.draws), _DRAWS)]
        try:
            found = self._calls.begin([self._call(plan, part) for part in parts])()
        except (CallFailed, CallLost) as error:
            raise PlayFailed(str(error)) from error
        return [courses for part in found for courses in part]

    def close(self) -> None:
        """End the connection."""
        self._opened.close()

    def _call(self, plan: Plan, draws: Sequence[int]) -> Call:
        part = msgspec.structs.replace(plan, draws=tuple(draws))
        return Call(f"draws {draws[0]} to {draws[-1]}", _play, (self._name, self._origin, part))


def _play(asked: tuple[str, Origin, Plan], place: CallPlace) -> list[Courses]:
    name, origin, plan = asked
    try:
        return _player(name, origin, plan.at_ms, place).play(plan)
    except PlayKilled:
        # As the call of a cell that is killed: `dask_calls.ATTEMPTS` processes play the call before the question ends.
        os.kill(os.getpid(), signal.SIGKILL)
        raise


#: Of a process, the last run that was asked about: questions come in order of their moments, and many to a moment.
#: By the name of whoever asks, since an origin that has travelled equals no other.
_kept: Final[list[tuple[str, Paused, Here]]] = []


def _player(name: str, origin: Origin, at_ms: int, place: CallPlace) -> Here:
    if not (_kept and _kept[0][0] == name and _kept[0][1].at_ms <= at_ms):
        run = _made(origin, place)
        _kept[:] = [(name, run, Here(run, at_once=1))]
    _, run, here = _kept[0]
    if isinstance(run, PausedRun):
        run.advance(at_ms)
    return here


def _made(origin: Origin, place: CallPlace) -> Paused:
    load_plugins(place.moved.get(file, file) for file in origin.plugins)
    if isinstance(origin.source, Present):
        return paused_present(origin.source)
    cell = replace(origin.source, moved=place.moved)
    return paused_cell(rebuilt(cell, cell.place, 0.0))
