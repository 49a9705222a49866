"""A plan: the policy's plan of a job, and below the plan the job's course, stage by stage."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.results.chart import PLANNING, Cells, Chart, Figure, register
from rm_emulator.results.drawing import hatched, note, rows_of, spans, time_unit
from rm_emulator.results.table import number

#: Stages of one chart, and bars of one panel: with more of them nobody could read it.
STAGES: Final = 60
BARS: Final = 1500
#: Pixels below and between the panels, and above them with a legend.
EDGE, GAP, TOP = 48, 46, 56
#: Characters of a stage's name beside its row, and names of troublesome stages in the legend.
NAME, NAMED = 22, 4


class PlannedJob(msgspec.Struct, frozen=True):
    """A job as planned and in its course; times in ms, in the frames from the first start of the plan and of the job.

    stages: `stage, name, tasks, troublesome, start_ms, end_ms, began_ms, over_ms`, the last two from the course; early
    starts of the plan in front. planned, went: how many tasks of a stage run from when to when, or a mean,
    `stage, start_ms, end_ms, running`.
    """

    job: str
    submit_ms: int
    first_ms: int
    made_ms: int
    machines: int
    bound_ms: int
    makespan_ms: int
    stages: pl.DataFrame
    planned: pl.DataFrame
    went: pl.DataFrame

    @property
    def span_ms(self) -> int:
        """From the first start to the last end."""
        return int(max(self.stages["over_ms"].to_list()))

    @property
    def unit(self) -> tuple[float, str]:
        """The unit of shown times (`time_unit`)."""
        return time_unit(max(self.makespan_ms, self.span_ms))

    def time(self, ms: int) -> str:
        """A time to read, `12.3 s`."""
        divisor, unit = self.unit
        return f"{number(ms / divisor)} {unit}"


class PlanParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings."""

    job: Annotated[
        str, msgspec.Meta(description="the job to show where it was planned and has finished; empty: a telling one")
    ] = ""


@register(
    PLANNING, order=10, wide=True, source="Graphene (OSDI'16), section 4: troublesome tasks first", params=PlanParams
)
def plan(cells: Cells, params: PlanParams) -> Chart | None:
    """The plan of one job above its course, one variant per label."""
    courses = _courses(cells, params.job)
    if not courses:
        return None
    most = max(len(course.stages) for course in courses.values())
    height = most * (26 if most <= 12 else 19 if most <= 30 else 14)
    names = " and ".join(dict.fromkeys(course.job for course in courses.values()))
    times = ("planned start (s)", "planned end (s)", "started (s)", "ended (s)")
    return Chart(
        title="A plan and what came of it",
        alt="Two Gantt charts of the stages of one job: as planned, and as it went",
        caption=f"Job {names} of seed {cells.seeds[0]}: of those that finished one with troublesome stages if any has, "
        f"and of these the one with most stages (up to {STAGES}). Each row is a stage; the more of its tasks run at a "
        "time, the higher its bar. Troublesome stages are hatched: the plan has given them their time before all "
        "others. No plan for as many machines ends before the dotted line; a job that gets more of the cluster may.",
        variants=tuple((label, _figure(course, height)) for label, course in courses.items()),
        head=("label", "stage", "tasks", *times, "troublesome"),
        rows=tuple(row for label, course in courses.items() for row in _rows(label, course)),
        choose="label",
        tall=2 * height + TOP + GAP + EDGE,
    )


def _courses(cells: Cells, shown: str) -> dict[str, PlannedJob]:
    """By label the course of the job to show, the same job for every label with a plan and an end of the job."""
    courses: dict[str, PlannedJob] = {}
    for label, each in cells.plans.items():
        jobs = cells.jobs[label, cells.seeds[0]].filter(pl.col("finish_ms").is_not_null())
        ranked = _ranked(each.join(jobs, left_on="job", right_on="id", how="semi"))
        if ranked:
            shown = shown if shown in ranked else ranked[0]
            submit = jobs.filter(pl.col("id") == shown)["submit_ms"].item()
            went = cells.tasks(label).filter(pl.col("job") == shown)
            courses[label] = _course(each.filter(pl.col("job") == shown), went, submit)
    return courses


def _ranked(plans: pl.DataFrame) -> list[str]:
    """Jobs by how much their plans show: few enough stages to read, troublesome ones, many stages, many tasks."""
    stages = pl.col("stage").n_unique()
    keys = {"readable": stages <= STAGES, "troublesome": pl.col("troublesome").any(), "stages": stages}
    each = plans.group_by("job").agg(**keys, tasks=pl.col("tasks").max())
    return each.sort(*keys, "tasks", "job", descending=[True] * 4 + [False])["job"].to_list()


def _course(plan: pl.DataFrame, tasks: pl.DataFrame, submit_ms: int) -> PlannedJob:
    stages = (
        plan.group_by("stage", "name", "tasks", "troublesome")
        .agg(pl.col("start_ms").min(), pl.col("end_ms").max())
        .sort("start_ms", "end_ms", "stage")
        .head(STAGES)
    )
    planned, ran = (each.join(stages, on="stage", how="semi") for each in (plan, tasks.drop_nulls("started_ms")))
    first = min(ran["started_ms"].to_list())
    times = {"start_ms": pl.col("started_ms") - first, "end_ms": pl.col("ended_ms") - first}
    went = ran.select("stage", **times).filter(pl.col("start_ms") < pl.col("end_ms"))
    ends = went.group_by("stage").agg(began_ms=pl.col("start_ms").min(), over_ms=pl.col("end_ms").max())
    return PlannedJob(
        job=plan["job"][0],
        submit_ms=submit_ms,
        first_ms=first,
        **plan.select("made_ms", "machines", "bound_ms", "makespan_ms").row(0, named=True),
        stages=stages.join(ends, on="stage", maintain_order="left"),
        planned=planned.select("stage", "start_ms", "end_ms", "running"),
        went=_running(went, BARS // len(stages)),
    )


def _running(tasks: pl.DataFrame, most: int) -> pl.DataFrame:
    """How many tasks of each stage run from when to when, means beyond `most` changes."""
    stretches = []
    for (stage,), each in tasks.sort("stage").group_by("stage", maintain_order=True):
        starts, ends = each["start_ms"].to_numpy(), each["end_ms"].to_numpy()
        edges = np.unique(np.concatenate([starts, ends]))
        if len(edges) > most:
            edges = np.unique(np.linspace(edges[0], edges[-1], most).astype(np.int64))
        done = [int(np.clip(edge - starts, 0, ends - starts).sum()) for edge in edges]
        columns = {"start_ms": edges[:-1], "end_ms": edges[1:], "running": np.diff(done) / np.diff(edges)}
        stretches.append(pl.DataFrame(columns).select(pl.lit(stage, pl.Int32).alias("stage"), pl.all()))
    return pl.concat(stretches).filter(pl.col("running") > 0)


def _figure(course: PlannedJob, height: int) -> Figure:
    """Both panels, the plan above; height: of a panel in pixels."""
    divisor, unit = course.unit
    whole, count = 2 * height + GAP, len(course.stages)
    panels = {"y": (course.planned, 1 - height / whole), "y2": (course.went, 0.0)}
    rows = rows_of([f"<b>{name}</b>" if hard else name for name, hard in _names(course)])
    rows["tickfont"] = {"size": 12 if height >= 19 * count else 10, "color": "$soft"}
    said = {"y": _planned(course), "y2": _went(course)}
    layout: Figure = {
        "barmode": "overlay",
        "hovermode": "closest",
        "xaxis": {"title": {"text": f"time since the first start ({unit})"}, "anchor": "y2", "rangemode": "tozero"},
        "annotations": [
            note(said[axis], 0, bottom + height / whole, xanchor="left") for axis, (_, bottom) in panels.items()
        ],
        "margin": {"l": 56, "r": 14, "t": TOP, "b": EDGE},
        "legend": {"y": 1 + 26 / whole},
    }
    data: list[Figure] = []
    for axis, (runs, bottom) in panels.items():
        layout[f"{axis[0]}axis{axis[1:]}"] = {**rows, "domain": [bottom, bottom + height / whole]}
        data += [{**trace, "yaxis": axis, "showlegend": axis == "y"} for trace in _bars(course, runs, divisor)]
        data.append({**_bound(course, divisor), "yaxis": axis, "showlegend": axis == "y"})
    return {"data": data, "layout": layout}


def _bars(course: PlannedJob, runs: pl.DataFrame, divisor: float) -> list[Figure]:
    """Bars of a panel, troublesome stages apart; a stage's highest bar is at the time of most running tasks."""
    both = pl.concat([course.planned, course.went]).group_by("stage").agg(most=pl.col("running").max())
    placed = course.stages.with_row_index("row").join(both, on="stage")
    bars = runs.join(placed.select("stage", "row", "name", "troublesome", "most"), on="stage", maintain_order="left")
    traces = []
    for hard in (False, True):
        group = bars.filter(pl.col("troublesome") == hard)
        if group.is_empty():
            continue
        tint = "$s1" if hard else "$s0"
        high = (0.22 + 0.64 * group["running"] / group["most"]).to_list()
        pattern = hatched("/" if hard else "", 5, 0.7)
        counts = zip(group["name"], group["running"], strict=True)
        traces.append(
            {
                **spans(group.select("row", "start_ms", "end_ms").iter_rows(), divisor),
                "name": _legend(course) if hard else "stages",
                "legendgroup": str(hard),
                "width": [round(h, 3) for h in high],
                "offset": [round(0.43 - h, 3) for h in high],
                "text": [f"{name}: {number(running)} running" for name, running in counts],
                "textposition": "none",
                "marker": {"color": tint, "line": {"color": tint, "width": 0.6}, "pattern": pattern},
                "hovertemplate": "%{text}<br>%{customdata[0]} for %{customdata[1]}<extra></extra>",
            }
        )
    return traces


def _bound(course: PlannedJob, divisor: float) -> Figure:
    at = round(course.bound_ms / divisor, 4)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"lower bound, {course.time(course.bound_ms)}",
        "legendgroup": "bound",
        "x": [at, at],
        "y": [-0.5, len(course.stages) - 0.5],
        "line": {"color": "$ink", "width": 1.6, "dash": "dot"},
        "hovertemplate": "no plan ends sooner: %{x:.4~r}<extra></extra>",
    }


def _names(course: PlannedJob) -> list[tuple[str, bool]]:
    """Per stage the name, cut to fit beside a row, and whether the stage is troublesome."""

    def cut(name: str) -> str:
        return name if len(name) <= NAME else f"{name[: NAME // 2]}\u2026{name[1 - NAME // 2 :]}"

    return [(cut(name), hard) for name, hard in course.stages.select("name", "troublesome").iter_rows()]


def _legend(course: PlannedJob) -> str:
    """Names of troublesome stages, or their number if large."""
    names = [name for name, hard in _names(course) if hard]
    return f"troublesome: {', '.join(names) if len(names) <= NAMED else f'{len(names)} stages'}"


def _planned(course: PlannedJob) -> str:
    machines = f"{course.machines} machine{'s' if course.machines > 1 else ''}"
    late = course.made_ms - course.submit_ms
    when = f", made {course.time(late)} after submission" if late else ""
    return f"<b>Planned</b>: {course.time(course.makespan_ms)} on {machines}{when}"


def _went(course: PlannedJob) -> str:
    waited = course.time(course.first_ms - course.submit_ms)
    return f"<b>What happened</b>: {course.time(course.span_ms)}, after {waited} of waiting"


def _rows(label: str, course: PlannedJob) -> list[tuple[str, ...]]:
    columns = ("start_ms", "end_ms", "began_ms", "over_ms")
    return [
        (
            label,
            row["name"],
            f"{row['tasks']:,}",
            *(number(row[column] / 1000, 4) for column in columns),
            "yes" if row["troublesome"] else "",
        )
        for row in course.stages.iter_rows(named=True)
    ]
