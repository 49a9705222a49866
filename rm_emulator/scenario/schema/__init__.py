"""What a scenario file may say: one model per block, unknown keys refused, units read by types.

The models say what is accepted in form; `rm_emulator.scenario.check` checks what refers to what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from rm_emulator.issues import did_you_mean, show_value
from rm_emulator.scenario.schema.cluster import Cluster, Queue
from rm_emulator.scenario.schema.settings import error_at, registered_errors, registry_schema
from rm_emulator.scenario.schema.values import NAME, Block, Seeds
from rm_emulator.scenario.schema.workload import Workload
from schedulers.core.placer import placers
from schedulers.core.policy import needs_estimates, policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry

API_VERSION: Final = "rm-emulator.io/v1alpha1"
LABEL: Final = r"^[A-Za-z_][A-Za-z0-9_-]*$"


class Metadata(Block):
    """What the scenario is called; the run directory is `out/NAME` unless --out says otherwise."""

    name: Annotated[str, Field(pattern=NAME, max_length=80)]
    description: str = ""


class PolicySpec(BaseModel):
    """A policy under a label, with the predictor and placer it works with; its own settings stand inline.

    label: what results call it; the predictor's name (else the policy's) unless given.
    """

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, frozen=True)

    label: Annotated[str, Field(pattern=LABEL, max_length=60)]
    kind: str
    predictor: dict[str, Any] | None = None
    placement: dict[str, Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The policy's own settings with its kind, as its registry parses them."""
        return {"kind": self.kind, **(self.model_extra or {})}

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            return data
        own = {k: v for k, v in data.items() if k not in ("label", "predictor", "placement")}
        errors = registered_errors(policies, own, ("label", "predictor", "placement"))
        for name, registry in (("predictor", predictors), ("placement", placers)):
            part = data.get(name)
            if part is not None:
                errors += [_under(name, e) for e in _part_errors(registry, part)]
        if errors:
            raise ValidationError.from_exception_data("policy", errors)
        predictor = data.get("predictor")
        if predictor is None and needs_estimates(own):
            raise ValueError(f"policy '{data['kind']}' orders jobs by estimated run time: give it a predictor")
        return {"label": predictor["kind"] if predictor else data["kind"], **data}


def _part_errors(registry: Registry[Any], part: Any) -> list[InitErrorDetails]:
    if not isinstance(part, Mapping):
        text = f"{show_value(part)} is not accepted (write {{kind: NAME}})"
        hint = did_you_mean(f"{{kind: {part}}}") if isinstance(part, str) and part in registry else ""
        return [error_at((), text, part, hint)]
    return registered_errors(registry, part)


def _under(name: str, error: InitErrorDetails) -> InitErrorDetails:
    return InitErrorDetails(type=error["type"], loc=(name, *error.get("loc", ())), input=error["input"])


class Spec(Block):
    """What to run: policies times seeds on one cluster and workload.

    log: what events.jsonl keeps (full, decisions, hash); by size when left out.
    record: first keeps one reason per waiting job and change, full every round's (for debugging).
    expect: assertions over summary.json, checked when all runs are done.
    sweep: settings with a list of values each, by their paths without `spec.`; every combination of values is run.
    baselines: runs to compare with: each queue alone, one giant node, ideal water-filling (docs/queues.md).
    """

    seeds: Seeds = [1]
    cluster: Cluster
    queues: list[Queue] = []
    workload: Workload
    policies: Annotated[list[PolicySpec], Field(min_length=1)]
    baseline: str | None = None
    expect: list[str] = []
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = None
    baselines: list[Literal["alone", "one_node", "ideal"]] = []
    log: Literal["full", "decisions", "hash"] | None = None
    record: Literal["first", "full"] = "first"


class Scenario(Block):
    """A scenario document."""

    apiVersion: Literal["rm-emulator.io/v1alpha1"]  # noqa: N815 (Kubernetes' spelling)
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: Spec


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files, for editors, with the registered names and their settings."""
    schema = Scenario.model_json_schema()
    beside = {
        "label": {"type": "string", "pattern": LABEL},
        "predictor": {"anyOf": [{"$ref": "#/$defs/Predictor"}, {"type": "null"}]},
        "placement": {"anyOf": [{"$ref": "#/$defs/Placement"}, {"type": "null"}]},
    }
    schema["$defs"] |= {
        "PolicySpec": registry_schema(policies, beside),
        "Predictor": registry_schema(predictors),
        "Placement": registry_schema(placers),
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
