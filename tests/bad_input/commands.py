"""Every command with every option given values of every kind, derived from the tree of commands itself.

A new command needs a line in `GOOD`, the words with which the command works; a new option is covered by itself.
"""

from __future__ import annotations

import inspect
import math
import os
import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import typer.main

from rm_emulator.cli import app

#: Command -> parameter -> the words of a call that works at once.
GOOD: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "": {},
    "run": {"scenario": ["small.yaml"]},
    "init": {"example": ["hello"], "folder": ["new"]},
    "check": {"scenario": ["small.yaml"]},
    "schema": {},
    "policies": {},
    "predictors": {},
    "placers": {},
    "charts": {},
    "profiles": {},
    "traces": {},
    "traces describe": {"workload": ["trace.csv"]},
    "convert": {"format_": ["csv"], "source": ["trace.csv"], "output": ["new"]},
    "fidelity": {"folders": ["sls"], "seeds": ["--seeds", "1"]},
    "snapshot": {"kubeconfig": ["--kubeconfig", "config"], "kubectl": ["--kubectl", "./kubectl"]},
    "record": {
        "out": ["--out", "rec.jsonl"],
        "kubeconfig": ["--kubeconfig", "config"],
        "kubectl": ["--kubectl", "./kubectl"],
        "duration": ["--for", "0s"],
    },
    "simulate": {"source": ["--from", "run@1s"], "draws": ["--draws", "2"]},
    "explain": {"target": ["run"], "job": ["a"]},
    "replay": {"target": ["run"]},
    "compare": {"run_dirs": ["run"]},
    "train": {"config": ["training.yaml"], "jobs": ["--jobs", "1"]},
    "wishes": {"file": ["small.yaml"]},
    "case": {"files": ["cases.yaml"]},
    "bench": {"name": ["cli_help_ms"]},
}
#: Of `init`, options of `--from` need a trace beside them.
_FROM: Final = {"example": ["new"], "folder": [], "trace": ["--from", "trace.csv"]}
#: In place of a run, a live cluster.
_LIVE: Final = {"source": [], "kubeconfig": ["--kubeconfig", "config"], "kubectl": ["--kubectl", "./kubectl"]}
BESIDE: Final = {
    **{("simulate", name): _LIVE for name in ("kubeconfig", "context", "kubectl")},
    **{("init", name): _FROM for name in ("trace", "format_", "option", "skip_bad_rows", "wait", "node", "nodes")},
}
#: Kind -> what is given for a name or a path; numbers of that kind are in `NUMBERS`.
NAMES: Final = {
    "empty": ["", " "],
    "wrong type": ["[1, {"],
    "huge": ["x" * 5000],
    "negative": ["-1"],
    "nan": ["nan"],
    "unicode": ["große-名-🦉", "gro\udcffe-name"],
}
NUMBERS: Final = {
    "empty": ["", " "],
    "wrong type": ["many", "1.5", "1,5"],
    "huge": ["9" * 30, "1e999"],
    "negative": ["-1", "-0.5"],
    "nan": ["nan"],
    "unicode": ["٣", "🦉"],
}
FLAGS: Final = {**NAMES, "wrong type": ["2"]}
#: The folder in which the commands run (`test_commands.py` makes it): what stands under each name.
PATHS: Final = {
    "a scenario": "small.yaml",
    "a trace": "trace.csv",
    "a workload": "workload",
    "a run directory": "run",
    "an event log": "run/runs/fifo/1/events.jsonl",
    "a table": "run/runs/fifo/1/jobs.parquet",
    "a plug-in": "plugin.py",
    "known answers": "cases.yaml",
    "a training": "training.yaml",
    "an SLS folder": "sls",
    "a kubeconfig": "config",
    "a program": "kubectl",
    "an empty folder": "bare",
    "an empty file": "nothing",
    "bytes": "bytes",
    "no such file": "missing/missing",
    "a device": "device",
    "a circle of links": "circle",
    "a pipe": "pipe",
}
_PATH: Final = ("FILE", "DIR", "INPUT", "OUTPUT", "WORKLOAD", "EVENTS", ".yaml")
_NEW: Final = {"wrong type", "nan", "unicode", "an empty folder", "no such file"}
_FOLDERS: Final = {"a workload", "a run directory", "an SLS folder"}
#: (Command or "*", parameter) -> kinds of value with which it may do its work. All others are refused.
TAKES: Final[Mapping[tuple[str, str], set[str]]] = {
    ("*", "plugin"): {"a plug-in"},
    ("*", "scenario"): {"a scenario"},
    ("run", "out"): {*_NEW, *_FOLDERS, "negative"},
    ("train", "out"): {*_NEW, *_FOLDERS, "negative"},
    ("snapshot", "out"): {*_NEW, "negative"},
    ("init", "folder"): {*_NEW, *_FOLDERS},
    ("init", "trace"): {"a trace", "a workload", "an SLS folder"},
    ("convert", "output"): _NEW,
    ("convert", "source"): {"a trace"},
    ("traces describe", "workload"): {"a scenario", "a trace", "a workload", "an SLS folder"},
    ("fidelity", "folders"): {"an SLS folder"},
    ("snapshot", "kubeconfig"): {"a kubeconfig"},
    ("simulate", "kubeconfig"): {"a kubeconfig"},
    ("explain", "target"): {"a run directory", "an event log"},
    ("replay", "target"): {"a run directory", "an event log"},
    ("compare", "run_dirs"): {"a run directory"},
    ("train", "config"): {"a training"},
    ("wishes", "file"): {"a scenario"},
    ("case", "files"): {"known answers"},
}


class Case(NamedTuple):
    """A call with one value. value: None where the value itself is left out. takes: the value is legal."""

    command: str
    parameter: str
    shown: str
    kind: str
    value: str | None
    takes: bool
    words: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """What a message may call the parameter: its option or place among the words, or the name that was given."""
        return [self.shown, self.shown.lstrip("-"), *(form for form in self.seen if form.strip("' "))]

    @property
    def seen(self) -> list[str]:
        """The forms in which the value is shown; none for an option that takes no value."""
        if self.value is None or self.words[-1:] == (f"{self.shown}={self.value}",):
            return []
        part = self.value[:20]
        forms = (part, part.encode("utf-8", "replace").decode(), os.fsencode(part).decode("utf-8", "replace"))
        quoted = [quote(form) for form in forms for quote in (repr, ascii)]
        return [form for each in quoted for form in (each, each[1:-1]) if form.strip()]

    def __str__(self) -> str:
        """The name of the test."""
        value = "" if self.value is None else ascii(self.value[:20]).replace("/", "|")
        return f"{self.command or 'rm-emulator'} {self.shown}-{self.kind}-{value}"


def commands() -> Iterator[tuple[str, Any]]:
    """(Words, command) of every command and group."""

    def below(words: list[str], command: Any) -> Iterator[tuple[str, Any]]:
        yield " ".join(words), command
        for name, each in getattr(command, "commands", {}).items():
            yield from below([*words, name], each)

    yield from below([], typer.main.get_command(app))


def every() -> list[Case]:
    """All cases, in the order of the commands."""
    return [
        case for command, found in commands() for parameter in found.params for case in _of(command, found, parameter)
    ]


def drawn(count: int) -> list[Case]:
    """So many of all cases, the same in each run: of each command in turn, so that none is left out."""
    of: dict[str, list[Case]] = {}
    for case in every():
        of.setdefault(case.command, []).append(case)
    for command, cases in of.items():
        random.Random(command).shuffle(cases)
    found: list[Case] = []
    while len(found) < count and any(of.values()):
        found += [cases.pop() for cases in of.values() if cases]
    return found[:count]


def _of(command: str, found: Any, parameter: Any) -> Iterator[Case]:
    is_option = parameter.opts[0].startswith("-")
    shown = parameter.opts[-1] if is_option else str(parameter.metavar or parameter.name.upper())
    type_ = _type(found, parameter)
    wanted = NUMBERS if type_ in (int, float) else FLAGS if type_ is bool else NAMES
    if is_option and type_ is not bool:
        yield _case(command, found, parameter, shown, "missing", None, [shown])
    elif parameter.required:
        yield _case(command, found, parameter, shown, "missing", None, [])
    is_path = type_ is Path or (type_ is str and any(word in shown + str(parameter.metavar) for word in _PATH))
    places = PATHS if is_path else {name: PATHS[name] for name in ("a scenario", "a run directory")}
    for kind, values in {**wanted, **{kind: [path] for kind, path in places.items()}}.items():
        for value in values:
            given = [f"{shown}={value}"] if type_ is bool else [shown, value] if is_option else [value]
            yield _case(command, found, parameter, shown, kind, value, given)


def _case(command: str, found: Any, parameter: Any, shown: str, kind: str, value: str | None, given: list[str]) -> Case:
    good, words = {**GOOD.get(command, {}), **BESIDE.get((command, parameter.name), {})}, command.split()
    for each in found.params:
        words += good.get(each.name, []) if each is not parameter else given if kind != "missing" else []
    words += given if kind == "missing" else []
    return Case(
        command, parameter.name, shown, kind, value, _takes(command, found, parameter, kind, value), tuple(words)
    )


def _takes(command: str, found: Any, parameter: Any, kind: str, value: str | None) -> bool:
    type_ = _type(found, parameter)
    if value is None or type_ is bool:
        return False
    if type_ in (int, float):
        try:
            number = type_(value)
        except ValueError:
            return False
        low, high = (bound if bound is not None else number for bound in (parameter.min, parameter.max))
        return math.isfinite(number) and low <= number <= high
    return any(kind in TAKES.get((where, parameter.name), ()) for where in (command, "*"))


def _type(found: Any, parameter: Any) -> Any:
    """`bool`, `int`, `float`, `str` or `Path`: what one word of the parameter is."""
    if parameter.name not in (hints := _hints(found.callback) if found.callback else {}):
        return bool  # the parameters of typer's own: --install-completion
    type_ = hints[parameter.name]
    while get_origin(type_) is not None:
        type_ = next(each for each in get_args(type_) if each is not type(None))
    assert not isinstance(type_, UnionType)
    return type_


@cache  # thousands of cases ask about a hundred commands
def _hints(callback: Any) -> Mapping[str, Any]:
    return get_type_hints(inspect.unwrap(callback))
