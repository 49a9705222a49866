"""Pictures of the site as SVG, each from a run that takes place when the site is built.

`python docs/pictures.py FOLDER [NAME ...]` writes pictures of ideas, by default all. A picture's text has the colour of
the text around it, so that it can be read on light and on dark pages, and a picture is legible at the width of a phone.
"""

from __future__ import annotations

import ast
import html
import json
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import polars as pl

import rm_emulator
from rm_emulator import api
from schedulers.core.decisions import Decision, Place
from schedulers.core.events import Event, Heartbeat, JobSubmitted
from schedulers.core.scheduler import Scheduler

ROOT: Final = Path(__file__).resolve().parents[1]
#: Colours in the middle between light and dark: text in white is legible on all of them.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#3b6fb6", "#b35d13", "#2f7d54", "#99418a", "#667078"
#: Pixels of a picture. A phone shows it a little smaller, so that its text is still legible there.
WIDTH: Final = 420
_SLOT: Final = {"cpu": 1, "memory": "2Gi"}


class Canvas:
    """Shapes of one picture, on a sheet of so many pixels."""

    def __init__(self, width: int, height: int = 0) -> None:
        self.width, self.height, self._shapes = width, height, [""]

    def text(self, x: float, y: float, text: str, size: int = 12, /, **style: str) -> None:
        """A line of text that begins (or, by `anchor`, is centred or ends) at x, on the base line y."""
        style = {"fill": "currentColor", "font-size": str(size), **style}
        self._shapes.append(f'<text x="{x:g}" y="{y:g}"{_attributes(style)}>{html.escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, title: str = "", **style: str) -> None:
        """A rectangle; its title is shown under the pointer."""
        size = f'x="{x:g}" y="{y:g}" width="{max(width, 0.5):g}" height="{height:g}"'
        inside = f"<title>{html.escape(title)}</title>" if title else ""
        self._shapes.append(f"<rect {size}{_attributes({'rx': '2', **style})}>{inside}</rect>")

    def line(self, x: float, y: float, to_x: float, to_y: float, **style: str) -> None:
        """A straight line."""
        style = {"stroke": "currentColor", **style}
        self._shapes.append(f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"{_attributes(style)}/>')

    def circle(self, x: float, y: float, radius: float, title: str = "", **style: str) -> None:
        """A circle around a point."""
        inside = f"<title>{html.escape(title)}</title>" if title else ""
        self._shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}"{_attributes(style)}>{inside}</circle>')

    def area(self, points: Sequence[tuple[float, float]], **style: str) -> None:
        """A filled area inside a line through points."""
        corners = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shapes.append(f'<polygon points="{corners}"{_attributes(style)}/>')

    def axis(self, left: float, top: float, second: float, seconds: float, every: int) -> None:
        """Seconds below a picture, with a faint line at each mark."""
        for mark in range(0, int(seconds) + 1, every):
            x = left + mark * second
            self.line(x, 4, x, top, **{"stroke-opacity": "0.12"})
            self.text(x, top + 15, f"{mark} s" if mark == 0 else str(mark), 11, anchor="middle")

    def svg(self, says: str) -> str:
        """The picture as an element. says: what the picture shows, for those who do not see it."""
        size = f'viewBox="0 0 {self.width} {self.height}" style="max-width:{round(self.width * 1.45)}px;width:100%"'
        label = html.escape(says, quote=True)
        shapes = "".join(self._shapes)
        return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" {size}>{shapes}</svg>'


def _attributes(style: Mapping[str, str]) -> str:
    names = {"anchor": "text-anchor"}
    return "".join(f' {names.get(name, name)}="{value}"' for name, value in style.items())


class Bar(NamedTuple):
    """A task on a slot of a node; times in seconds."""

    job: str
    node: str
    slot: int
    start: float
    length: float


def bars(tasks: pl.DataFrame) -> list[Bar]:
    """Each task in the first slot of its node that is free when the task starts."""
    free: dict[str, list[int]] = {node: [] for node in sorted(tasks["node"].unique())}
    found = []
    for job, node, start, end in tasks.sort("started_ms").select("job", "node", "started_ms", "ended_ms").iter_rows():
        slots = free[node]
        slot = next((i for i, until in enumerate(slots) if until <= start), len(slots))
        slots[slot : slot + 1] = [end]
        found.append(Bar(job, node, slot, start / 1000, (end - start) / 1000))
    return found


class Lanes:
    """Nodes one below the other, with a lane for each slot."""

    def __init__(self, shown: Sequence[Bar], *, top: int, lane: int, gap: int, left: int, second: float) -> None:
        self.shown, self.lane, self.left, self.second = shown, lane, left, second
        self.slots = {n: max(bar.slot for bar in shown if bar.node == n) + 1 for n in sorted({b.node for b in shown})}
        self.tops, self.bottom = {}, top
        for node, slots in self.slots.items():
            self.tops[node], self.bottom = self.bottom, self.bottom + slots * lane + gap

    def draw(self, canvas: Canvas, colours: Mapping[str, str], short: Mapping[str, str]) -> None:
        """The names of the nodes, and the tasks with as much of their job's name as there is room for."""
        for node, top in self.tops.items():
            canvas.text(0, top + self.slots[node] * self.lane / 2 + 4, node)
        for job, node, slot, start, length in self.shown:
            x, y = self.left + start * self.second, self.tops[node] + slot * self.lane
            title = f"{job}: {start:g} s, {length:g} s long"
            canvas.box(x, y, length * self.second - 1, self.lane - 2, title, fill=colours[job])
            if len(short[job]) * 6.5 < length * self.second - 4:
                canvas.text(x + 3, y + self.lane / 2 + 3, short[job], 11, fill="#fff")


# -- The small workload under every policy -----------------------------------------------------------------------------

JOBS: Final = {"wide": BLUE, "chain": ORANGE, "short": GREEN, "late": PURPLE}


def tasks_on_nodes(tasks: pl.DataFrame, end_ms: int, says: str) -> str:
    """The tasks of the jobs in `JOBS` as bars over time on their nodes."""
    end = end_ms / 1000
    second = 22 if end <= 16 else 352 / end
    lanes = Lanes(bars(tasks), top=4, lane=18, gap=8, left=36, second=second)
    canvas = Canvas(WIDTH, lanes.bottom + 40)
    canvas.axis(lanes.left, lanes.bottom, second, end, 5)
    for i, (job, colour) in enumerate(JOBS.items()):
        canvas.circle(lanes.left + 6 + i * 70, lanes.bottom + 31, 5, fill=colour)
        canvas.text(lanes.left + 16 + i * 70, lanes.bottom + 35, job)
    lanes.draw(canvas, JOBS, {job: job for job in JOBS})
    return canvas.svg(says)


# -- The house ---------------------------------------------------------------------------------------------------------

_ROLES: Final = {
    "schedulers.core": "facts in, decisions out; no clock, no I/O",
    "rm_emulator": "simulated time",
    "operators": "Kubernetes",
    "forecaster": "both: Kubernetes, and plays in emulation",
}


def floors() -> list[list[str]]:
    """The packages of the first import contract of pyproject.toml, highest floor first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def imports() -> dict[str, set[str]]:
    """By package of `floors` the other packages that its files import, read from the files."""
    packages = [name for floor in floors() for name in floor]
    found: dict[str, set[str]] = {name: set() for name in packages}
    for package in packages:
        folder = ROOT.joinpath(*package.split("."))
        for path in folder.rglob("*.py"):
            named = {_package(name, packages) for name in _imported(ast.parse(path.read_text(encoding="utf-8")))}
            found[package] |= {name for name in named if name and name != package}
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _package(module: str, packages: Sequence[str]) -> str:
    return next((name for name in packages if module == name or module.startswith(f"{name}.")), "")


def house() -> str:
    """Packages floor by floor, each with the packages that it imports."""
    known, canvas, y = imports(), Canvas(WIDTH), 4
    short = {name: name.removeprefix("schedulers.") for name in known}
    for floor in floors():
        width = (WIDTH - 4 * (len(floor) - 1)) / len(floor)
        lines = {
            name: _wrapped(f"imports {', '.join(sorted(short[o] for o in known[name]))}" if known[name] else "", width)
            for name in floor
        }
        roles = any(name in _ROLES for name in floor)
        height = 20 + (15 if roles else 0) + 15 * max(len(each) for each in lines.values()) + 5
        for i, name in enumerate(floor):
            x = i * (width + 4)
            canvas.box(x, y, width, height, fill=_floor_colour(name), rx="4")
            canvas.text(x + 7, y + 16, short[name], 13, fill="#fff", **{"font-weight": "bold"})
            below = y + 16
            if name in _ROLES:
                below += 15
                canvas.text(x + 7, below, _ROLES[name], 12, fill="#fff")
            for line in lines[name]:
                below += 15
                canvas.text(x + 7, below, line, 12, fill="#fff")
        y += height + 4
    canvas.height = y
    return canvas.svg(
        "Packages in floors. "
        + " ".join(f"{name} imports {', '.join(sorted(known[name])) or 'none of the others'}." for name in known)
    )


def _wrapped(text: str, width: float) -> list[str]:
    """The words in lines of so many pixels."""
    lines: list[str] = []
    for word in text.split():
        if lines and (len(lines[-1]) + 1 + len(word)) * 6.3 < width - 12:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _floor_colour(name: str) -> str:
    if name == "schedulers.core":
        return ORANGE
    return BLUE if name.startswith("schedulers.") else GREEN if name in _ROLES else GREY


# -- Heartbeats --------------------------------------------------------------------------------------------------------

BEATS: Final[Mapping[str, Any]] = {
    # `naive` so that beats which start nothing are heard, too.
    "cluster": {"profile": "yarn", "heartbeat": "2s", "mode": "naive", "nodes": [{"count": 2, "capacity": {"cpu": 2}}]},
    "workload": {
        "kind": "jobs",
        "jobs": [
            {
                "name": "a",
                "submit": "500ms",
                "stages": [{"name": "s", "tasks": 3, "demand": {"cpu": 1}, "duration": "5s"}],
            },
            {
                "name": "b",
                "submit": "3s",
                "stages": [{"name": "s", "tasks": 3, "demand": {"cpu": 1}, "duration": "3s"}],
            },
        ],
    },
    "policies": [{"kind": "fifo"}],
}


def heartbeats() -> str:
    """Beats of two nodes, tasks started at each beat, and the tasks."""
    heard: list[tuple[Event, list[Decision]]] = []

    def watch(_: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        heard.append((event, decide(event)))
        return heard[-1][1]

    played = api.play(_scenario("beats", BEATS), watch=watch)
    second, left, colours = 37, 36, {"a": BLUE, "b": ORANGE}
    lanes = Lanes(bars(played.tasks), top=64, lane=20, gap=44, left=left, second=second)
    canvas = Canvas(WIDTH, lanes.bottom - 16)
    canvas.axis(left, lanes.bottom - 36, second, played.end_ms / 1000, 2)
    for event, decisions in heard:
        x = left + event.at / 1000 * second
        if isinstance(event, JobSubmitted):
            canvas.line(x, 6, x, lanes.bottom - 36, stroke=colours[event.job.id], **{"stroke-dasharray": "3 3"})
            canvas.text(x + 4, 14, f"{event.job.id} arrives")
        elif isinstance(event, Heartbeat) and event.at <= played.end_ms:
            y, started = lanes.tops[event.node] - 12, sum(isinstance(each, Place) for each in decisions)
            title = f"{event.node} beats at {event.at / 1000:g} s: {started} tasks"
            style = {"fill": "currentColor"} if started else {"fill": "none", "stroke": "currentColor"}
            canvas.circle(x, y, 5, title, **style)
            if started:
                canvas.text(x, y - 9, f"+{started}", anchor="middle", **{"font-weight": "bold"})
    lanes.draw(canvas, colours, {"a": "a", "b": "b"})
    return canvas.svg(
        "Two nodes over time: heartbeats as circles, filled where tasks are started, and the tasks below."
    )


# -- A plan ------------------------------------------------------------------------------------------------------------


def _stage(name: str, tasks: int, seconds: int, parents: Sequence[str] = (), **demand: Any) -> dict[str, Any]:
    return {
        "name": name,
        "tasks": tasks,
        "demand": {**_SLOT, **demand},
        "duration": f"{seconds}s",
        "parents": list(parents),
    }


PLAN: Final[Mapping[str, Any]] = {
    "cluster": {"profile": "events", "nodes": [{"count": 3, "capacity": {"cpu": 2, "memory": "4Gi"}}]},
    "workload": {
        "kind": "jobs",
        "jobs": [
            {
                "name": "etl",
                "stages": [
                    _stage("read", 6, 3),
                    _stage("parse", 6, 4, ["read"]),
                    _stage("train", 2, 12, cpu=2),
                    _stage("join", 4, 3, ["parse", "train"]),
                    _stage("write", 1, 2, ["join"]),
                ],
            }
        ],
    },
    # The planner is told run times that are wrong by up to 30 %.
    "policies": [{"kind": "graphene", "predictor": {"kind": "oracle", "error": [-0.3, 0.3]}}],
}


def plan() -> str:
    """A row for each stage of one job: the plan as an outline above, the tasks as they ran below."""
    with TemporaryDirectory() as folder:
        cell = _run("plan", PLAN, Path(folder))
        planned, tasks = pl.read_parquet(cell / "plans.parquet"), pl.read_parquet(cell / "tasks.parquet")
    names = [stage["name"] for stage in PLAN["workload"]["jobs"][0]["stages"]]
    end: float = max([*planned["end_ms"], *tasks["ended_ms"]]) / 1000
    left, row, top = 46, 44, 26
    second, canvas = (WIDTH - left - 8) / end, Canvas(WIDTH, top + row * len(names) + 20)
    canvas.box(left, 4, 22, 10, fill="none", stroke="currentColor", **{"stroke-dasharray": "3 2"})
    canvas.text(left + 27, 13, "plan")
    canvas.box(left + 80, 4, 22, 10, fill=BLUE)
    canvas.text(left + 107, 13, "what happened (all tasks of the stage)")
    canvas.axis(left, top + row * len(names), second, end, 5)
    for i, name in enumerate(names):
        y = top + i * row
        canvas.text(0, y + 24, name)
        for start, stop, hard in (
            planned.filter(name=name).select("start_ms", "end_ms", "troublesome").sort("start_ms").iter_rows()
        ):
            x, width = left + start / 1000 * second, (stop - start) / 1000 * second
            style = {"fill": "none", "stroke": ORANGE if hard else "currentColor", "stroke-dasharray": "3 2"}
            canvas.box(x, y + 4, width, 13, f"{name} by plan: {start / 1000:g} s to {stop / 1000:g} s", **style)
        shown = _merged(tasks.filter(stage=i))
        most = max(count for _, _, count in shown)
        for start, stop, count in shown:
            x, width, height = left + start * second, (stop - start) * second, 18 * count / most
            title = f"{name}: {count} tasks run from {start:g} s to {stop:g} s"
            canvas.box(x, y + 38 - height, width, height, title, fill=BLUE, rx="0")
    return canvas.svg("Stages of a job over time: as planned, and below as they ran.")


def _merged(tasks: pl.DataFrame) -> list[tuple[float, float, int]]:
    """Stretches of time, each with the number of tasks that run."""
    times = sorted({*tasks["started_ms"].to_list(), *tasks["ended_ms"].to_list()})
    found = []
    for start, end in pairwise(times):
        count = tasks.filter((pl.col("started_ms") <= start) & (pl.col("ended_ms") > start)).height
        if count:
            found.append((start / 1000, end / 1000, count))
    return found


# -- Shares ------------------------------------------------------------------------------------------------------------


def _load(queue: str, submit: str, tasks: int) -> dict[str, Any]:
    stage = {"name": "s", "tasks": tasks, "demand": {"cpu": 1}, "duration": {"kind": "gamma", "mean": "2s", "cov": 0.4}}
    return {"name": queue, "queue": queue, "submit": submit, "stages": [stage]}


QUEUES: Final = {"prod": BLUE, "test": ORANGE, "lab": GREEN}
SHARES: Final[Mapping[str, Any]] = {
    "cluster": {"profile": "events", "nodes": [{"count": 6, "capacity": {"cpu": 4}}]},
    "queues": [{"name": "prod", "weight": 2}, {"name": "test", "weight": 1}, {"name": "lab", "weight": 1}],
    "workload": {
        "kind": "jobs",
        "jobs": [_load("prod", "0s", 360), _load("test", "0s", 300), _load("lab", "20s", 160)],
    },
    "policies": [{"kind": "drf"}],
}


def shares() -> str:
    """Cores by queue over time, stacked."""
    played = api.play(_scenario("shares", SHARES))
    cores, end, step = 24, played.end_ms / 1000, 0.25
    queue = {row["id"]: row["queue"] for row in played.jobs.iter_rows(named=True)}
    tasks = played.tasks.with_columns(pl.col("job").replace_strict(queue).alias("queue"))
    left, top, height = 46, 10, 190
    second, canvas = (WIDTH - left - 8) / end, Canvas(WIDTH, top + height + 40)
    times = [i * step for i in range(int(end / step) + 1)]
    held = {
        name: [
            tasks.filter(
                (pl.col("queue") == name) & (pl.col("started_ms") <= t * 1000) & (pl.col("ended_ms") > t * 1000)
            ).height
            for t in times
        ]
        for name in QUEUES
    }
    below = [0] * len(times)
    for name, colour in QUEUES.items():
        above = [b + h for b, h in zip(below, held[name], strict=True)]
        edge = [(left + t * second, top + height * (1 - a / cores)) for t, a in zip(times, above, strict=True)]
        floor = [(left + t * second, top + height * (1 - b / cores)) for t, b in zip(times, below, strict=True)]
        canvas.area([*edge, *reversed(floor)], fill=colour)
        below = above
    for share in (0, 25, 50, 75, 100):
        y = top + height * (1 - share / 100)
        canvas.line(left, y, WIDTH - 8, y, **{"stroke-opacity": "0.25"})
        canvas.text(left - 5, y + (4 if share else 0), f"{share} %", 11, anchor="end")
    canvas.axis(left, top + height, second, end, 10)
    for i, (name, colour) in enumerate(QUEUES.items()):
        canvas.box(left + i * 120, top + height + 26, 12, 10, fill=colour)
        weight = next(each["weight"] for each in SHARES["queues"] if each["name"] == name)
        canvas.text(left + 17 + i * 120, top + height + 35, f"{name} (weight {weight})")
    return canvas.svg("Shares of the cluster by queue over time, stacked.")


# -- Architectures -----------------------------------------------------------------------------------------------------

_TWO: Final = [{"name": "one", "t_job": "1s", "t_task": "0s"}, {"name": "two", "t_job": "1s", "t_task": "0s"}]
ARCHITECTURES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "monolithic": ("Monolithic (central): one queue for all", {"kind": "central", "t_job": "1s", "t_task": "0s"}),
    "two-level": ("Two levels (Mesos): offers are locked", {"kind": "two_level", "schedulers": _TWO}),
    "shared-state": ("Shared state (Omega): claims may be refused", {"kind": "shared_state", "schedulers": _TWO}),
    "decentralised": (
        "Decentralised (Sparrow): queues at workers",
        {"kind": "decentralised", "schedulers": 2, "method": "late_binding", "message_delay": "200ms"},
    ),
}
_LETTERS: Final = {"a": BLUE, "b": ORANGE, "c": GREEN, "d": PURPLE}


def _letter(name: str, submit: str, tasks: int, seconds: int) -> dict[str, Any]:
    stage = {"name": "s", "tasks": tasks, "demand": {"cpu": 1}, "duration": f"{seconds}s"}
    return {"name": name, "submit": submit, "user": name, "stages": [stage]}


FOUR: Final[Mapping[str, Any]] = {
    "cluster": {"profile": "events", "nodes": [{"count": 6, "capacity": {"cpu": 1}}]},
    "workload": {
        "kind": "jobs",
        "jobs": [
            _letter("a", "0s", 3, 4),
            _letter("b", "500ms", 3, 3),
            _letter("c", "2s", 2, 3),
            _letter("d", "2500ms", 2, 2),
        ],
    },
    "policies": [{"kind": "fifo"}],
}
#: Seconds on the axis of all four pictures, so that they can be compared.
_SPAN: Final = 11


def architecture(kind: str) -> str:
    """The workload `FOUR` under one architecture: schedulers at the top, nodes below."""
    title, block = ARCHITECTURES[kind]
    spec = {**FOUR, "cluster": {**FOUR["cluster"], "architecture": block}}
    with TemporaryDirectory() as folder:
        cell = _run(kind, spec, Path(folder))
        tasks = pl.read_parquet(cell / "tasks.parquet")
        tries = pl.read_parquet(cell / "tries.parquet") if (cell / "tries.parquet").exists() else None
        log = (
            [json.loads(line) for line in (cell / "events.jsonl").read_text("utf-8").splitlines()]
            if tries is None
            else []
        )
    left, second = 36, (340 - 36 - 8) / _SPAN
    names = sorted(tries["scheduler"].unique()) if tries is not None else ["one", "two"]
    lanes = Lanes(bars(tasks), top=30 + 24 * len(names) + 10, lane=20, gap=4, left=left, second=second)
    canvas = Canvas(340, lanes.bottom + 19)
    canvas.text(0, 14, title, 13, **{"font-weight": "bold"})
    canvas.axis(left, lanes.bottom, second, _SPAN, 2)
    for i, name in enumerate(names):
        canvas.text(0, 30 + 24 * i + 14, name)
    if tries is not None:
        _thinking(canvas, tries, names, lanes, tasks if kind == "two-level" else None)
    else:
        _waiting(canvas, log, lanes)
    lanes.draw(canvas, _LETTERS, {name: name for name in _LETTERS})
    return canvas.svg(f"{title}. Schedulers at the top, nodes below, over {_SPAN} seconds.")


def _thinking(
    canvas: Canvas, tries: pl.DataFrame, names: list[str], lanes: Lanes, offered: pl.DataFrame | None
) -> None:
    """Attempts of the schedulers, refused claims as crosses, and what an attempt locks (`offered`: the tasks)."""
    for row in tries.sort("began_ms").iter_rows(named=True):
        began, ended = row["began_ms"] / 1000, row["ended_ms"] / 1000
        x, y = lanes.left + began * lanes.second, 30 + 24 * names.index(row["scheduler"])
        colour = _LETTERS[row["job"]]
        title = f"{row['scheduler']} thinks about {row['job']}: {row['placed']} placed, {row['refused']} refused"
        width = (ended - began) * lanes.second - 1
        canvas.box(x, y, width, 20, title, fill=colour, **{"fill-opacity": "0.25", "stroke": colour})
        canvas.text(x + 4, y + 14, row["job"], 11)
        if row["refused"]:
            canvas.text(x + width - 3, y + 15, "✕", 13, anchor="end", fill="#d33", **{"font-weight": "bold"})
        if offered is not None:
            busy = offered.filter((pl.col("started_ms") <= row["began_ms"]) & (pl.col("ended_ms") > row["began_ms"]))
            for node, top in lanes.tops.items():
                if node not in busy["node"]:
                    style = {"fill": colour, "fill-opacity": "0.12", "stroke": colour, "stroke-dasharray": "2 2"}
                    canvas.box(x, top, width, 18, f"offered to {row['scheduler']}", **style)


def _waiting(canvas: Canvas, log: list[dict[str, Any]], lanes: Lanes) -> None:
    """Messages of the schedulers as dots, and reservations in the queues of workers as frames."""
    at, since = 0, {}
    for entry in log:
        at = entry.get("at", at)
        message, x = entry.get("message", {}), lanes.left + at / 1000 * lanes.second
        kind, job = message.get("message"), message.get("job")
        if entry.get("decision") == "Send" and kind in ("Reservation", "Launch"):
            canvas.circle(x, 30 + 24 * message["scheduler"] + 10, 4, f"{kind} for {job}", fill=_LETTERS[job])
        elif entry.get("event") == "Delivered" and kind == "Reservation":
            since.update({(job, worker): at for worker in message["workers"]})
        elif entry.get("event") == "Delivered":
            for worker in message.get("workers", [message.get("worker")]):
                if kind in ("Launch", "NoTask", "Cancellation") and (job, worker) in since:
                    start = lanes.left + since.pop((job, worker)) / 1000 * lanes.second
                    style = {"fill": _LETTERS[job], "fill-opacity": "0.12", "stroke": _LETTERS[job]}
                    style["stroke-dasharray"] = "2 2"
                    canvas.box(start, lanes.tops[worker], x - start, 18, f"{job} waits at {worker}", **style)


# -- All of them -------------------------------------------------------------------------------------------------------

#: By name of the file: what draws the picture.
IDEAS: Final[Mapping[str, Callable[[], str]]] = {
    "house": house,
    "heartbeats": heartbeats,
    "plan": plan,
    "shares": shares,
    "architectures": lambda: "".join(architecture(kind) for kind in ARCHITECTURES),
}


def write(folder: Path, names: Collection[str] = tuple(IDEAS)) -> None:
    """Pictures of ideas, by default all of them, each in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.svg").write_text(f'<div class="picture">{IDEAS[name]()}</div>\n', encoding="utf-8")


def _scenario(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api.API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {"seeds": [1], **spec},
    }


def _run(name: str, spec: Mapping[str, Any], folder: Path) -> Path:
    """The folder of the only run of a scenario."""
    rm_emulator.run(_scenario(name, {**spec, "log": "full"}), out=folder / name, jobs=1)
    return next((folder / name / "runs").glob("*/*"))


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2:] or tuple(IDEAS))
