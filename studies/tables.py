"""Scenarios of the studies, kept runs of theirs, and measured figures as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

import rm_emulator
from rm_emulator import api
from rm_emulator.files import write_file


def document(name: str, seeds: Sequence[int], policies: Mapping[str, Mapping[str, Any]], **spec: Any) -> dict[str, Any]:
    """A scenario whose logs are not kept. policies: by label; spec: the other blocks."""
    return {
        "apiVersion": api.API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {
            "seeds": list(seeds),
            **spec,
            "policies": [{"label": label, **policy} for label, policy in policies.items()],
            "log": "hash",
        },
    }


def run(
    scenario: Mapping[str, Any], out: Path, jobs: int | None, engine: str | None = None, *, progress: bool = True
) -> api.Results:
    """Run a scenario into `out` (the file stands beside it), or read what is kept of it."""
    path = out.with_name(f"{scenario['metadata']['name']}.yaml")
    write_file(path, yaml.safe_dump(scenario, sort_keys=False))
    return rm_emulator.run(path, out=out, jobs=jobs, engine=engine, progress=progress)


def show(speedup: api.Speedup, digits: int = 2) -> str:
    """`1.23 [1.10, 1.36]`."""
    if speedup.value is None or speedup.ci95 is None:
        return "-"
    low, high = speedup.ci95
    return f"{speedup.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def mean(values: Sequence[float | None]) -> float | None:
    """The plain mean of those that apply, None when none does."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def over_seeds(values: Sequence[float], digits: int = 0) -> str:
    """The mean of one value per seed with its 95 % interval by Student's t; of one seed without."""
    made = api.interval(values)
    return f"{made.value:.{digits}f}" if made.value is not None and made.ci95 is None else show(made, digits)


def filled(template: str, **measured: object) -> str:
    """A page of Markdown: the template's prose with the measured tables in it. What is missing is an error."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 (Markdown, from our own figures)
    return environment.from_string(template).render(**measured)
