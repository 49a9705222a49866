"""A cell of a run directory at a moment: the run is played again up to there, and can then go on in other ways.

A cell is a pure function of its scenario, policy and seed, so the play up to the moment is the run itself, with all
parts of the engine: heartbeats, launches and transfers on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rm_emulator.engine.branch import obstacle
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.takeover import Past
from rm_emulator.experiments.advice import RecordedCell, recorded_cell
from rm_emulator.experiments.assembly import assemble
from rm_emulator.experiments.changes import CellSetting
from rm_emulator.forecasts.draws import KnownRunTimes
from rm_emulator.forecasts.run_times import Listener
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.plugins import load_plugins
from rm_emulator.results.replay import cell_of, load_plugins_of
from rm_emulator.scenario.durations import parse_duration, show_duration
from schedulers.core.abilities import Searches, ability
from schedulers.core.scheduler import Scheduler

Progress = Callable[[str], None]


class Paused(msgspec.Struct, kw_only=True):
    """A cluster at a moment, from which plays go on."""

    simulation: Simulation
    listener: Listener
    scheduler: Scheduler
    past: Past
    """What is over by the moment."""
    setting: CellSetting
    """Cluster and workload."""
    policy: str
    """Name of the policy in answers."""
    scenario: Mapping[str, Any]
    """The scenario that files of jobs are read by, as data."""
    at_ms: int = 0
    """The moment."""
    told_truth: bool = False
    """Whether the scheduler is told true run times (`oracle`): then nothing is drawn."""
    known: KnownRunTimes | None = None
    """The last answer of `moment`."""

    def moment(self) -> KnownRunTimes | None:
        """What is known of run times now; None where run times are true ones."""
        if not self.told_truth and (self.known is None or self.known.now != self.at_ms):
            self.known = KnownRunTimes(self.listener, self.at_ms, self.setting.seed)
        return self.known


class PausedRun(Paused, kw_only=True):
    """A run of the emulator at a moment."""

    recorded: RecordedCell

    def advance(self, at_ms: int) -> None:
        """Go on to a later moment under the true run times."""
        if at_ms > self.at_ms:
            self.simulation.calendar.advance(at_ms)
            self.at_ms = at_ms


def parse_moment(text: str) -> tuple[Path, int]:
    """Run directory and moment (ms) of `RUN_DIR@TIME`. Raises InvalidInput."""
    folder, sign, time = text.rpartition("@")
    if not sign:
        raise InvalidInput([Issue(f"--from {text}", "names no moment (expected RUN_DIR@TIME, such as out/demo@2h)")])
    try:
        return Path(folder), parse_duration(time)
    except ValueError as error:
        raise InvalidInput([Issue(f"--from {text}", str(error))]) from None


def paused(
    folder: Path, label: str | None = None, seed: int | None = None, plugins: Sequence[str | Path] = ()
) -> PausedRun:
    """The cell of a run directory at its beginning.

    label, seed: the run's first by default. Raises InvalidInput for a folder without runs, for a run of another
    version, and for a run that cannot go on with other run times.
    """
    directory = cell_of(folder, label, seed)
    beside = directory / "cell.json"
    names = load_plugins(plugins) if plugins else load_plugins_of(beside)
    try:
        recorded = recorded_cell(beside, names)
    except InvalidInput as error:
        if not plugins:
            raise
        hint = f"run the scenario again, or leave out --plugin {plugins[0]}"
        raise InvalidInput([msgspec.structs.replace(each, hint=hint) for each in error.issues]) from None
    return paused_cell(recorded)


def _budget(scheduler: Scheduler | None) -> str:
    """As `obstacle`: a search stopped by the clock ends elsewhere when the run is played again."""
    searches = None if scheduler is None else ability(scheduler.policy, Searches)
    stops = searches is not None and searches.has_budget
    return "the clock stops the searches of its policy (give the policy `budget_ms: null`)" if stops else ""


def paused_cell(recorded: RecordedCell) -> PausedRun:
    """A cell at its beginning. Raises InvalidInput for a run that cannot go on with other run times."""
    setting = recorded.setting
    entry = recorded.cell.scenario["spec"]["policies"][0]
    sources = {source.job.id: source for source in setting.built.workload.jobs}
    past = Past(sources, {node.id: node.speed for node in setting.config.nodes})
    made = assemble(recorded.scenario, entry, setting.seed, setting.built, past, config=setting.config)
    simulation = made.simulation
    (scheduler, *_) = made.deciders.schedulers or (None,)
    if why := obstacle(simulation) or _budget(scheduler):
        raise InvalidInput([Issue(str(recorded.directory), f"cannot be simulated from a moment on: {why}")])
    assert scheduler is not None
    listener = Listener(scheduler.state)
    simulation.control.handle = listener.around(simulation.control.handle)
    simulation.begin(recorded.scenario.spec.until)
    truth = scheduler.predictor is not None and scheduler.predictor.told_truth
    return PausedRun(
        recorded=recorded,
        simulation=simulation,
        listener=listener,
        scheduler=scheduler,
        past=past,
        setting=setting,
        policy=entry["label"],
        scenario=recorded.cell.scenario,
        told_truth=truth,
    )


def refuse_late(run: PausedRun, at_ms: int) -> None:
    """Raise InvalidInput for a moment at which the run is over."""
    if not run.simulation.jobs and not run.simulation.arrivals.are_left:
        at, end = show_duration(at_ms), show_duration(run.simulation.end_ms)
        raise InvalidInput([Issue(f"@{at}", f"the run is over by then: its last job ended at {end}")])
