"""Pages of the site that follow from the code: one for each plug-in, wait reasons, metrics, command line, Python API.

`write(folder)` makes them anew. A page has nothing that is not in the code: a new policy, reader, metric or option has
its page without anybody writing one.
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
import typer.main

from operators import metrics
from rm_emulator import api
from rm_emulator.cli import app
from rm_emulator.engine.profile import profiles
from rm_emulator.results.chart import charts
from rm_emulator.scenario.reference import entry
from rm_emulator.workload import formats
from rm_emulator.workload.contents import plain
from schedulers.core.errors import SchedulerError
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.reasons import Reason
from schedulers.core.registry import Registry

#: By folder: registry, title of the list, and the lines above an entry in a scenario.
KINDS: Final[Mapping[str, tuple[Registry[Any], str, str]]] = {
    "policies": (policies, "Policies", "policies:\n- "),
    "predictors": (predictors, "Predictors", "policies:\n- kind: gs\n  predictor: "),
    "placers": (placers, "Placers", "policies:\n- kind: fifo\n  placer: "),
    "profiles": (profiles, "Profiles", "cluster:\n  profile: "),
    "charts": (charts, "Charts", "report:\n  charts:\n  - "),
}
#: Public modules of the Python API, in the order in which a reader meets them.
MODULES: Final = (
    "rm_emulator",
    "rm_emulator.api",
    "rm_emulator.testing",
    "rm_emulator.workload.formats",
    "rm_emulator.results.chart",
    "rm_emulator.engine.profile",
    "schedulers.core.model",
    "schedulers.core.events",
    "schedulers.core.decisions",
    "schedulers.core.scheduler",
    "schedulers.core.policy",
    "schedulers.core.abilities",
    "schedulers.core.predictor",
    "schedulers.core.placer",
    "schedulers.core.registry",
)
_SLOT: Final = {"cpu": 1, "memory": "2Gi"}
#: The workload of every policy's picture: a wide job, a chain of two stages, a short job, and a job that comes late.
_PICTURED: Final[Mapping[str, Any]] = {
    "cluster": {"profile": "events", "nodes": [{"count": 2, "capacity": {"cpu": 3, "memory": "6Gi"}}]},
    "workload": {
        "kind": "jobs",
        "jobs": [
            {"name": "wide", "stages": [{"name": "s", "tasks": 9, "demand": _SLOT, "duration": "4s"}]},
            {
                "name": "chain",
                "submit": "1s",
                "stages": [
                    {"name": "first", "tasks": 3, "demand": _SLOT, "duration": "3s"},
                    {"name": "then", "tasks": 3, "demand": _SLOT, "duration": "3s", "parents": ["first"]},
                ],
            },
            {"name": "short", "submit": "2s", "stages": [{"name": "s", "tasks": 2, "demand": _SLOT, "duration": "1s"}]},
            {"name": "late", "submit": "6s", "stages": [{"name": "s", "tasks": 4, "demand": _SLOT, "duration": "2s"}]},
        ],
    },
    "seeds": [1],
}
_COLOURS: Final = {"wide": "#3b6fb6", "chain": "#d9822b", "short": "#3f9b6c", "late": "#a24b8f"}
_SECOND, _LANE, _LEFT = 24, 18, 70
"""Pixels of a second, of a slot, and of the names on the left of a picture."""


def write(folder: Path) -> None:
    """Writes all generated pages; a page that an older version wrote is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    for kind, (registry, title, place) in KINDS.items():
        entries = {each.name: entry(registry, each.name) for each in registry}
        _page(folder / f"{kind}.md", _list(title, kind, entries))
        for name, facts in entries.items():
            picture = picture_of(name) if kind == "policies" else ""
            _page(folder / kind / f"{name}.md", _entry(facts, place, picture))
    readers = {name: formats.describe(name) for name in formats.names()}
    _page(folder / "traces.md", _list("Trace formats", "traces", readers))
    for name, facts in readers.items():
        _page(folder / "traces" / f"{name}.md", _entry(facts, "", ""))
    _page(folder / "reasons.md", _reasons())
    _page(folder / "metrics.md", ["# Metrics", "", metrics.table()])
    _page(folder / "commands.md", _commands())
    _page(folder / "python.md", _python())


def _page(path: Path, lines: Iterator[str] | Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _list(title: str, folder: str, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield from (f"# {title}", "", "| name | summary | source |", "| --- | --- | --- |")
    for name, facts in entries.items():
        yield f"| [`{name}`]({folder}/{name}.md) | {_cell(facts['summary'])} | {_cell(facts['source'])} |"
    yield from ("", "```{toctree}", ":hidden:", "", *(f"{folder}/{name}" for name in entries), "```")


def _entry(facts: Mapping[str, Any], place: str, picture: str) -> Iterator[str]:
    """The page of one plug-in: what it does, source, columns of a trace and its lacks, settings, example, picture."""
    yield from (f"# `{facts['name']}`", "", facts["summary"], "")
    yield from (facts.get("description", ""), "", f"**Source:** {facts['source']}.", "")
    if columns := facts.get("columns"):
        yield from ("## Columns", "", "| column | needed | meaning |", "| --- | --- | --- |")
        for column in columns:
            yield f"| `{column['name']}` | {'yes' if column['required'] else ''} | {_cell(column['meaning'])} |"
        yield ""
    if carries := facts.get("carries"):
        carried = ", ".join(map(plain, carries))
        yield from (
            "## What the format lacks, and what is assumed",
            "",
            f"A file of the format carries at most: {carried}.",
            "",
        )
        yield from (f"- **{plain(fact)}**: {_cell(assumed)}" for fact, assumed in facts["lacks"].items())
        yield ""
    if facts["parameters"]:
        yield from ("## Settings", "", "| setting | default | values | meaning |", "| --- | --- | --- | --- |")
        for setting in facts["parameters"]:
            default = "" if setting["default"] is None else f"`{json.dumps(setting['default'])}`"
            values, meaning = _cell(setting["type"]), _cell(setting["description"])
            yield f"| `{setting['name']}` | {default} | {values} | {meaning} |"
        yield ""
    if example := facts.get("example"):
        yield from ("## In a scenario", "", "```yaml", f"{place}{example}", "```", "")
    if picture:
        yield from ("## A small workload under this policy", "", _LEGEND, "", picture, "")


_LEGEND: Final = (
    "Two nodes with three slots each. `wide` has nine tasks of 4 s; `chain` comes at 1 s with two stages of three tasks"
    " of 3 s, one after the other; `short` comes at 2 s with two tasks of 1 s; `late` comes at 6 s with four of 2 s."
    " Policies that need estimates get true run times (predictor `oracle`)."
)


def picture_of(policy: str) -> str:
    """The tasks of the small workload on their nodes under a policy, as SVG; a sentence where the policy cannot run."""
    spec = {**_PICTURED, "policies": [{"kind": policy, "predictor": {"kind": "oracle"}}]}
    scenario = {"apiVersion": api.API_VERSION, "kind": "Scenario", "metadata": {"name": policy}, "spec": spec}
    try:
        played = api.play(scenario)
    except (api.InvalidInput, SchedulerError, ValueError) as error:
        return f"No picture, since the policy does not run this workload: {_cell(str(error).splitlines()[0])}."
    return _drawn(played.tasks, played.end_ms)


def _drawn(tasks: pl.DataFrame, end_ms: int) -> str:
    """Each task as a bar in the first slot of its node that is free when the task starts."""
    free: dict[str, list[int]] = {node: [] for node in sorted(tasks["node"].unique())}
    bars = []
    for job, node, start, end in tasks.sort("started_ms").select("job", "node", "started_ms", "ended_ms").iter_rows():
        slots = free[node]
        slot = next((i for i, until in enumerate(slots) if until <= start), len(slots))
        slots[slot : slot + 1] = [end]
        bars.append((job, node, slot, start / 1000, (end - start) / 1000))
    tops, height = {}, 4
    for node, slots in free.items():
        tops[node], height = height, height + len(slots) * _LANE + 8
    width = _LEFT + int(end_ms / 1000 * _SECOND) + 10
    shapes = [
        f'<text x="0" y="{top + 13}" font-size="12" fill="currentColor">{html.escape(node)}</text>'
        for node, top in tops.items()
    ]
    for job, node, slot, start, length in bars:
        x, y = _LEFT + start * _SECOND, tops[node] + slot * _LANE
        box = f'x="{x:g}" y="{y}" width="{length * _SECOND - 1:g}" height="{_LANE - 2}" rx="2"'
        shapes.append(f'<rect {box} fill="{_COLOURS[job]}"><title>{job}: {start:g} s, {length:g} s long</title></rect>')
        shapes.append(f'<text x="{x + 3:g}" y="{y + 12}" font-size="10" fill="#fff">{job}</text>')
    for second in range(0, end_ms // 1000 + 1, 5):
        x = _LEFT + second * _SECOND
        shapes.append(f'<text x="{x}" y="{height + 10}" font-size="10" fill="currentColor">{second} s</text>')
    size = f'viewBox="0 0 {width} {height + 14}" style="max-width:{width}px;width:100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{"".join(shapes)}</svg>'


def _reasons() -> Iterator[str]:
    yield from ("# Why a task waits", "", "In order of precedence: of several reasons the first one is said.", "")
    yield from ("| code | sentence |", "| --- | --- |")
    for reason in Reason:
        yield f"| `{reason.value}` | {_cell(reason.template)} |"


def _commands() -> Iterator[str]:
    """Every command with its arguments and options, as `--help` has them."""
    yield from ("# Command line", "")
    group: Any = typer.main.get_command(app)
    for name, command in sorted(_leaves(group, "rm-emulator")):
        yield from (f"## `{name}`", "", " ".join(str(command.help or "").split()), "")
        if command.params:
            yield from ("| argument | meaning |", "| --- | --- |")
        for parameter in command.params:
            shown = " ".join([*parameter.opts, parameter.metavar or ""] if parameter.opts else [parameter.metavar])
            yield f"| `{shown.strip()}` | {_cell(getattr(parameter, 'help', '') or '')} |"
        yield ""


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, below in getattr(command, "commands", {}).items():
        yield from _leaves(below, f"{name} {child}")


def _python() -> Iterator[str]:
    yield from ("# Python API", "")
    for module in MODULES:
        yield from (f"## `{module}`", "", "```{eval-rst}", f".. automodule:: {module}", "   :members:", "```", "")


def _cell(text: str) -> str:
    return " ".join(html.escape(text, quote=False).split()).replace("|", "\\|")
