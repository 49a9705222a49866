"""A registered name in full: its texts, its settings and an example in a scenario."""

from __future__ import annotations

import inspect
from typing import Any

import yaml

from schedulers.core.compatible import needs_estimates
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Entry, Registry


def entry(registry: Registry[Any], name: str) -> dict[str, Any]:
    """Everything about a registered name: `Entry.describe`, its description and an example in a scenario.

    Raises UnknownName.
    """
    found = registry.entry(name)
    description = (inspect.getdoc(found.cls) or "").partition("\n")[2].strip()
    return {**found.describe(), "description": description, "example": written([_example(registry, found)])[1:-1]}


def _example(registry: Registry[Any], found: Entry[Any]) -> dict[str, Any]:
    """An entry of `policies:`, of `charts:` for a chart, `profile:` for a profile, with some of its settings."""
    settings = [(p.name, p.default) for p in found.parameters() if p.default not in (None, {}, [])]
    used = {"kind": found.name, **dict(settings[:3])}
    if registry.kind in ("chart", "profile"):  # by name, as neither is imported for a listing of policies
        return used
    if registry is predictors:
        return {"kind": "sjf", "predictor": used}
    if registry is not policies:
        return {"kind": "fifo", "placement": used}
    needs = {"predictor": {"kind": "slearn"}} if needs_estimates({"kind": found.name}) else {}
    return {"kind": found.name, **needs, **used}


def written(value: Any) -> str:
    """A value on one line of YAML."""
    return str(
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).removesuffix("...\n").strip()
    )
