"""Names for the report: jobs with long waits, gains and losses, the course of each user, jobs with lost tasks.

From a label's first seed; gains and losses from all seeds. Times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from rm_emulator.results import stages, waits
from rm_emulator.results.chapters.diary import clock
from rm_emulator.results.chart import Cells
from rm_emulator.results.compare import extremes
from rm_emulator.results.contest import contenders
from rm_emulator.results.drawing import SERIES, duration, show_date
from rm_emulator.results.fairness import latest_end
from rm_emulator.results.table import number, percent
from schedulers.core.reasons import Reason

#: Jobs listed as waiting: of all labels together, and of each at least.
WAITERS: Final = 500
_LEAST: Final = 50
#: Stretches in the bar of one job; neighbours of the shortest are joined beyond these.
_STRETCHES: Final = 24
_USERS: Final = 30
_LOSERS: Final = 20
#: It counts as sooner from here on: JCT over that of the label.
_SOONER: Final = 0.9
_REFERENCES: Final = {"alone": "its queue alone", "one_node": "all nodes in one", "ideal": "ideal sharing"}
_CODES: Final = {-102: "preempted"}
#: A label and a seed; from, to (ms) and reason of a wait; label, `gained` or `lost`, and a job of `extremes`.
_Cell = tuple[str, int]
_Part = tuple[int, int, str]
_Moved = tuple[str, str, Mapping[str, Any]]


class WaitingJob(msgspec.Struct, frozen=True):
    """A waiting job; times as text with units."""

    job: str
    about: str
    """Name, user and queue."""
    tasks: int
    came: str
    """Date of submission in UTC, without a date the time."""
    late: str | None
    """JCT less ideal JCT, None for an unknown ideal."""
    jct: str | None
    """None for an unfinished job."""
    idle: str
    """Time without a running task."""
    bar: str
    """Life of the job as a CSS background, coloured by reason."""
    told: str
    """Life of the job in words."""
    mostly: tuple[tuple[str, str, str], ...]
    """Main reasons: (colour, reason, duration)."""
    lost: int
    """Failed attempts."""
    sooner: tuple[str, str] | None
    """(label or baseline, JCT there) with the shortest JCT, None unless much shorter."""


class JobTable(msgspec.Struct, frozen=True):
    """Rows of text, each with its label. text: number of leading columns with words instead of numbers."""

    id: str
    title: str
    lead: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    text: int = 1
    stories: tuple[str, ...] = ()
    """Key in `JobSection.lives` of each row that opens a story."""


class JobSection(msgspec.Struct, frozen=True):
    """The section of jobs; mappings by label."""

    waiters: Mapping[str, Sequence[WaitingJob]]
    others: Sequence[tuple[str, str, WaitingJob]]
    """(label, key, job) of jobs with large gains and losses that are no waiters."""
    lives: Mapping[str, Mapping[str, stages.Life]]
    """The stages of all these jobs over time, by the key `SEED JOB`."""
    jobs: Mapping[str, int]
    """Number of jobs."""
    reasons: Sequence[tuple[str, str, str]]
    """(colour, reason, meaning)."""
    logs: Sequence[str]
    """Labels with an event log."""
    tables: Sequence[JobTable]


def job_section(cells: Cells) -> JobSection:
    """Contents of the section of jobs. Raises summary.MissingCell, InvalidInput for an unreadable log."""
    moved = _moved(cells)
    tables = (_gains(cells, moved), _users(cells), _lost(cells))
    latest = {(label, cells.seeds[0]): _latest(cells, label) for label in cells.labels}
    others = _others(cells, moved, latest)
    reasons = _reasons(cells, others)
    lives: dict[str, dict[str, stages.Life]] = {label: {} for label in cells.labels}
    for (label, seed), rows in (*latest.items(), *others.items()):
        logged = cells.logged(label, seed)
        found = stages.lives(rows, cells.scan(label, seed), None if logged is None else logged[1])
        lives[label] |= {f"{seed} {job}": life for job, life in found.items()}
    return JobSection(
        waiters={cell[0]: _waiters(cells, cell, rows, reasons) for cell, rows in latest.items()},
        others=[
            (cell[0], f"{cell[1]} {each.job}", each)
            for cell, rows in others.items()
            for each in _waiters(cells, cell, rows, reasons)
        ],
        lives=lives,
        jobs={label: len(cells.jobs[label, cells.seeds[0]]) for label in cells.labels},
        reasons=[(_tint(i), r.replace("_", " "), waits.MEANINGS[Reason(r)]) for i, r in enumerate(reasons)],
        logs=[*cells.waits],
        tables=[table for table in tables if table is not None],
    )


def _tint(index: int) -> str:
    return f"var(--s{index % SERIES})"


def _delays(cells: Cells, label: str, seed: int) -> pl.DataFrame:
    """The jobs of a cell by delay: JCT less ideal JCT on the fastest nodes, for an unknown ideal the idle time."""
    jobs, last = cells.jobs[label, seed], pl.lit(latest_end(cells.scan(label, seed)) or 0)
    fastest = cells.nodes(label, seed)["speed"].drop_nulls().to_numpy().max(initial=0.0) or 1.0
    lives = jobs.rename({"id": "job"}).with_columns(end_ms=pl.coalesce("finish_ms", last))
    ideal = (pl.col("ideal_ms") / float(fastest)).round().cast(pl.Int64)  # recorded for a node of speed 1
    late = (pl.col("end_ms") - pl.col("submit_ms") - ideal).clip(0)
    return (
        lives.join(cells.idle(label, seed), on="job")
        .with_columns(late_ms=late, held_up=pl.coalesce(late, "idle_ms"))
        .sort(["held_up", "job"], descending=[True, False])
    )


def _latest(cells: Cells, label: str) -> pl.DataFrame:
    """The jobs of the first seed with the longest delay."""
    shown = max(_LEAST, WAITERS // len(cells.labels))
    return _delays(cells, label, cells.seeds[0]).filter(pl.col("held_up") > 0).head(shown)


def _others(cells: Cells, moved: Sequence[_Moved], latest: Mapping[_Cell, pl.DataFrame]) -> dict[_Cell, pl.DataFrame]:
    """The jobs with large gains and losses that are not among the latest, as of `_delays`."""
    names: dict[_Cell, set[str]] = {}
    for label, _, each in moved:
        names.setdefault((label, each["seed"]), set()).add(each["job"])
    left = {cell: sorted(jobs - {*latest[cell]["job"]} if cell in latest else jobs) for cell, jobs in names.items()}
    return {cell: _delays(cells, *cell).filter(pl.col("job").is_in(jobs)) for cell, jobs in left.items() if jobs}


def _reasons(cells: Cells, others: Mapping[_Cell, pl.DataFrame]) -> list[str]:
    """`Cells.reasons`, and behind them those of the others in further seeds alone."""
    found = (logged[0] for cell in others if (logged := cells.logged(*cell)) is not None)
    more = {reason for frame in found for reason in frame["reason"].unique()}
    return [*cells.reasons, *sorted(more - {*cells.reasons})]


def _waiters(cells: Cells, cell: _Cell, rows: pl.DataFrame, reasons: Sequence[str]) -> list[WaitingJob]:
    """The rows of `_delays` as text."""
    names, logged = rows["job"].implode(), cells.logged(*cell)
    stretches = {} if logged is None else logged[0].filter(pl.col("job").is_in(names)).partition_by("job", as_dict=True)
    parts = {job: list(each.select("from_ms", "to_ms", "reason").iter_rows()) for (job,), each in stretches.items()}
    nothing: list[_Part] | None = None if logged is None else []
    place = {reason: index for index, reason in enumerate(reasons)}
    elsewhere = _other_jcts(cells, cell, names)
    return [_waiter(cells, row, parts.get(row["job"], nothing), place, elsewhere) for row in rows.iter_rows(named=True)]


def _other_jcts(cells: Cells, cell: _Cell, names: pl.Series) -> dict[str, dict[str, float]]:
    """JCT (s) of the named jobs under the other labels and, in the first seed, under the baselines."""
    label, seed = cell
    others = {other: cells.jobs[other, seed] for other in contenders(cells.summary) if other != label}
    references = cells.references(label) if seed == cells.seeds[0] else {}
    found = {
        name: frame.with_columns(jct_s=(pl.col("finish_ms") - pl.col("submit_ms")) / 1000)
        for name, frame in {**others, **{_REFERENCES[n]: f for n, f in references.items()}}.items()
    }
    finished = pl.col("id").is_in(names) & pl.col("jct_s").is_not_null()
    return {name: dict(frame.filter(finished).select("id", "jct_s").iter_rows()) for name, frame in found.items()}


def _waiter(
    cells: Cells,
    row: Mapping[str, Any],
    parts: list[_Part] | None,
    place: Mapping[str, int],
    elsewhere: Mapping[str, Mapping[str, float]],
) -> WaitingJob:
    """parts: the job's waits, None without an event log; place: of each reason."""
    sums: dict[str, int] = {}
    for start, end, reason in parts or ():
        sums[reason] = sums.get(reason, 0) + end - start
    longest = sorted(sums.items(), key=lambda pair: -pair[1])[:3]
    bar, told = _life(_joined(parts or []), row["submit_ms"], row["end_ms"], place)
    if not told:
        told = "not known" if parts is None else "nothing"
    others = {name: jct[row["job"]] for name, jct in elsewhere.items() if row["job"] in jct}
    best = min(others, key=lambda name: others[name], default=None)
    own, date = row["jct_s"], cells.date(row["submit_ms"])
    sooner = best is not None and (own is None or others[best] < _SOONER * own)
    return WaitingJob(
        job=row["job"],
        about=" \u00b7 ".join(filter(None, (row["name"], row["user"], row["queue"]))),
        tasks=row["tasks"],
        came=duration(row["submit_ms"]) if date is None else show_date(date),
        late=None if row["late_ms"] is None else duration(row["late_ms"]),
        jct=None if own is None else duration(1000 * own),
        idle=duration(row["idle_ms"]),
        bar=bar,
        told=told,
        mostly=tuple((_tint(place[reason]), reason.replace("_", " "), duration(ms)) for reason, ms in longest),
        lost=row["failed_tasks"],
        sooner=(best, duration(1000 * others[best])) if best is not None and sooner else None,
    )


def _joined(parts: list[_Part]) -> list[_Part]:
    """At most `_STRETCHES`: the shortest stretch goes to its longer neighbour, again and again."""
    parts = list(parts)
    while len(parts) > _STRETCHES:
        length = [end - start for start, end, _ in parts]
        least = length.index(min(length))
        near = [i for i in (least - 1, least + 1) if 0 <= i < len(parts)]
        into = max(near, key=lambda i: length[i])
        low, high = sorted((least, into))
        parts[low : high + 1] = [(parts[low][0], parts[high][1], parts[into][2])]
    return parts


def _life(parts: Sequence[_Part], start: int, end: int, place: Mapping[str, int]) -> tuple[str, str]:
    """The stretches between a job's submission and its end as a CSS background, and in words."""
    span, stops, told, at = max(1, end - start), [], [], 0.0
    for since, until, reason in parts:
        low, high = (round(100 * (moment - start) / span, 1) for moment in (since, until))
        if low > at:
            stops.append(f"#0000 {at:g}% {low:g}%")
        stops.append(f"{_tint(place[reason])} {low:g}% {high:g}%")
        first, last = clock(since), clock(until)
        when = f"at {first}" if first == last else f"{first} to {last}"
        told.append(f"{when}: {reason.replace('_', ' ')}")
        at = high
    if at < 100:
        stops.append(f"#0000 {at:g}% 100%")
    return (f"linear-gradient(90deg,{','.join(stops)})" if parts else "none"), "; ".join(told)


def _moved(cells: Cells) -> list[_Moved]:
    """Jobs with the largest gains and losses compared with the baseline, over all seeds."""
    moved = list[_Moved]()
    for compared in cells.summary.comparisons:
        label = compared.label
        found = extremes(cells.pairs(label))
        moved += [(label, "gained", each) for each in found["winners"]]
        moved += [(label, "lost", each) for each in found["losers"]]
    return moved


def _gains(cells: Cells, moved: Sequence[_Moved]) -> JobTable | None:
    rows = []
    for label, how, each in moved:
        (row,) = cells.jobs[label, each["seed"]].filter(pl.col("id") == each["job"]).iter_rows(named=True)
        jct = (duration(1000 * each[side]) for side in ("left_s", "right_s"))
        whose = (row["user"] or "-", row["queue"])
        rows.append((label, (each["job"], how, *whose, str(each["seed"]), *jct, f"{number(each['ratio'])}x")))
    if not rows:
        return None
    baseline = cells.summary.baseline
    return JobTable(
        id="gains",
        title=f"Who gains and who loses against {baseline}",
        lead="The jobs whose JCT changes by the largest and by the smallest factor, over all seeds; choose one to open "
        "its story.",
        head=("job", "", "user", "queue", "seed", f"JCT under {baseline}", "JCT here", "speedup"),
        rows=tuple(rows),
        text=4,
        stories=tuple(f"{each['seed']} {each['job']}" for _, _, each in moved),
    )


def _users(cells: Cells) -> JobTable | None:
    rows, several, cut = [], False, 0
    for label in cells.labels:
        jobs = cells.jobs[label, cells.seeds[0]]
        spans = cells.scan(label).lazy().select("job", held=pl.col("ended_ms") - pl.col("granted_ms"))
        held = spans.group_by("job").agg(pl.col("held").sum()).collect(engine="streaming")
        of_users = (
            jobs.join(held, left_on="id", right_on="job", how="left")
            .join(cells.idle(label, cells.seeds[0]), left_on="id", right_on="job", how="left")
            .group_by("user")
            .agg(
                pl.len().alias("jobs"),
                pl.col("jct_s", "wait_s").mean(),
                pl.col("idle_ms").mean(),
                pl.col("held").sum(),
                pl.col("failed_tasks").sum(),
            )
            .sort(["held", "user"], descending=[True, False])
        )
        several = several or len(of_users) > 1
        cut = max(cut, len(of_users) - _USERS)
        total = max(1, int(of_users["held"].sum()))
        rows += [
            (
                label,
                (
                    r["user"] or "(nobody)",
                    f"{r['jobs']:,}",
                    percent(r["held"] / total),
                    number(r["jct_s"]),
                    number(r["wait_s"]),
                    number(r["idle_ms"] / 1000),
                    f"{r['failed_tasks']:,}",
                ),
            )
            for r in of_users.head(_USERS).iter_rows(named=True)
        ]
    if not several:
        return None
    return JobTable(
        id="users",
        title="Users",
        lead="Share: of all the time that tasks held containers. Wait: to the first start; idle: in all."
        + (f" The {_USERS} users with the largest share; {cut:,} more are not listed." if cut > 0 else ""),
        head=("user", "jobs", "share", "mean JCT (s)", "mean wait (s)", "mean idle (s)", "attempts lost"),
        rows=tuple(rows),
    )


def _lost(cells: Cells) -> JobTable | None:
    """Jobs with failed or preempted attempts."""
    rows = []
    for label in cells.labels:
        lost = cells.scan(label).lazy().filter(pl.col("code") != 0).collect()
        of_jobs = (
            lost.group_by("job")
            .agg(n=pl.len(), ms=(pl.col("ended_ms") - pl.col("granted_ms")).sum(), codes=pl.col("code").unique().sort())
            .sort(["n", "job"], descending=[True, False])
        )
        rows += [
            (
                label,
                (
                    r["job"],
                    ", ".join(_CODES.get(code, f"code {code}") for code in r["codes"]),
                    f"{r['n']:,}",
                    duration(r["ms"]),
                ),
            )
            for r in of_jobs.head(_LOSERS).iter_rows(named=True)
        ]
    if not rows:
        return None
    return JobTable(
        id="lost",
        title="Failed tasks",
        lead="Attempts that ended with another code than 0, and what they had held until then; the "
        f"{_LOSERS} jobs with the most of them.",
        head=("job", "how", "attempts lost", "time lost"),
        rows=tuple(rows),
        text=2,
    )
