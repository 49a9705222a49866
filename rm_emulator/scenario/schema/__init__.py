"""The schema of a scenario file: a model per block, unknown keys refused, units read by types.

The models check the form; `rm_emulator.scenario.check` checks references between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from rm_emulator.scenario.schema.cluster import Cluster, InlineQueue
from rm_emulator.scenario.schema.policy import PolicyEntry
from rm_emulator.scenario.schema.report import Report
from rm_emulator.scenario.schema.settings import registry_schema
from rm_emulator.scenario.schema.structs import OF
from rm_emulator.scenario.schema.values import Block, Interval, Seeds
from rm_emulator.scenario.schema.workload import AnyWorkload
from schedulers.core.fields import NAME
from schedulers.core.model import CopyRules
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors

API_VERSION: Final = "rm-emulator.io/v1alpha1"
LABEL: Final = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"


class Metadata(Block):
    """The scenario's name and description."""

    name: Annotated[str, Field(pattern=NAME, max_length=80)]
    """Its name; the run directory is `out/NAME` unless --out says otherwise, e.g. `my-cluster`."""
    description: str = ""
    """For people, e.g. `What would DRF do to our jobs?`."""


class PolicySpec(PolicyEntry):
    """A policy under a label, with its predictor and placer; its own settings stand inline."""

    label: Annotated[str, Field(pattern=LABEL, max_length=60)]
    """Name in the results; when left out the policy's kind, of `gs` its predictor's, and `POLICY-PREDICTOR` where two
    policies of the scenario would have one name, e.g. `mine`.
    """


def _labelled(policies: Sequence[Any]) -> Iterator[Any]:
    """The policies, each with a label; an entry that is not a mapping stays unchanged, and the schema refuses it."""
    usual = [_usual(policy) for policy in policies]
    for at, (policy, label) in enumerate(zip(policies, usual, strict=True)):
        if label is None or "label" in policy:
            yield policy
            continue
        others = [*usual[:at], *usual[at + 1 :]]
        clashes, predictor = label in others, _predictor(policy)
        yield {"label": f"{policy['kind']}-{predictor}" if clashes and predictor else label, **policy}


def _usual(policy: Any) -> str | None:
    """The label as written, else the policy's kind; gs is named by its predictor, on which its whole order depends."""
    if not isinstance(policy, Mapping) or "kind" not in policy:
        return None
    kind = policy["kind"]
    return str(policy.get("label") or ((_predictor(policy) if kind == "gs" else None) or kind))


def _predictor(policy: Mapping[str, Any]) -> str | None:
    predictor = policy.get("predictor")
    kind = predictor.get("kind") if isinstance(predictor, Mapping) else None
    return kind if isinstance(kind, str) else None


class Spec(Block):
    """Policies times seeds on a cluster and a workload."""

    plugins: list[Annotated[str, Field(min_length=1)]] = []
    """Python files that register policies and the like ([extending](extending.md)), and weights of networks; paths are
    relative to the scenario; read before the scenario is checked, e.g. `[my_policy.py]`.
    """
    seeds: Seeds = [1]
    """Each policy runs once with each seed, e.g. `1..5`."""
    cluster: Cluster
    """The nodes and how the resource manager hears of them, e.g. `{nodes: [{count: 4, capacity: {cpu: 8, memory:
    32Gi}}]}`.
    """
    queues: list[InlineQueue] = []
    """The tree of queues ([queues](queues.md)), e.g. `[{name: prod, weight: 3}, {name: dev}]`."""
    workload: AnyWorkload
    """The jobs: drawn, measured, recorded or written out, e.g. `{kind: synthetic, preset: 2sigma-like, jobs: 200}`."""
    policies: Annotated[
        list[PolicySpec],
        BeforeValidator(lambda value: list(_labelled(value)) if isinstance(value, list) else value),
        Field(min_length=1),
    ]
    """The policies to compare, e.g. `[{kind: fifo}, {kind: fair}]`."""
    until: Interval | None = None
    """Time at which the run ends, even with jobs left; the end of the last batch job when left out, e.g. `1d`."""
    copies: Annotated[CopyRules, OF] | None = None
    """Copies of tasks; none when left out, e.g. `{max: 2}`."""
    baseline: str | None = None
    """Label to compare all others with; the first label when left out, e.g. `fifo`."""
    headline: str | None = None
    """Figure for which the scenario is meant, shown first in results; mean JCT when left out, e.g. `makespan_s`."""
    expect: list[str] = []
    """Assertions over summary.json, checked when all runs are done, e.g. `["fifo.jct_s.mean < 600"]`."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = None
    """Settings with several values each, by their paths; every combination of values is run ([sweeps](sweeps.md)), e.g.
    `{"workload.load": [0.7, 0.9]}`.
    """
    baselines: list[Literal["alone", "one_node", "ideal"]] = []
    """Runs to compare with: each queue alone, a single giant node, ideal water-filling ([queues](queues.md)), e.g.
    `[alone, ideal]`.
    """
    report: Report | None = None
    """Settings of the report; as ever when left out, e.g. `{charts: [{kind: shares, queues: 20}]}`."""
    log: Literal["full", "decisions", "hash"] | None = None
    """Content of the event log; when left out, full for runs below a million tasks, else hash, e.g. `full`."""
    record: Literal["first", "full"] = "first"
    """first keeps the first reason per waiting job and change, full the reasons of every round (for debugging), e.g.
    `full`.
    """


class Scenario(Block):
    """A scenario document."""

    apiVersion: Literal["rm-emulator.io/v1alpha1"]  # noqa: N815 (Kubernetes' spelling)
    """The version of the format, e.g. `rm-emulator.io/v1alpha1`."""
    kind: Literal["Scenario"]
    """The kind of document, e.g. `Scenario`."""
    metadata: Metadata
    """Name and description, e.g. `{name: my-cluster}`."""
    spec: Spec
    """Cluster, workload, policies and everything else about the runs."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files, for editors, with the registered names and their settings."""
    from rm_emulator.results.chart import charts

    schema = Scenario.model_json_schema()
    label = {"label": {"type": "string", "pattern": LABEL}}
    beside = {
        "predictor": {"anyOf": [{"$ref": "#/$defs/Predictor"}, {"type": "null"}]},
        "placement": {"anyOf": [{"$ref": "#/$defs/Placement"}, {"type": "null"}]},
    }
    schema["$defs"] |= {
        "PolicySpec": registry_schema(policies, beside | label),
        "PolicyEntry": registry_schema(policies, beside),
        "Predictor": registry_schema(predictors),
        "Placement": registry_schema(placers),
        "ChartEntry": registry_schema(charts),
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
