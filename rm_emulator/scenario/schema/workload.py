"""What runs: drawn, measured, recorded or written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from rm_emulator.issues import did_you_mean
from rm_emulator.scenario.schema.settings import Settings, setting_errors, struct_properties
from rm_emulator.scenario.schema.structs import OF, block
from rm_emulator.scenario.schema.values import (
    Block,
    Bytes,
    Count,
    Duration,
    Interval,
    Load,
    Quantities,
    Times,
    mistake,
    refuse,
)
from rm_emulator.workload.asks import Asks
from rm_emulator.workload.dags import DagsSettings
from rm_emulator.workload.data import Data
from rm_emulator.workload.deadlines import Deadlines
from rm_emulator.workload.lachesis import LachesisSettings
from rm_emulator.workload.mixed import MixedSettings
from rm_emulator.workload.tpch import TpchSettings
from schedulers.core.errors import nearest
from schedulers.core.model import Job, Stage


def _preset(name: str) -> str:
    from rm_emulator.workload.synthetic import PRESETS

    if name not in PRESETS:
        accepted = ", ".join(PRESETS)
        raise mistake(f"unknown preset '{name}' (accepted: {accepted})", did_you_mean(nearest(name, PRESETS)))
    return name


def _knobs(value: Any) -> Any:
    from rm_emulator.workload.synthetic import Preset

    if isinstance(value, Mapping):
        refuse(setting_errors("the preset", Preset, value))
    return value


class WorkloadBlock(Block):
    """What all kinds of workloads have."""

    data: Annotated[Data, OF] | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Annotated[Asks, OF] | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Annotated[Deadlines, OF] | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""


class SyntheticWorkload(WorkloadBlock):
    """Jobs drawn from a preset's distributions ([workloads](workloads.md))."""

    kind: Literal["synthetic"]
    """Drawn, e.g. `synthetic`."""
    preset: Annotated[str, AfterValidator(_preset)]
    """Whose distributions, e.g. `2sigma-like`."""
    jobs: Count = 1250
    """How many jobs, e.g. `200`."""
    load: Load | None = None
    """Total work over slots times arrival span, met exactly; the preset's own when left out, e.g. `0.9`."""
    slots: Count | None = None
    """What the load is measured against and widths grow with; the cluster's cores when left out, e.g. `150`."""
    history: bool = True
    """With past jobs for predictors to learn from, e.g. `false`."""
    knobs: Annotated[dict[str, Any], BeforeValidator(_knobs)] = {}
    """Changes to the preset's own settings, e.g. `{wide_cov: 0.5}`."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from rm_emulator.workload.synthetic import PRESETS, Preset

        block = handler.resolve_ref_schema(handler(schema))
        knobs = {
            name: {k: v for k, v in field.items() if k != "default"}
            for name, field in struct_properties(Preset).items()
        }
        block["properties"]["preset"] = {"enum": list(PRESETS)}
        block["properties"]["knobs"] = {"type": "object", "properties": knobs, "additionalProperties": False}
        return block


class TpchWorkload(WorkloadBlock, Settings):
    """Recurring TPC-H jobs with measured Spark task durations ([workloads](workloads.md))."""

    of: ClassVar = TpchSettings

    kind: Literal["tpch"]
    """Measured, e.g. `tpch`."""
    interarrival: Interval | None = None
    """Mean time between jobs, e.g. `25s`."""
    slots: Count | None = None
    """What `load` is measured against; the cluster's cores when left out, e.g. `50`."""
    profiles: str | None = None
    """Path of the full measurements instead of the built-in summary, e.g. `profiles.json.gz`."""


class DagsWorkload(WorkloadBlock, Settings):
    """Random DAGs of the HEFT literature, with data on their edges ([workloads](workloads.md#random-dags))."""

    of: ClassVar = DagsSettings

    kind: Literal["dags"]
    """Drawn, e.g. `dags`."""
    interarrival: Interval | None = None
    """Mean time between jobs, where they do not all arrive at time 0, e.g. `45s`."""


class LachesisWorkload(WorkloadBlock, Settings):
    """TPC-H jobs whose stages hand data on, as LACHESIS has them ([workloads](workloads.md#lachesiss-workload))."""

    of: ClassVar = LachesisSettings

    kind: Literal["lachesis"]
    """Measured, with data drawn, e.g. `lachesis`."""
    interarrival: Interval | None = None
    """Mean time between jobs, where they do not all arrive at time 0, e.g. `45s`."""


class MixedWorkload(WorkloadBlock, Settings):
    """Services beside batch jobs, as in the example cell of Omega's simulator ([workloads](workloads.md#a-mix))."""

    of: ClassVar = MixedSettings

    kind: Literal["mixed"]
    """Drawn, two streams, e.g. `mixed`."""


class Extract(Block):
    """The paper's extraction: the first half of a trace is history, jobs drawn from the second half run."""

    jobs: Count = 1250
    """How many jobs, e.g. `500`."""
    trace_slots: Count | None = None
    """Slots of the trace's own cluster; task counts shrink by its ratio to `slots`, e.g. `4000`."""
    drop_wider_than: Count | None = None
    """Leave out jobs with a wider stage, and shrink none, e.g. `150`."""


class TraceWorkload(WorkloadBlock):
    """Jobs of a trace ([traces](traces.md))."""

    kind: Literal["trace"]
    """Recorded, e.g. `trace`."""
    path: Annotated[str, Field(min_length=1)]
    """File or folder, relative to the scenario, e.g. `my-trace.csv`."""
    format: str = "internal"
    """A name that `rm-emulator traces` lists, or internal (what `convert` writes), e.g. `csv`."""
    options: dict[str, Any] = {}
    """Settings of the format, e.g. `{time_unit: ms}`."""
    extract: Extract | None = None
    """Take a part of it as the paper does; all of it when left out, e.g. `{jobs: 500}`."""
    load: Load | None = None
    """Stretch or squeeze the arrivals so that total work over slots times arrival span is this; an extract without it
    keeps the trace's, e.g. `0.9`.
    """
    slots: Count | None = None
    """What the load is measured against; the cluster's cores when left out, e.g. `150`."""


class ParentEdge(Block):
    """A stage that must be done before, and what it hands over."""

    stage: Annotated[str, Field(min_length=1)]
    """Its name, e.g. `map`."""
    data: Bytes = 0
    """What it hands over in all: each of its tasks an equal part to each task of this stage, e.g. `120MiB`."""


def _parent(value: Any) -> Any:
    return ParentEdge.model_validate(dict(value)) if isinstance(value, Mapping) else value


Parent = Annotated[
    str | ParentEdge,
    BeforeValidator(_parent),
    WithJsonSchema(
        {"$comment": "name, or name with data", "anyOf": [{"type": "string"}, ParentEdge.model_json_schema()]}
    ),
]


_StageKeys: Any = block(Stage, "master")


class InlineStage(_StageKeys):  # type: ignore[misc]
    """N equal tasks."""

    tasks: Count = 1
    """How many tasks, e.g. `20`."""
    demand: Quantities
    """What one task asks for and uses, e.g. `{cpu: 1, memory: 2Gi}`."""
    parents: list[Parent] = []
    """The stages that must be done before, by name or with the data that they hand over, e.g. `[{stage: map, data:
    120MiB}]`.
    """
    duration: Times | None = None
    """True run time of its tasks at speed 1; left out for a service, which runs as long as the run, e.g. `{kind:
    lognormal, mean: 30s, cov: 0.3}`.
    """
    hosts: list[str] | list[list[str]] = []
    """Nodes that hold the input of all tasks, or one list of them per task, e.g. `[n1, n2]`."""


_JobKeys: Any = block(Job, "id", "stages")


class InlineJob(_JobKeys):  # type: ignore[misc]
    """A job written out."""

    name: Annotated[str, Field(min_length=1)]
    """Its recurring name, by which predictors find its history, e.g. `etl`."""
    id: Annotated[str, Field(min_length=1)] | None = None
    """What this run of it is called; the name, numbered where that is taken, when left out, e.g. `etl-monday`."""
    submit: Duration = 0
    """When it arrives, e.g. `5m`."""
    deadline: Interval | None = None
    """How long after its arrival it should be done, for policies that go by deadlines, e.g. `10m`."""
    apart: Annotated[float, Field(ge=1, le=1e3)] = 1.0
    """How many times as long a gang of it truly takes whose tasks are not all in one rack, e.g. `1.5`."""
    stages: Annotated[list[InlineStage], Field(min_length=1)]
    """Its stages, e.g. `[{name: map, tasks: 20, demand: {cpu: 1}, duration: 30s}]`."""


class PastStage(Block):
    """A stage of a job that finished before."""

    tasks: Count
    """How many tasks it had, e.g. `20`."""
    duration: Interval
    """Their mean run time, e.g. `28s`."""


class InlinePastJob(Block):
    """A job that finished before the scenario begins, for predictors that learn from history."""

    name: Annotated[str, Field(min_length=1)]
    """Its recurring name, e.g. `etl`."""
    user: str = ""
    """Whose it was, e.g. `alice`."""
    app: str = ""
    """The program that it ran, e.g. `spark-etl`."""
    ago: Interval
    """How long before the scenario it finished, e.g. `1d`."""
    took: Interval | None = None
    """From submission to its end; its stages one after the other when left out, e.g. `10m`."""
    stages: Annotated[list[PastStage], Field(min_length=1)]
    """Its stages, in order, e.g. `[{tasks: 20, duration: 28s}]`."""


class JobsWorkload(WorkloadBlock):
    """Jobs written out in the scenario, and what history remembers."""

    kind: Literal["jobs"]
    """Written out, e.g. `jobs`."""
    jobs: list[InlineJob]
    """The jobs, e.g. `[{name: etl, stages: [{name: map, demand: {cpu: 1}, duration: 30s}]}]`."""
    history: list[InlinePastJob] = []
    """Jobs that finished before, e.g. `[{name: etl, ago: 1d, stages: [{tasks: 20, duration: 28s}]}]`."""


AnyWorkload = Annotated[
    SyntheticWorkload | TpchWorkload | DagsWorkload | LachesisWorkload | MixedWorkload | TraceWorkload | JobsWorkload,
    Field(discriminator="kind"),
]
