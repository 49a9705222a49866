"""A scenario as plain data with nothing left open, as cells run it and run directories keep it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rm_emulator.scenario.cluster import nodes, resources_of
from rm_emulator.scenario.faults import tabled
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema import PolicySpec, Scenario
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry


def resolved(loaded: Loaded) -> dict[str, Any]:
    """The scenario as plain data with nothing left open: settings of every policy, absolute paths, tables of faults.

    Raises TraceError for an unreadable table.
    """
    scenario = loaded.scenario
    data: dict[str, Any] = scenario.model_dump(mode="json", exclude_none=True)
    spec = data["spec"]
    spec["policies"] = [_resolved_policy(policy) for policy in scenario.spec.policies]
    spec["baseline"] = scenario.spec.baseline or scenario.spec.policies[0].label
    spec["plugins"] = list(loaded.plugins)
    for key in ("path", "profiles"):
        if key in spec["workload"]:
            spec["workload"][key] = str((loaded.folder / spec["workload"][key]).resolve())
        if values := spec.get("sweep", {}).get(f"workload.{key}"):
            spec["sweep"][f"workload.{key}"] = [str((loaded.folder / value).resolve()) for value in values]
    if (faults := scenario.spec.cluster.faults) is not None and faults.trace is not None:
        written = spec["cluster"]["faults"]
        # The table's own lines: no worker needs the file, and another content makes other cells.
        written["schedule"] = [*written.get("schedule", ()), *tabled(Path(faults.trace), _nodes(scenario))]
        del written["trace"]
    return data


def _nodes(scenario: Scenario) -> list[str]:
    return [node.id for node in nodes(scenario.spec.cluster.nodes, resources_of(scenario))]


def at_point(loaded: Loaded) -> dict[str, Any]:
    """`resolved`, as a scenario of its own without a sweep."""
    data = resolved(loaded)
    data["spec"].pop("sweep", None)
    return data


def _resolved_policy(policy: PolicySpec) -> dict[str, Any]:
    settings = {"label": policy.label, **_settings(policies, policy.settings)}
    settings["placement"] = _settings(placers, policy.placement or {"kind": "first_fit"})
    if policy.predictor is not None:
        settings["predictor"] = _settings(predictors, policy.predictor)
    return settings


def _settings(registry: Registry[Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    _, params = registry.parse(spec)
    return {"kind": spec["kind"], **msgspec.to_builtins(params)}
