"""`rm_emulator.run` in Python: a scenario in, polars frames out."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import polars as pl
from rich.console import Console

from rm_emulator.experiments import arguments, directory, grid
from rm_emulator.experiments import explain as explaining
from rm_emulator.experiments.advice import Advice, advice_lines
from rm_emulator.experiments.progress import display as shown
from rm_emulator.issues import InvalidInput, Issue, show_value
from rm_emulator.plugins import load_plugins
from rm_emulator.results import compare as comparing
from rm_emulator.results import headline, metrics, palette, replay, statistics, summary, sweep, table
from rm_emulator.results.chart import Cells, charts
from rm_emulator.results.figures import Speedups, Summary
from rm_emulator.results.story import Story
from rm_emulator.scenario.check import check
from rm_emulator.scenario.durations import parse_seeds
from rm_emulator.scenario.load import load as load_scenario
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler

if TYPE_CHECKING:
    import pandas as pd


class CellsFailed(RuntimeError):
    """Some cells could not be computed; `failures` lists the cells with the files of their tracebacks.

    keeps_tracebacks: whether the files with the tracebacks stay; else the first traceback is shown with the error.
    """

    def __init__(self, failures: Sequence[grid.Failure], *, keeps_tracebacks: bool) -> None:
        first = failures[0].traceback
        if not keeps_tracebacks:
            failures = [msgspec.structs.replace(failure, traceback=None) for failure in failures]
        self.failures = tuple(failures)
        super().__init__("\n".join(["runs failed:", *map(str, failures)]))
        if first is not None and not keeps_tracebacks:
            self.add_note(first.read_text("utf-8"))


class Results:
    """The contents of a finished run directory. Frames are read on first use.

    summary: the contents of summary.json. path: the directory; of a run without `out` a temporary directory, removed
    with the last reference to the results.
    """

    def __init__(self, path: Path, summary: dict[str, Any]) -> None:
        self.path, self.summary = path, summary

    def __repr__(self) -> str:
        return f"Results({str(self.path)!r}, {len(self.summary['runs'])} runs)"

    def _repr_html_(self) -> str:
        """For notebooks: the table that the command prints."""
        whole = msgspec.convert(self.summary, Summary)
        title, columns = sweep.compared(whole) if whole.axes else table.compared(whole)
        rows = zip(*(column.cells for column in columns), strict=True)
        told = f"<p><b>{escape(headline.of(whole))}</b></p>"
        head = "".join(f"<th>{escape(column.heading)}</th>" for column in columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell.plain)}</td>' for cell in row)}</tr>" for row in rows)
        caption = f"<caption>{escape(title)}</caption>"
        return f"{told}<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    @cached_property
    def by_label(self) -> dict[str, dict[int, dict[str, Any]]]:
        """The runs of summary.json by label and seed, in its order; of a sweep the runs of its last point."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for run in self.summary["runs"]:
            found.setdefault(run["label"], {})[run["seed"]] = run
        return found

    def versus(self, label: str, baseline: str, *, of: Results | None = None) -> Speedups:
        """Speedup of `label` over `baseline`, paired job by job and seed by seed.

        Three averages of JCT(baseline) / JCT(label), each with its 95 % interval, as in `comparisons`. of: the results
        with the baseline, of the same jobs; the object itself by default. Raises
        `rm_emulator.results.summary.MissingCell` for a missing label, seed or table.
        """
        if label not in self.by_label:
            raise summary.MissingCell(f"{self.path}: no runs of '{label}' (there are: {', '.join(self.by_label)})")
        places = ((of or self).path, baseline), (self.path, label)
        return statistics.speedups([pair for _, pair in summary.paired(*places, sorted(self.by_label[label]))])

    def replayed(self, label: str, seed: int) -> Replay[Scheduler]:
        """The log of a run, decided on anew during iteration by its `scheduler`.

        Not for a run of several schedulers, of schedulers without a view of the cluster (Sparrow's), nor of a sweep.
        Raises InvalidInput where no whole log was kept (`log: full`), and during iteration
        `schedulers.core.replay.LogDiffers`.
        """
        logs = replay.logs_of(summary.cell_dir(self.path, label, seed))
        if len(logs) != 1:
            message = f"{len(logs)} logs of '{label}' with seed {seed}: expected one, which `log: full` keeps"
            raise InvalidInput([Issue(str(self.path), message)])
        return Replay(replay.log_lines(logs[0]))

    def _table(self, name: str, label: str, seed: int) -> pl.DataFrame:
        """A table of a cell, without a sweep."""
        return summary.read_table(summary.cell_dir(self.path, label, seed), name)

    def plot(
        self, chart: str, variant: str | None = None, *, point: int = 0, dark: bool = False, **settings: Any
    ) -> Any:
        """A chart of the report as a plotly figure, which a notebook shows.

        chart: a name of `rm-emulator charts`. variant: as in the chart's selector, such as a label; by default the
        first. point: of a sweep, from 1. settings: of the chart.
        Raises `schedulers.core.errors.UnknownName` for an unknown chart, `InvalidParameters` for a setting that the
        chart does not have, and ValueError where the run has nothing to show or no such variant.
        """
        from plotly import graph_objects

        cls, params = charts.parse({"kind": chart, **settings})
        drawn = cls(params).draw(Cells.of(self.path / summary.point_folder(point)))
        if drawn is None:
            raise ValueError(f"the run has nothing that chart '{chart}' shows")
        known = dict(drawn.variants)
        if variant is not None and variant not in known:
            raise ValueError(f"chart '{chart}' has no variant '{variant}' (it has: {', '.join(known)})")
        figure = known[variant] if variant is not None else drawn.variants[0][1]
        figure = {**figure, "layout": {"height": drawn.tall + 80, **figure["layout"]}}
        return graph_objects.Figure(**palette.framed(figure, drawn.title, dark=dark))

    def to_pandas(self, name: Literal["runs", "comparisons", "jobs", "tasks", "nodes"]) -> pd.DataFrame:
        """A frame for pandas, with columns of the same names, and so with the same units.

        Whole numbers are Int64, text is string and truth boolean, each with NA for missing values; fractions are
        float64 with NaN. Raises ModuleNotFoundError without pandas.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            message = "to_pandas needs pandas, which is not installed: pip install pandas"
            raise ModuleNotFoundError(message, name=error.name) from None
        frame: pl.DataFrame = getattr(self, name)
        return pd.DataFrame({c.name: pd.Series(c.to_list(), dtype=_pandas_type(c.dtype)) for c in frame.iter_columns()})

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row per cell, nested figures as columns such as `jct_s.mean`.

        Of a sweep each frame has a column for each axis in front, such as `sweep.workload.load`.
        """
        flat = [_flat(run, skip=("queues", "bins", "costs", "sweep")) for run in self.summary["runs"]]
        return self._with_sweep(pl.DataFrame(flat, infer_schema_length=None), self.summary["runs"])

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """One row per label and kind of speedup: label, baseline, statistic, value, low, high (95 % interval)."""
        entries = [(entry, kind) for entry in self.summary["comparisons"] for kind in entry["speedup"].items()]
        rows = [
            {
                "label": entry["label"],
                "baseline": entry["baseline"],
                "statistic": statistic,
                "value": speedup["value"],
                **dict(zip(("low", "high"), speedup["ci95"] or (None, None), strict=True)),
            }
            for entry, (statistic, speedup) in entries
        ]
        kinds = {"label": pl.String, "baseline": pl.String, "statistic": pl.String}
        frame = pl.DataFrame(rows, schema={**kinds, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64})
        return self._with_sweep(frame, [entry for entry, _ in entries])

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """jobs.parquet of every cell, with `label` and `seed` in front: clock times in ms, `jct_s` and `wait_s` in s.

        Further columns as in the report: `slowdown`, `error_pct` (of the estimated size), `bin` (SLearn's Table 8).
        An unfinished job has no JCT.
        """
        return metrics.timed(self._all("jobs"))

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """tasks.parquet of every cell, one row per attempt, with `label` and `seed` in front; times in ms."""
        return self._all("tasks")

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """nodes.parquet of every cell: use over time, with `label` and `seed` in front."""
        return self._all("nodes")

    def _all(self, table: str) -> pl.DataFrame:
        """A table of all cells; null where a cell lacks a column of others."""
        runs, numbers = self.summary["runs"], dict[bytes, int]()
        points = [
            numbers.setdefault(msgspec.json.encode(r["sweep"]), len(numbers) + 1) if "sweep" in r else 0 for r in runs
        ]
        places = [
            summary.cell_dir(self.path / summary.point_folder(point), run["label"], run["seed"])
            for point, run in zip(points, runs, strict=True)
        ]
        names = [
            (run["label"], run["seed"], str(place / f"{table}.parquet"))
            for run, place in zip(runs, places, strict=True)
        ]
        schema = {"label": pl.String, "seed": pl.Int64, summary.PATH: pl.String}
        named = self._with_sweep(pl.DataFrame(names, schema, orient="row"), runs)
        frames = []
        for some in summary.together(places):
            try:
                rows = summary.scan(some, table).collect()
            except (pl.exceptions.PolarsError, OSError):
                each = ((summary.read_table(cell, table), str(cell / f"{table}.parquet")) for cell in some)
                rows = pl.concat(
                    (frame.with_columns(pl.lit(path).alias(summary.PATH)) for frame, path in each), how="diagonal"
                )
            of_rows = rows.select(summary.PATH).join(named, on=summary.PATH, maintain_order="left")
            frames.append(pl.concat([of_rows, rows.drop(summary.PATH)], how="horizontal").drop(summary.PATH))
        return pl.concat(frames, how="diagonal")

    def _with_sweep(self, frame: pl.DataFrame, entries: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """The frame with a column for each axis of a sweep in front. entries: the summary's entry of each row."""
        columns = []
        for axis, values in self.summary.get("sweep", {}).items():
            kind = _kind(values)
            of_rows = [entry["sweep"][axis] for entry in entries]
            shown = [v if kind != pl.String or isinstance(v, str) else json.dumps(v) for v in of_rows]
            columns.append(pl.Series(f"sweep.{axis}", shown, kind, strict=False))
        return frame.select(*columns, pl.all()) if columns else frame


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    seeds: str | Iterable[int] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (the name of the command's option)
    policies: Iterable[Any] = (),
    jobs: int | None = None,
    engine: str | None = None,
    plugins: Iterable[str | Path] = (),
    overwrite: bool = False,
    replay: bool = True,
    progress: bool = False,
) -> Results:
    """Run every policy x seed of a scenario and return the results.

    scenario: a file, the name of a packaged example, or a dict with the contents of a file.

    out: the run directory, where finished cells are reused; without `out` nothing is written into the working
    directory, and the results live in a temporary place as long as the returned object. overwrite: replace the
    results of another scenario in `out`. seeds: `"1..5"` or numbers. set: changes to the scenario by path, such as
    `{"spec.workload.load": 0.8}`. jobs: processes at once. engine: the Dask cluster that computes the cells:
    `"dask://HOST:PORT"`, `"dask:FILE.json"` by the file that its scheduler wrote, or `"dask:local"`. policies: run
    beside the scenario's own: classes, names, or dicts such as `{"kind": MyPolicy, "predictor": {"kind": "slearn"}}`.
    Wherever a dict says `kind`, a class can stand for its name. A class outside plug-ins and installed packages runs in
    the calling process alone. replay: replay the first run of each policy from a plug-in, and fail
    where decisions differ. progress: show bars on standard error.
    Raises `rm_emulator.issues.InvalidInput` with every mistake of the scenario, and
    `rm_emulator.experiments.api.CellsFailed` when cells could not be computed.
    """
    files = load_plugins(plugins)
    loaded = load_scenario(
        arguments.plain(scenario) if isinstance(scenario, Mapping) else scenario,
        changes=arguments.plain(set or {}),
        seeds=_seeds(seeds),
        policies=arguments.entries(policies),
    )
    jobs = arguments.allowed_jobs(jobs, local := arguments.local_classes(loaded), engine)
    # Not a TemporaryDirectory, which complains when it is not closed by hand.
    where = _place(out) if out is not None else Path(tempfile.mkdtemp(prefix="rm-emulator-"))
    try:
        finished = grid.run(
            loaded,
            where,
            jobs=jobs,
            engine=engine,
            built=check(loaded),
            plugins=files,
            overwrite=overwrite,
            replay=replay,
            display=shown() if progress else None,
            option_names=directory.PYTHON,
            beside=[arguments.digest(cls) for cls in local],
        )
        return _results(finished, temporary=out is None)
    except BaseException:
        if out is None:
            shutil.rmtree(where, ignore_errors=True)
        raise


def _results(finished: grid.Finished, *, temporary: bool) -> Results:
    if finished.summary is None:
        raise CellsFailed(finished.failures, keeps_tracebacks=not temporary)
    results = Results(finished.out, msgspec.to_builtins(finished.summary))
    if temporary:
        weakref.finalize(results, shutil.rmtree, finished.out, ignore_errors=True)
    return results


def _place(out: str | Path) -> Path:
    if out == "":  # which is the current folder to a Path
        raise InvalidInput([Issue("out=''", "no name of a folder ('.' is the current folder)")])
    return Path(out)


def _seeds(seeds: str | Iterable[int] | None) -> list[int] | None:
    if seeds is None:
        return None
    try:
        return parse_seeds(seeds if isinstance(seeds, str) else list(seeds))
    except ValueError as error:
        raise InvalidInput([Issue(f"seeds={show_value(seeds)}", str(error))]) from None


def load(out: str | Path) -> Results:
    """The results of a finished run directory."""
    return Results(Path(out), msgspec.to_builtins(summary.read_summary(Path(out))))


def explain(
    run: Results | str | Path,
    job: str,
    task: str | int | None = None,
    *,
    label: str | None = None,
    seed: int | None = None,
    point: int = 0,
    advise: bool = False,
    plugins: Iterable[str | Path] = (),
) -> Explanation:
    """Explain a job's waiting, with times and reasons: `print` the result, or look at its `story` and `advice`.

    run: results, a run directory, or an event log. task: STAGE/INDEX, its attempts are told too. label, seed: the first
    label and seed by default; point: of a sweep, from 1. advise: try changes by running the cell again.
    Raises `rm_emulator.issues.InvalidInput` for an unknown run, job or task, `schedulers.core.replay.LogDiffers` for a
    log with a different replay.
    """
    place = (run.path if isinstance(run, Results) else Path(run)) / summary.point_folder(point)
    try:
        found = explaining.explain(place, job, task, label, seed, advise=advise, plugins=tuple(plugins))
        return Explanation(found.story, found.advice, found.submitted)
    except InvalidInput as error:
        option, argument = "with --plugin FILE.py", "in plugins="
        named = [msgspec.structs.replace(each, hint=each.hint.replace(option, argument)) for each in error.issues]
        raise InvalidInput(named, error.count) from None


def compare(
    left: Results | str | Path,
    right: Results | str | Path | None = None,
    *,
    labels: Sequence[str] = (),
    seed: int | None = None,
) -> Comparison:
    """Two runs side by side, the right run relative to the left: `print` the result, or read the result as a mapping.

    left, right: results or run directories; without `right` two labels of the left run. labels: at most a label per
    side; by default the first label of each run, of a single run the baseline and the first other label.
    Raises `rm_emulator.results.compare.CompareError` for a missing run, label or seed.
    """
    places = [each.path if isinstance(each, Results) else Path(each) for each in (left, right) if each is not None]
    return Comparison(comparing.compare(*comparing.sides(places, labels), seed))


class Explanation(msgspec.Struct, frozen=True):
    """A job's waiting, with times and reasons, and changes that would have helped: as text or data (times in ms)."""

    story: Story
    advice: Advice | None = None
    submitted: datetime | None = None
    """Date of the submission in UTC; None for jobs without dates."""

    def __str__(self) -> str:
        lines = explaining.sentences(self.story, self.submitted)
        return "\n".join(lines if self.advice is None else [*lines, *advice_lines(self.advice, self.story)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: the story's sentences, a line each."""
        return f"<pre>{escape(str(self))}</pre>"


class Comparison(Mapping[str, Any]):
    """Two runs side by side: as text, and as the data of `rm-emulator compare --json`."""

    def __init__(self, card: Mapping[str, Any]) -> None:
        self._card = card

    def __getitem__(self, key: str) -> Any:
        return self._card[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._card)

    def __len__(self) -> int:
        return len(self._card)

    def __str__(self) -> str:
        text = io.StringIO()
        comparing.show(self._card, Console(file=text, width=110))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: the comparison as the command prints it."""
        return f"<pre>{escape(str(self))}</pre>"


def _pandas_type(kind: pl.DataType) -> str:
    if kind.is_integer():
        return "Int64"
    if kind.is_float():
        return "float64"
    return {pl.String: "string", pl.Boolean: "boolean"}.get(type(kind), "object")


def _kind(values: Iterable[Any]) -> type[pl.DataType]:
    """The type of a column with the given values, text for values of several kinds."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return pl.Boolean
    if kinds <= {int, float}:
        return pl.Float64 if float in kinds else pl.Int64
    return pl.String


def _flat(run: Mapping[str, Any], skip: Sequence[str], prefix: str = "") -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for key, value in run.items():
        if isinstance(value, Mapping) and key not in skip:
            columns |= _flat(value, skip, f"{prefix}{key}.")
        elif key not in skip:
            columns[prefix + key] = value
    return columns
