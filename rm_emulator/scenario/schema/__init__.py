"""What a scenario file may say: one model per block, unknown keys refused, units read by types.

The models say what is accepted in form; `rm_emulator.scenario.check` checks what refers to what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from rm_emulator.results.chart import charts
from rm_emulator.scenario.schema.cluster import Cluster, InlineQueue
from rm_emulator.scenario.schema.policy import PolicyEntry
from rm_emulator.scenario.schema.report import Report
from rm_emulator.scenario.schema.settings import registry_schema
from rm_emulator.scenario.schema.structs import OF
from rm_emulator.scenario.schema.values import Block, Interval, Seeds
from rm_emulator.scenario.schema.workload import AnyWorkload
from schedulers.core.fields import NAME
from schedulers.core.model import Copies
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors

API_VERSION: Final = "rm-emulator.io/v1alpha1"
LABEL: Final = r"^[A-Za-z_][A-Za-z0-9_-]*$"


class Metadata(Block):
    """What the scenario is called."""

    name: Annotated[str, Field(pattern=NAME, max_length=80)]
    """Its name; the run directory is `out/NAME` unless --out says otherwise, e.g. `my-cluster`."""
    description: str = ""
    """For people, e.g. `What would DRF do to our jobs?`."""


class PolicySpec(PolicyEntry):
    """A policy under a label, with the predictor and placer it works with; its own settings stand inline."""

    label: Annotated[str, Field(pattern=LABEL, max_length=60)]
    """What results call it; the predictor's name, else the policy's, when left out, e.g. `mine`."""

    @model_validator(mode="before")
    @classmethod
    def _labelled(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "label" in data or "kind" not in data:
            return data
        predictor = data.get("predictor")
        named = predictor.get("kind") if isinstance(predictor, Mapping) else None
        return {"label": named or data["kind"], **data}


class Spec(Block):
    """What to run: policies times seeds on one cluster and workload."""

    plugins: list[Annotated[str, Field(min_length=1)]] = []
    """Python files, relative to the scenario, that register what it names ([extending](extending.md)), and weights of
    networks; read before it is checked, e.g. `[my_policy.py]`.
    """
    seeds: Seeds = [1]
    """Each policy runs once with each of them, e.g. `1..5`."""
    cluster: Cluster
    """The nodes and how the resource manager hears of them, e.g. `{nodes: [{count: 4, capacity: {cpu: 8, memory:
    32Gi}}]}`.
    """
    queues: list[InlineQueue] = []
    """The tree of queues ([queues](queues.md)), e.g. `[{name: prod, weight: 3}, {name: dev}]`."""
    workload: AnyWorkload
    """What runs: drawn, measured, recorded or written out, e.g. `{kind: synthetic, preset: 2sigma-like, jobs: 200}`."""
    policies: Annotated[list[PolicySpec], Field(min_length=1)]
    """What is compared, e.g. `[{kind: fifo}, {kind: fair}]`."""
    until: Interval | None = None
    """The run ends then, whatever still runs; with the last job that is no service when left out, e.g. `1d`."""
    copies: Annotated[Copies, OF] | None = None
    """Copies of tasks; none when left out, e.g. `{max: 2}`."""
    baseline: str | None = None
    """Label that the others are compared with; the first when left out, e.g. `fifo`."""
    expect: list[str] = []
    """Assertions over summary.json, checked when all runs are done, e.g. `["fifo.jct_s.mean < 600"]`."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = None
    """Settings with several values each, by their paths; every combination of values is run ([sweeps](sweeps.md)), e.g.
    `{"workload.load": [0.7, 0.9]}`.
    """
    baselines: list[Literal["alone", "one_node", "ideal"]] = []
    """Runs to compare with: each queue alone, one giant node, ideal water-filling ([queues](queues.md)), e.g. `[alone,
    ideal]`.
    """
    report: Report | None = None
    """Settings of the report; as ever when left out, e.g. `{charts: [{kind: shares, queues: 20}]}`."""
    log: Literal["full", "decisions", "hash"] | None = None
    """What the event log keeps; by size when left out: full below a million tasks, else hash, e.g. `full`."""
    record: Literal["first", "full"] = "first"
    """first keeps one reason per waiting job and change, full every round's (for debugging), e.g. `full`."""


class Scenario(Block):
    """A scenario document."""

    apiVersion: Literal["rm-emulator.io/v1alpha1"]  # noqa: N815 (Kubernetes' spelling)
    """The version of this format, e.g. `rm-emulator.io/v1alpha1`."""
    kind: Literal["Scenario"]
    """What the document is, e.g. `Scenario`."""
    metadata: Metadata
    """What the scenario is called, e.g. `{name: my-cluster}`."""
    spec: Spec
    """What to run."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files, for editors, with the registered names and their settings."""
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
