"""`rm-emulator simulate`: the answer in lines of text, or as a JSON document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rm_emulator.experiments.engines import engine_of
from rm_emulator.files import write_file
from rm_emulator.forecasts.answers import Answer, Compared, Delay, Expected, JobAnswer, NewJob, Record
from rm_emulator.forecasts.asked import Question
from rm_emulator.forecasts.changes import AskedChange
from rm_emulator.forecasts.moment import parse_moment
from rm_emulator.forecasts.picture import charts, page
from rm_emulator.forecasts.sources import EARLIER, answered
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import as_json, prints_apart
from rm_emulator.results import answers
from rm_emulator.results.replay import cell_of
from rm_emulator.results.story import clock
from rm_emulator.scenario.durations import parse_duration
from rm_emulator.scenario.live import LiveCluster

#: Rows of live jobs, and delayed jobs, that are printed; --json has all.
_ROWS: Final = 30
_NAMED: Final = 5


def question(
    file: Path | None, draws: int, arrivals: str | None, earlier: int | None, *, tries: bool, change: AskedChange
) -> Question:
    """The question of the command's options, its moment open. Raises InvalidInput."""
    try:
        window = 0 if arrivals is None else parse_duration(arrivals)
    except ValueError as error:
        raise InvalidInput([Issue(f"--arrivals {arrivals}", str(error))]) from None
    asked = EARLIER if earlier is None else earlier
    return Question(at_ms=0, file=file, draws=draws, earlier=asked, tries=tries, arrivals_ms=window, change=change)


def main(
    source: str | None,
    question: Question,
    *,
    cluster: LiveCluster | None,
    of_runs: Mapping[str, Any],
    plugins: Sequence[Path],
    tolerance_pct: float,
    json: bool,
    quiet: bool,
    engine: str | None = None,
    plot: Path | None = None,
) -> int:
    """Print the answer; 1 where a change is worse by more than the tolerance, else 0, and 130 after Ctrl-C.

    source: RUN_DIR@TIME, or a file with the memory of a brain; None where a cluster is asked. of_runs: options that
    make sense for runs alone (label, seed, earlier), None where they were not given. engine: see `engine_of`. plot:
    takes the pictures of the answer, as an HTML page; the run's own report.html takes the pictures in addition.
    Raises InvalidInput.
    """
    cell = None if plot is None else _asked_cell(plot, source, of_runs)
    try:
        with prints_apart():
            workers = None if engine is None else engine_of(engine, None)
            how = {"progress": None if quiet else _report, "engine": workers}
            answer = answered(source, question, cluster, of_runs, plugins, how)
            if plot is not None:
                _draw(plot, answer, cell)
    except KeyboardInterrupt:
        _report("interrupted: nothing was written")
        return 130
    worse = answer.compared is not None and answer.compared.is_worse(tolerance_pct)
    if json:
        print(as_json(msgspec.to_builtins(answer), indent=1))  # noqa: T201 (the answer)
        return int(worse)
    console = Console(highlight=False, soft_wrap=True)
    for part in parts(answer):
        console.print(part)
    if worse:
        console.print(f"The change is worse than the tolerance of {tolerance_pct:g} %.")
    return int(worse)


def _asked_cell(plot: Path, source: str | None, of_runs: Mapping[str, Any]) -> Path | None:
    """The directory of the cell whose run's report takes the pictures; None where they have a page of their own.

    Raises InvalidInput for a name that is no page's, and for the report of another run.
    """
    if plot.suffix != ".html":
        raise InvalidInput([Issue(f"--plot {plot}", "expected a name with the ending .html")])
    if plot.name != "report.html" or not (plot.parent / "summary.json").is_file():
        return None
    folder = None if source is None or Path(source).is_file() else parse_moment(source)[0]
    if folder is None or folder.resolve() != plot.parent.resolve():
        message = "is the report of a run that is not asked (expected the report of the run of --from, or another name)"
        raise InvalidInput([Issue(f"--plot {plot}", message)])
    return cell_of(plot.parent, of_runs["label"], of_runs["seed"])


def _draw(plot: Path, answer: Answer, cell: Path | None) -> None:
    if cell is None:
        write_file(plot, page(answer))
        return
    from rm_emulator.results import report

    answers.keep(plot.parent, cell, charts(answer))
    report.write(plot.parent)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def parts(answer: Answer) -> Iterator[Text | Table]:
    """The answer in text: new jobs first, then the live jobs in a table, then how good such answers were."""
    draws = f"{answer.draws} draws" if answer.draws > 1 else "one play"
    whose = "in UTC" if answer.wall_clock else "on the clock of the run"
    tell = _utc if answer.wall_clock else clock
    yield Text(f"At {tell(answer.at_ms)} under {answer.policy}, {draws}; times are {whose}.")
    for job in answer.asked:
        yield from map(Text, _new_job(job, answer.at_ms, tell))
    if answer.compared is not None:
        yield from map(Text, _compared(answer.compared, len(answer.jobs)))
    if answer.jobs:
        yield _table(answer)
    if len(answer.jobs) > _ROWS:
        yield Text(f"{len(answer.jobs) - _ROWS} more jobs: --json has them.")
    if answer.unknown:
        yield Text(_unknown(answer.unknown))
    if not answer.wall_clock:
        yield Text(_past(answer.record))
    yield from map(Text, answer.notes)


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _new_job(job: NewJob, at_ms: int, tell: Callable[[int], str]) -> Iterator[str]:
    yield f"{job.job} would start {_when(job.start, at_ms, tell)}."
    if job.known:
        yield f"  It would end {_when(job.finish, at_ms, tell)}."
    else:
        yield "  Its end cannot be told: no job like it has run, and nothing says how long its tasks take."
    if job.nodes:
        more = f" and {len(job.nodes) - _NAMED} more" if len(job.nodes) > _NAMED else ""
        yield f"  Nodes in most draws: {', '.join(job.nodes[:_NAMED])}{more}."
    late, soon = ([each for each in job.delays if sign * each.p50_ms > 0] for sign in (1, -1))
    yield f"  It delays {_delayed(late)}." if late else "  It delays nobody by more than 1 % of the time to their end."
    if soon:
        yield f"  Sooner because of it: {_delayed(soon[::-1])}."
    for tried in job.sooner:
        since = " after its submission" if tried.kind == "tonight" else ""
        yield f"  Tried: {tried.change} it would end {clock(tried.sooner_ms)} sooner{since} (median)."


def _compared(found: Compared, jobs: int) -> Iterator[str]:
    yield f"The present {found.change}, against the present as it is, draw by draw with the same run times:"
    before, after = (_range(each) for each in (found.jct_before, found.jct_after))
    yield f"  Mean JCT of {jobs} live jobs: {after} instead of {before}."
    low, middle, high = (
        "without end" if pct is None else f"{pct:+.1f} %"
        for pct in (found.longer_pct.p10, found.longer_pct.p50, found.longer_pct.p90)
    )
    yield f"  Time from now to their end: {middle} (10 %: {low}, 90 %: {high})."
    late, soon = ([each for each in found.jobs if sign * each.p50_ms > 0] for sign in (1, -1))
    yield f"  Later: {_delayed(late)}." if late else "  Nobody ends later by more than 1 % of the time to their end."
    yield f"  Sooner: {_delayed(soon[::-1])}." if soon else "  Nobody ends sooner by more than 1 %."
    if found.never:
        more = f" and {len(found.never) - _NAMED} more" if len(found.never) > _NAMED else ""
        yield f"  Never: {', '.join(found.never[:_NAMED])}{more}."


def _range(time: Expected) -> str:
    """`2h (10 %: 1h, 90 %: 3h)`."""
    low, middle, high = map(_clock, (time.p10_ms, time.p50_ms, time.p90_ms))
    return f"{middle} (10 %: {low}, 90 %: {high})"


def _when(time: Expected, at_ms: int, tell: Callable[[int], str]) -> str:
    """`at 2h05m (10 %: 2h, 90 %: 2h30m), in 5m`; times that no draw reached are told so."""
    if time.p50_ms is None:
        return "never in most draws"
    low, high = (tell(ms) if ms is not None else "never" for ms in (time.p10_ms, time.p90_ms))
    return f"at {tell(time.p50_ms)}, in {clock(time.p50_ms - at_ms)} (10 %: {low}, 90 %: {high})"


def _delayed(delays: Sequence[Delay]) -> str:
    shown = ", ".join(f"{each.job} by {clock(abs(each.p50_ms))}" for each in delays[:_NAMED])
    return shown + (f" and {len(delays) - _NAMED} more" if len(delays) > _NAMED else "")


def _table(answer: Answer) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("job", "ended", "running", "waiting", "starts in", "ends in: 10 %", "50 %", "90 %"):
        table.add_column(heading, justify="left" if heading == "job" else "right")
    for job in sorted(answer.jobs, key=_order)[:_ROWS]:
        waiting = job.tasks - job.ended - job.running
        ends = (job.finish.p10_ms, job.finish.p50_ms, job.finish.p90_ms)
        told = [_in(ms, answer.at_ms) for ms in ends] if job.known else ["?", "?", "?"]
        starts = "started" if job.start is None else _in(job.start.p50_ms, answer.at_ms)
        table.add_row(job.job, f"{job.ended}", f"{job.running}", f"{waiting}", starts, *told)
    return table


def _order(job: JobAnswer) -> tuple[float, int]:
    """By the median of the end, then by submission."""
    return (float("inf") if job.finish.p50_ms is None else job.finish.p50_ms, job.submitted_ms)


def _clock(ms: int | None) -> str:
    return "never" if ms is None else clock(ms)


def _in(ms: int | None, at_ms: int) -> str:
    """The time from the moment on by its two largest units: `12m35s`, `3h05m`, `4d02h`."""
    if ms is None:
        return "never"
    minutes, seconds = divmod(round((ms - at_ms) / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"


def _unknown(jobs: Sequence[str]) -> str:
    shown = ", ".join(jobs[:_NAMED]) + (f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else "")
    return (
        f"Nothing is known of the run times of {shown}: no job like these has ended. Their ends are not answered, and "
        "whoever waits behind them waits for a wide guess."
    )


def _past(record: Record | None) -> str:
    if record is None:
        return "How wrong is this? No earlier answer could be judged yet."
    share = round(100 * record.held / record.answers)
    moments = ", ".join(clock(at) for at in record.moments_ms)
    return (
        f"How wrong is this? Of {record.answers} answers at {moments}, {share} % of the intervals from 10 % to 90 % "
        "held the end that came (right: 80 %)."
    )
