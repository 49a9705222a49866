"""The same jobs under policies that minimise different things: whose tasks the nodes run when (Decima, Figure 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from rm_emulator.results.chart import Cells, Chart, Figure, Section, register
from rm_emulator.results.charts.gantt import placed, shown_nodes
from rm_emulator.results.drawing import line, note, of_job, spans, time_unit
from rm_emulator.results.metrics import makespan_ms
from rm_emulator.results.table import number

OBJECTIVES: Final = Section(
    "objective",
    65,
    "Objectives",
    "What policies minimise",
    "Who minimises the mean JCT ends short jobs first; who minimises the makespan keeps all nodes busy to the end.",
)


#: Pixels of a panel, above each, and below the last.
PANEL, GAP, EDGE = 230, 40, 52
#: Bars of one panel: of one job's tasks after each other so many bars are made that are told apart.
BARS: Final = 1500


class Bar(NamedTuple):
    """A lane that serves a job from start to end (ms)."""

    lane: int
    start: int
    end: int
    job: str


class FirstSeed(NamedTuple):
    """What became of a label's first seed: what is minimised, bars, figures in s, when the last job ended."""

    label: str
    objective: str
    bars: Sequence[Bar]
    jct_s: float
    makespan_s: float
    end_s: float


@register(OBJECTIVES, order=10, wide=True, source="Decima (SIGCOMM'19), Figure 13")
def objectives(cells: Cells) -> Chart | None:
    """Nodes against time, a panel per label; only where the policies' settings `objective` differ."""
    wanted = cells.objectives
    if len(set(wanted.values())) < 2:
        return None
    courses = [found for label in cells.labels if (found := _course(cells, label, wanted[label])) is not None]
    if not courses:
        return None
    return Chart(
        title="Two objectives, side by side",
        alt="Gantt charts of the same jobs, one per label, each with its mean JCT and its makespan",
        caption=f"Each row is a slot of a node, each colour a job, seed {cells.seeds[0]}. The dashed line is the mean "
        "JCT, the dotted one the end of the last job. Tasks of one job that follow each other are one bar.",
        variants=(("", _figure(courses)),),
        head=("label", "objective", "mean JCT (s)", "makespan (s)"),
        rows=tuple((each.label, each.objective, number(each.jct_s, 4), number(each.makespan_s, 4)) for each in courses),
        tall=len(courses) * (PANEL + GAP) + EDGE,
    )


def _course(cells: Cells, label: str, objective: str) -> FirstSeed | None:
    jobs = cells.jobs[label, cells.seeds[0]].drop_nulls("finish_ms")
    tasks = cells.tasks(label)
    if jobs.is_empty() or tasks.is_empty():
        return None
    jct = jobs.select((pl.col("finish_ms") - pl.col("submit_ms")).mean()).item() / 1000
    return FirstSeed(
        label, objective, _bars(tasks), jct, (makespan_ms(jobs) or 0) / 1000, max(jobs["finish_ms"]) / 1000
    )


def _bars(tasks: pl.DataFrame) -> list[Bar]:
    """The longest BARS bars. A bar joins consecutive tasks of the same job on the same lane."""
    bars: list[Bar] = []
    apart = tasks.select(pl.col("ended_ms").max()).item() / 200
    for own, where, _ in placed(tasks, shown_nodes(tasks)[0]):
        last: dict[int, Bar] = {}
        for lane, (start, end, job) in zip(where, own.select("granted_ms", "ended_ms", "job").iter_rows(), strict=True):
            before = last.get(lane)
            if before is not None and before.job == job and start - before.end <= apart:
                last[lane] = before._replace(end=end)
                continue
            bars += [before] if before is not None else []
            last[lane] = Bar(lane, start, end, job)
        bars += last.values()
    return sorted(sorted(bars, key=lambda bar: bar.start - bar.end)[:BARS])


def _figure(courses: Sequence[FirstSeed]) -> Figure:
    longest = max(bar.end for course in courses for bar in course.bars)
    divisor, unit = time_unit(longest)
    whole = len(courses) * (PANEL + GAP)
    data, notes, lines = [], [], []
    layout: Figure = {
        "barmode": "overlay",
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"t": 8},
        "xaxis": {
            "title": {"text": f"time ({unit})"},
            "range": [0, longest / divisor],
            "anchor": "y" if len(courses) == 1 else f"y{len(courses)}",
        },
    }
    for number_, course in enumerate(courses, start=1):
        axis = "y" if number_ == 1 else f"y{number_}"
        top = 1 - ((number_ - 1) * (PANEL + GAP) + GAP) / whole
        bottom = 1 - number_ * (PANEL + GAP) / whole
        layout["yaxis" + axis[1:]] = {
            "domain": [max(0.0, bottom), top],
            "autorange": "reversed",
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
        }
        said = f"mean JCT {number(course.jct_s, 4)} s, makespan {number(course.makespan_s, 4)} s"
        told = f" (objective {course.objective})" if course.objective else ""
        notes.append(note(f"<b>{course.label}</b>{told}: {said}", 0, top, xanchor="left"))
        for at, dash in ((course.jct_s, "dash"), (course.end_s, "dot")):
            where = {"x0": 1000 * at / divisor, "x1": 1000 * at / divisor, "y0": 0, "y1": 1, "yref": f"{axis} domain"}
            lines.append({**line(**where), "layer": "above", "line": {"color": "$ink", "width": 1.5, "dash": dash}})
        data += _traces(course.bars, axis, divisor)
    return {"data": data, "layout": {**layout, "annotations": notes, "shapes": lines}}


def _traces(bars: Sequence[Bar], axis: str, divisor: float) -> list[Figure]:
    """By colour, which is the job's on all charts of nodes."""
    by_colour: dict[str, list[Bar]] = {}
    for bar in bars:
        by_colour.setdefault(of_job(bar.job), []).append(bar)
    return [
        {
            **spans(((bar.lane, bar.start, bar.end) for bar in group), divisor, yaxis=axis),
            "text": [bar.job for bar in group],
            "textposition": "none",
            "width": 1.0,
            "marker": {"color": tint, "line": {"width": 0}},
            "hovertemplate": "%{text}<br>from %{customdata[0]} for %{customdata[1]}<extra></extra>",
        }
        for tint, group in sorted(by_colour.items())
    ]
