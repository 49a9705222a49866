"""report.html: a self-contained page on a run, without need of a network or a server.

plotly.js travels inside the page, compressed; the browser unpacks it. Every chart has its numbers
as a table, shown as well by a browser without JavaScript.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec

from rm_emulator.files import write_file
from rm_emulator.issues import show_point
from rm_emulator.results import contest, headline, palette, sweep, table
from rm_emulator.results.chart import SECTIONS, SWEEP, Cells, Chart, Drawing, Section, drawings
from rm_emulator.results.drawing import show_date
from rm_emulator.results.figures import Costs, Summary
from rm_emulator.results.job_section import job_section
from rm_emulator.results.summary import cell_dir
from rm_emulator.results.unused import unused_settings
from rm_emulator.workload.description import counts
from rm_emulator.workload.recurring import Recurring
from rm_emulator.workload.sizes import ClusterSizes

#: Points of a sweep that have a page of their own: each takes half a second and 2 MB.
OF_POINTS: Final = 24


def write(out_dir: Path) -> Path:
    """Writes `report.html` into a run directory with a summary.json, and returns its path.

    `workload.json` (the output of `traces describe`) and `scenario.yaml` are shown if present.
    Raises summary.MissingCell when the summary or a cell is missing, InvalidInput for an unreadable event log.
    """
    path = out_dir / "report.html"
    write_file(path, render(out_dir))
    return path


def render(out_dir: Path) -> str:
    """The page as text. Raises as `write` does."""
    cells = Cells.of(out_dir)
    summary, spec = cells.summary, cells.spec
    standing = [section for section in SECTIONS if (section == SWEEP) == bool(summary.axes)]
    shown = [
        place
        for place in drawings(spec.get("report", {}).get("charts", ()))
        if (place.section == SWEEP) == bool(summary.axes)
    ]
    made = [(place, chart) for place in shown if (chart := place.draw(cells)) is not None]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rm_emulator.results"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=table.number, times=table.times, interval=table.interval, sides=table.sides)
    environment.filters.update(headlined=functools.partial(table.by_difference, summary))
    environment.filters.update(date=show_date, thousands="{:,}".format, point=show_point, embedded=_embedded)
    if summary.axes:
        shared: dict[str, Any] = {
            "summary": summary,
            "columns": sweep.columns(summary, sweep.points_shown(summary)),
            "outcomes": sweep.outcomes(summary),
            "points": (points := len(summary.points)),
            "left_out": sweep.left_out(sweep.points_shown(summary), points, "points"),
            "pages": OF_POINTS,
        }
    else:
        shared = _shared(out_dir, summary, cells)
    return environment.get_template("report.html.jinja").render(
        **{"queues": [], "began": cells.date(0), "workload": None, **shared},
        headline=headline.of(summary),
        unused=unused_settings(spec),
        facts=_facts(summary, cells),
        sections=_sections(environment, made, shared, standing),
        figures=_embedded({place.id: [figure for _, figure in chart.variants] for place, chart in made}),
        scenario=_text(out_dir / "scenario.yaml"),
        plotly=plotly_compressed(),
        light=palette.css(palette.LIGHT),
        dark=palette.css(palette.DARK),
    )


def _shared(out_dir: Path, summary: Summary, cells: Cells) -> dict[str, Any]:
    """Values for all templates of a run without a sweep."""
    return {
        "summary": summary,
        "columns": table.figures(summary),
        "speedups": table.speedups(summary),
        "differences": table.differences(summary),
        "averages": table.SPEEDUP_NAMES,
        "queues": _queues(summary),
        "new_queue": table.new_queue(summary),
        "locality": table.locality(summary),
        "costs": table.cost_rows(summary),
        "kinds_of_cost": Costs.__struct_fields__,
        "workload": _workload(out_dir),
        "best": contest.best(summary),
        "who": job_section(cells),
        "began": cells.date(0),
        "traces": _traces(out_dir, cells),
    }


def _traces(out_dir: Path, cells: Cells) -> list[tuple[str, str]]:
    """(label, path relative to the run directory) of each trace for Perfetto of the first seed."""
    places = [(label, cell_dir(out_dir, label, cells.seeds[0])) for label in cells.labels]
    files = [(label, place / name) for label, place in places for name in ("trace.json", "trace.json.gz")]
    return [(label, file.relative_to(out_dir).as_posix()) for label, file in files if file.is_file()]


class _DrawnChart(msgspec.Struct, frozen=True):
    """A section with its charts, and the HTML above and below the charts."""

    section: Section
    charts: list[tuple[Drawing, Chart]]
    above: str
    below: str


def _sections(
    environment: jinja2.Environment,
    made: Sequence[tuple[Drawing, Chart]],
    shared: Mapping[str, Any],
    standing: Sequence[Section],
) -> list[_DrawnChart]:
    """The sections in their order, without empty sections.

    standing: sections kept without a chart.
    """
    sections, templates = [], environment.list_templates()
    for section in sorted({*standing, *(place.section for place, _ in made)}, key=lambda section: section.order):
        charts = [(place, chart) for place, chart in made if place.section == section]
        parts = (f"{section.id}-{side}.html.jinja" for side in ("above", "below"))
        texts = [environment.get_template(p).render(**shared, charts=charts) if p in templates else "" for p in parts]
        shown = _DrawnChart(section, charts, texts[0].strip(), texts[1].strip())
        if charts or shown.above or shown.below:
            sections.append(shown)
    return sections


@functools.cache
def plotly_compressed() -> str:
    """plotly.js, deflated, in base64: 2 MB instead of 4.8. A higher level takes up to twice as long and saves 1 %."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(zlib.compress(get_plotlyjs().encode(), 5)).decode()


#: The held load is shown where it is so many times the load, or more.
_LAUNCHES: Final = 1.05


#: Names of counts of one.
_ONE: Final = {"points": "point", "policies": "policy", "seeds": "seed", "runs": "run"}


def _facts(summary: Summary, cells: Cells) -> list[tuple[str, str]]:
    first, seeds = summary.runs[0], len(cells.seeds)
    if summary.axes:
        sizes = {"points": len(summary.points), "policies": len(summary.labels), "seeds": seeds}
        counts = {**sizes, "runs": len(summary.runs)}
        return [(_ONE.get(name, name) if count == 1 else name, f"{count:,}") for name, count in counts.items()]
    nodes = cells.nodes(first.label)["node"].n_unique() - 1
    load = summary.mean(first.label, "load")
    shown = {"jobs": table.counted(summary, "jobs"), "tasks": table.counted(summary, "tasks")}
    facts = [*shown.items(), ("nodes", f"{nodes:,}"), ("seeds" if seeds > 1 else "seed", f"{seeds:,}")]
    held = summary.mean(first.label, "held_load")
    if load is not None:
        facts.append(("load", table.number(load) + table.on(first)))
    if load is not None and held is not None and held > _LAUNCHES * load:
        facts.append(("held load, launches included", table.number(held)))
    return facts


#: Columns of the table of queues, and where each is in a run; QUEUE stands for the queue's name.
_QUEUE = "QUEUE"
_OF_QUEUES: Mapping[str, tuple[str, ...]] = {
    "mean JCT (s)": ("queues", _QUEUE, "jct_s", "mean"),
    "p90 JCT (s)": ("queues", _QUEUE, "jct_s", "p90"),
    "mean wait (s)": ("queues", _QUEUE, "wait_s", "mean"),
    "share": ("queues", _QUEUE, "share"),
    "fair share": ("fairness", "queues", _QUEUE, "fair_share_mean"),
    "starved (s)": ("fairness", "queues", _QUEUE, "starved_s"),
    "hungry (s)": ("fairness", "queues", _QUEUE, "hungry_s"),
}


def _queues(summary: Summary) -> list[dict[str, Any]]:
    """Rows of the table of queues, none when the run has a single queue."""
    names = sorted({name for run in summary.runs for name in run.queues})
    if len(names) < 2:
        return []

    def figure(label: str, queue: str, path: Sequence[str]) -> float | None:
        return summary.mean(label, *(queue if key == _QUEUE else key for key in path))

    return [
        {"queue": name, "label": label, "figures": {k: figure(label, name, path) for k, path in _OF_QUEUES.items()}}
        for name in names
        for label in summary.labels
        if all(name in run.queues for run in summary.of(label))
    ]


def _workload(out_dir: Path) -> dict[str, Any] | None:
    text = _text(out_dir / "workload.json")
    if text is None:
        return None
    described = json.loads(text)
    rows = [(name, described.get(key)) for name, key in (("over time", "cov_time"), ("over space", "cov_space"))]
    judged = described.get("recurring")  # absent in folders of earlier versions
    history = msgspec.convert(judged, Recurring).sentence() if judged and judged["of"] else ""
    cov = [(name, row) for name, row in rows if row]
    sized = described.get("sizes")  # absent, too
    sizes = counts(msgspec.convert(sized, ClusterSizes), " (an estimate)") if sized else ""
    texts = {"history": history, "sizes": sizes}
    return {"verdict": described.get("verdict"), "cov": cov, **{k: v[:1].upper() + v[1:] for k, v in texts.items()}}


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _embedded(data: Any) -> str:
    """JSON, safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=msgspec.to_builtins)
    return text.replace("</", "<\\/")
