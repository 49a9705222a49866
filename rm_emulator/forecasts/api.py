"""`rm_emulator.simulate`: the answer of the command `simulate` as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import polars as pl

from rm_emulator.experiments.api import Results
from rm_emulator.experiments.engines import engine_of
from rm_emulator.forecasts.answers import Answer, Expected
from rm_emulator.forecasts.asked import Question
from rm_emulator.forecasts.changes import AskedChange
from rm_emulator.forecasts.picture import delays, ends
from rm_emulator.forecasts.sources import EARLIER, answered
from rm_emulator.issues import InvalidInput, Issue, show_value
from rm_emulator.results import palette
from rm_emulator.scenario.durations import parse_duration
from rm_emulator.scenario.live import LiveCluster

_TIMES: Final = ("p10_s", "p50_s", "p90_s")


class Forecast(msgspec.Struct, frozen=True):
    """When jobs start and end, as foreseen at a moment. Times: s on the clock of the run; of a cluster, since 1970."""

    answer: Answer

    @property
    def jobs(self) -> pl.DataFrame:
        """A row per live job and per job asked about.

        Columns: job, queue, user, asked, tasks, ended, running, start_p10_s to start_p90_s (null where it has started),
        finish_p10_s to finish_p90_s (null where nothing is known, or where so many draws end without the job).
        """
        live = [
            {
                **{"job": job.job, "queue": job.queue, "user": job.user, "asked": False, "tasks": job.tasks},
                **{"ended": job.ended, "running": job.running},
                **_times("start", job.start),
                **_times("finish", job.finish),
            }
            for job in self.answer.jobs
        ]
        new = [
            {"job": job.job, "asked": True, **_times("start", job.start), **_times("finish", job.finish)}
            for job in self.answer.asked
        ]
        return pl.DataFrame([*new, *live], schema=_JOBS)

    @property
    def delays(self) -> pl.DataFrame:
        """A row per job that ends later or sooner because of a job asked about: because, job, p10_s, p50_s, p90_s."""
        rows = [
            (new.job, each.job, each.p10_ms / 1000, each.p50_ms / 1000, each.p90_ms / 1000)
            for new in self.answer.asked
            for each in new.delays
        ]
        return pl.DataFrame(
            rows, {"because": pl.String, "job": pl.String, **dict.fromkeys(_TIMES, pl.Float64)}, orient="row"
        )

    @property
    def compared(self) -> pl.DataFrame:
        """A row per job that ends later or sooner with a change to the present: job, p10_s, p50_s, p90_s."""
        found = self.answer.compared.jobs if self.answer.compared is not None else ()
        rows = [(each.job, each.p10_ms / 1000, each.p50_ms / 1000, each.p90_ms / 1000) for each in found]
        return pl.DataFrame(rows, {"job": pl.String, **dict.fromkeys(_TIMES, pl.Float64)}, orient="row")

    @property
    def tried(self) -> pl.DataFrame:
        """A row per change that lets a job asked about end sooner: job, change, sooner_s (median)."""
        rows = [(new.job, each.change, each.sooner_ms / 1000) for new in self.answer.asked for each in new.sooner]
        return pl.DataFrame(rows, {"job": pl.String, "change": pl.String, "sooner_s": pl.Float64}, orient="row")

    @property
    def held(self) -> float | None:
        """Share of earlier 80 % intervals that held the end that came; None where none can be judged."""
        record = self.answer.record
        return None if record is None else record.held / record.answers

    def plot(self, picture: Literal["ends", "delays"] = "ends", *, dark: bool = False) -> Any:
        """A plotly figure, which a notebook shows: the fan of ends by job, or who ends later and who sooner.

        Raises ValueError for any other picture.
        """
        from plotly import graph_objects

        if picture not in _PICTURES:
            raise ValueError(f"no picture '{picture}' (there are: {', '.join(_PICTURES)})")
        title, figure = _PICTURES[picture](self.answer)
        return graph_objects.Figure(**palette.framed(figure, title, dark=dark))

    def _repr_html_(self) -> str:
        """The jobs as a table, for notebooks."""
        return str(self.jobs._repr_html_())


_PICTURES: Final = {"ends": ends, "delays": delays}
_JOBS: Final[dict[str, Any]] = {
    **{"job": pl.String, "queue": pl.String, "user": pl.String, "asked": pl.Boolean},
    **{"tasks": pl.Int64, "ended": pl.Int64, "running": pl.Int64},
    **{f"{what}_{time}": pl.Float64 for what in ("start", "finish") for time in _TIMES},
}


def _times(what: str, expected: Expected | None) -> dict[str, float | None]:
    values = (None,) * 3 if expected is None else (expected.p10_ms, expected.p50_ms, expected.p90_ms)
    return {f"{what}_{time}": None if ms is None else ms / 1000 for time, ms in zip(_TIMES, values, strict=True)}


def simulate(
    run: Results | str | Path | None = None,
    at: str | float | None = None,
    file: str | Path | None = None,
    *,
    from_: str | Path | None = None,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    kubectl: str = "kubectl",
    label: str | None = None,
    seed: int | None = None,
    draws: int = 50,
    arrivals: str | float | None = None,
    earlier: int | None = None,
    tries: bool = True,
    policy: str | Mapping[str, Any] | None = None,
    drain: str | Iterable[str] = (),
    add: str | Iterable[str] = (),
    plugins: Iterable[str | Path] = (),
    engine: str | None = None,
) -> Forecast:
    """Play a run or a live cluster on from a moment, draw by draw: when will its jobs start and end?

    run: results or a run directory. at: the moment, as a duration (`"2h"`; a number is seconds). from_: in place of
    both, as the command takes `--from`: `"RUN_DIR@TIME"`, or a file with the memory of a brain. kubeconfig: in place of
    a run, a live cluster; context, kubectl: of its kubeconfig, and the program. file: a file of jobs to ask about.
    label, seed: the first label and seed by default. arrivals: jobs go on to arrive as in the last so long before the
    moment; None: none arrive. earlier: number of earlier moments at which the same is asked, to judge the answers (3;
    label, seed and earlier are of runs). tries: whether changes to a job asked about are tried. policy, drain, add: a
    change to the present that is compared with the present as it is: another policy (its kind, or an entry of
    `policies`), nodes that take no new containers, and more nodes like a node (`"10xn1"`). plugins: of the run if its
    own have moved; with another policy, of the other policy. engine: as for `run`, a Dask cluster whose workers play.
    Raises `rm_emulator.issues.InvalidInput`.
    """
    source = None if from_ is None else str(from_)
    if run is not None:
        folder = run.path if isinstance(run, Results) else Path(run)
        if at is None or source is not None or kubeconfig is not None:
            raise InvalidInput(f"run {folder} goes with at=TIME, and with neither from_ nor kubeconfig")
        source = f"{folder}@{_ms('at', at)}ms"
    elif at is not None:
        raise InvalidInput(f"at={show_value(at)} is a moment of a run (expected a run directory before the moment)")
    question = Question(
        at_ms=0,
        file=None if file is None else Path(file),
        draws=draws,
        earlier=EARLIER if earlier is None else earlier,
        tries=tries,
        arrivals_ms=0 if arrivals is None else _ms("arrivals", arrivals),
        change=AskedChange(policy, _several(drain), _several(add)),
    )
    cluster = None if kubeconfig is None else LiveCluster(Path(kubeconfig), context, kubectl)
    of_runs = {"label": label, "seed": seed, "earlier": earlier}
    files = tuple(map(Path, plugins))
    how = {"engine": None if engine is None else engine_of(engine, None)}
    return Forecast(answered(source, question, cluster, of_runs, files, how))


def _several(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _ms(name: str, value: str | float) -> int:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise InvalidInput([Issue(f"{name}={show_value(value)}", str(error))]) from None
