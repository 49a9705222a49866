"""Where in a run directory the log of a cell is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from schedulers.core.errors import nearest


def event_log(target: Path, label: str | None = None, seed: int | None = None) -> Path:
    """The log that a command is about: `target` itself, or that of one cell of a run directory.

    label, seed: the scenario's first when None. Raises InvalidInput that names what is there.
    """
    if not target.is_dir():
        if not target.exists():
            raise InvalidInput([Issue(str(target), "no such file or run directory")])
        return target
    labels = _names(target / "runs")
    if not labels:
        raise InvalidInput([Issue(str(target), "is not a run directory: there are no runs in it")])
    label = _chosen(target, "label", label, labels, [str(p["label"]) for p in _spec(target).get("policies", [])])
    seeds = _names(target / "runs" / label)
    wanted = None if seed is None else str(seed)
    found = _chosen(target, "seed", wanted, seeds, [str(s) for s in _spec(target).get("seeds", [])])
    cell = target / "runs" / label / found
    for name in ("events.jsonl", "events.jsonl.gz"):
        if (cell / name).is_file():
            return cell / name
    raise InvalidInput([Issue(str(cell), "kept no event log (run the scenario with `log: full`)")])


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def _chosen(target: Path, what: str, wanted: str | None, there: list[str], order: list[str]) -> str:
    if wanted is None:
        return next((name for name in order if name in there), there[0])
    if wanted not in there:
        message = f"no {what} '{wanted}' (there are: {', '.join(there)})"
        raise InvalidInput([Issue(str(target), message, hint=did_you_mean(nearest(wanted, there)))])
    return wanted


def _spec(target: Path) -> dict[str, Any]:
    try:
        found = yaml.load((target / "scenario.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
        spec = found["spec"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}
