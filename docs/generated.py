"""Pages of the site that follow from the code: plug-ins, wait reasons, metrics, objects, command line, Python API.

`write(folder)` makes them anew. A page has nothing that is not in the code: a new policy, reader, metric or option has
its page without anybody writing one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import objects
import pictures
import typer.main
from objects import cell as _cell

from operators import metrics
from rm_emulator import api
from rm_emulator.cli import app
from rm_emulator.engine.profile import profiles
from rm_emulator.issues import InvalidInput
from rm_emulator.results.chart import charts
from rm_emulator.scenario.listing import entry
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
    "rm_emulator.forecasts.api",
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
_NODE: Final = {"cpu": 3, "memory": "6Gi"}
_WIDE: Final = {"name": "s", "tasks": 9, "demand": _SLOT, "duration": "4s"}
_WIDE_ON_N2: Final = [{**_WIDE, "hosts": ["n2"]}]
#: The workload of every policy's picture: a wide job, a chain of two stages, a short job, and a job that comes late.
_PICTURED: Final[Mapping[str, Any]] = {
    "cluster": {"profile": "events", "nodes": [{"count": 2, "capacity": _NODE}]},
    "workload": {
        "kind": "jobs",
        "jobs": [
            {"name": "wide", "stages": [_WIDE]},
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
    _page(folder / "objects.md", objects.page())
    _page(folder / "commands.md", _commands())
    _page(folder / "python.md", _python())
    pictures.write(folder / "pictures")


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
        need = NEEDS.get(facts["name"], Need("")).meaning
        yield from ("## A small workload under this policy", "", f"{_LEGEND} {need}".strip(), "", picture, "")


_LEGEND: Final = (
    "Two nodes with three slots each. `wide` has nine tasks of 4 s; `chain` comes at 1 s with two stages of three tasks"
    " of 3 s, the second after the first; `short` comes at 2 s with two tasks of 1 s; `late` comes at 6 s with four"
    " tasks of 2 s. Policies that need estimates get true run times (predictor `oracle`)."
)


class Need(NamedTuple):
    """Additions to the small workload for a policy that would otherwise do nothing of its own.

    spec: keys of the scenario. jobs: keys by job. policy: settings. meaning: a sentence for the reader.
    """

    meaning: str
    spec: Mapping[str, Any] = {}
    jobs: Mapping[str, Mapping[str, Any]] = {}
    policy: Mapping[str, Any] = {}


_QUEUES: Final = Need(
    "Queue `prod` (weight 2) holds `chain`, `short` and `late`; queue `test` (weight 1) holds `wide`.",
    {"queues": [{"name": "prod", "weight": 2}, {"name": "test", "weight": 1}]},
    {name: {"queue": "test" if name == "wide" else "prod"} for name in pictures.JOBS},
)
_WISHES: Final = Need(
    "Node `b1` is of kind `fast`, and `late` would like that node: the wish is worth 3, any other way 1."
    " A plan is made each second.",
    {
        "cluster": {
            "profile": "events",
            "nodes": [{"name": "a1", "capacity": _NODE}, {"name": "b1", "kind": "fast", "capacity": _NODE}],
        }
    },
    {"late": {"wishes": {"prefer": [{"device": "fast", "worth": 3}, {"worth": 1}]}}},
    {"cycle_s": 1.0},
)
#: By policy. The other policies run the small workload as it is.
NEEDS: Final[Mapping[str, Need]] = {
    **dict.fromkeys(("drf", "hdrf", "capacity", "fair_yarn", "bounded"), _QUEUES),
    **dict.fromkeys(("tetrisched", "alsched"), _WISHES),
    **dict.fromkeys(
        ("gs", "las"),
        Need(
            "The first queue is for jobs of up to 10 s of task time, and each queue below for up to twice as much.",
            policy={"first_threshold_ms": 10_000.0, "growth": 2.0},
        ),
    ),
    "jockey": Need(
        "`late` has a deadline 4 s after its arrival; allocations are revised each second, without a dead zone.",
        jobs={"late": {"deadline": "4s"}},
        policy={"period_ms": 1000, "dead_zone_ms": 0},
    ),
    "replan": Need(
        "Executors outlive tasks and take 1 s to be taken up; each search tries 100 rules.",
        {"cluster": {**_PICTURED["cluster"], "executors": {"moving_delay": "1s"}}},
        policy={"budget_ms": None, "moving_s": 1.0},
    ),
    "delay": Need("The input of `wide` is on node `n2` alone.", jobs={"wide": {"stages": _WIDE_ON_N2}}),
}


def picture_of(policy: str) -> str:
    """The tasks of the small workload on their nodes under a policy, as SVG; a sentence where the policy cannot run."""
    need = NEEDS.get(policy, Need(""))
    jobs = [{**job, **need.jobs.get(job["name"], {})} for job in _PICTURED["workload"]["jobs"]]
    entry = {"kind": policy, "predictor": {"kind": "oracle"}, **need.policy}
    spec = {**_PICTURED, "workload": {"kind": "jobs", "jobs": jobs}, **need.spec, "policies": [entry]}
    scenario = {"apiVersion": api.API_VERSION, "kind": "Scenario", "metadata": {"name": policy}, "spec": spec}
    try:
        played = api.play(scenario)
    except (InvalidInput, SchedulerError, ValueError) as error:
        return f"No picture, since the policy does not run this workload: {_cell(str(error).splitlines()[0])}."
    return pictures.tasks_on_nodes(played.tasks, played.end_ms, f"Tasks of four jobs on two nodes under {policy}.")


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
