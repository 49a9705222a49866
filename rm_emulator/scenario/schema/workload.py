"""Workloads: drawn, measured, recorded or written out."""

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
from rm_emulator.workload.production import ProductionSettings
from rm_emulator.workload.tpch import TpchSettings
from schedulers.core.errors import nearest
from schedulers.core.model import Job, Stage


def _preset(name: str) -> str:
    from rm_emulator.workload.synthetic import PRESETS

    if name not in PRESETS:
        accepted = ", ".join(PRESETS)
        raise mistake(f"unknown preset '{name}' (accepted: {accepted})", did_you_mean(nearest(name, PRESETS)))
    return name


def _stages(between: list[int]) -> list[int]:
    if between[0] > between[1]:
        raise mistake(f"{between[0]} is above {between[1]} (expected the least number of stages first)")
    return between


def _knobs(value: Any) -> Any:
    from rm_emulator.workload.synthetic import Preset

    if isinstance(value, Mapping):
        refuse(setting_errors("the preset", Preset, value))
    return value


#: Stages of a job drawn from a preset; a bound, because a preset's jobs are made for each of them.
Stages = Annotated[int, Field(ge=1, le=50)]


class WorkloadBlock(Block):
    """Keys of all kinds of workloads."""

    data: Annotated[Data, OF] | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Annotated[Asks, OF] | None = None
    """Resources asked for compared with resources used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Annotated[Deadlines, OF] | None = None
    """Deadlines of jobs without a deadline of their own, e.g. `{part: 0.5, factor: [1.5, 3]}`."""


class SyntheticWorkload(WorkloadBlock):
    """Jobs drawn from a preset's distributions ([workloads](workloads.md))."""

    kind: Literal["synthetic"]
    """Drawn, e.g. `synthetic`."""
    preset: Annotated[str, AfterValidator(_preset)]
    """Name of the preset, e.g. `2sigma-like`."""
    jobs: Count = 1250
    """How many jobs, e.g. `200`."""
    load: Load | None = None
    """Total work over slots times arrival span, met exactly; the preset's own when left out, e.g. `0.9`."""
    slots: Count | None = None
    """Slots that the load is measured against and that stages' widths grow with; the cluster's cores when left out,
    e.g. `150`.
    """
    history: bool = True
    """With past jobs for predictors to learn from, e.g. `false`."""
    knobs: Annotated[dict[str, Any], BeforeValidator(_knobs)] = {}
    """Changes to the preset's own settings, e.g. `{wide_cov: 0.5}`."""
    stages: Annotated[list[Stages], Field(min_length=2, max_length=2), AfterValidator(_stages)] | None = None
    """Least and largest number of stages: jobs are chains of so many runs of a name; a single stage each when left out,
    e.g. `[2, 5]`.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from rm_emulator.workload.synthetic import PRESETS, Preset

        block = super().__get_pydantic_json_schema__(schema, handler)
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
    """Slots that `load` is measured against; the cluster's cores when left out, e.g. `50`."""
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
    """TPC-H jobs whose stages hand data on, as in LACHESIS ([workloads](workloads.md#lachesiss-workload))."""

    of: ClassVar = LachesisSettings

    kind: Literal["lachesis"]
    """Measured, with data drawn, e.g. `lachesis`."""
    interarrival: Interval | None = None
    """Mean time between jobs, where they do not all arrive at time 0, e.g. `45s`."""


class MixedWorkload(WorkloadBlock, Settings):
    """Services and batch jobs, as in the example cell of Omega's simulator ([workloads](workloads.md#a-mix))."""

    of: ClassVar = MixedSettings

    kind: Literal["mixed"]
    """Drawn, two streams, e.g. `mixed`."""


class ProductionWorkload(WorkloadBlock, Settings):
    """Large DAGs of unlike tasks, as in Graphene's production cluster ([workloads](workloads.md#production-dags))."""

    of: ClassVar = ProductionSettings

    kind: Literal["production_dags"]
    """Drawn, e.g. `production_dags`."""


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
    """A name from `rm-emulator traces`, or internal (written by `convert`), e.g. `csv`."""
    options: dict[str, Any] = {}
    """Settings of the format, e.g. `{time_unit: ms}`."""
    extract: Extract | None = None
    """Take a part of the trace as in the paper; the whole trace when left out, e.g. `{jobs: 500}`."""
    load: Load | None = None
    """Total work over slots times arrival span, reached by stretching or squeezing the arrivals; the trace's own load
    when left out, e.g. `0.9`.
    """
    slots: Count | None = None
    """Slots that the load is measured against; the cluster's cores when left out, e.g. `150`."""


class ParentEdge(Block):
    """A parent stage, what must end there first, and the data handed over."""

    stage: Annotated[str, Field(min_length=1)]
    """Its name, e.g. `map`."""
    kind: Literal["barrier", "one_to_one"] = "barrier"
    """The whole stage must end first, or for each task the parent's task of its number, e.g. `one_to_one`."""
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Slow start: tasks get containers once this share of the parent's tasks has ended and all others have begun, and
    run once the parent has ended, e.g. `0.05`.
    """
    data: Bytes = 0
    """Bytes handed over in all, an equal part from each task of the parent to each task of the child, e.g. `120MiB`."""


def _parent(value: Any) -> Any:
    return ParentEdge.model_validate(dict(value)) if isinstance(value, Mapping) else value


Parent = Annotated[
    str | ParentEdge,
    BeforeValidator(_parent),
    WithJsonSchema(
        {"$comment": "name, or name with edge", "anyOf": [{"type": "string"}, ParentEdge.model_json_schema()]}
    ),
]


class InlineRunning(Block):
    """A task that runs when the scenario begins."""

    node: Annotated[str, Field(min_length=1)]
    """The node of the task, e.g. `n1`."""
    elapsed: Duration = 0
    """How long already, of its run time, e.g. `40s`."""


_StageKeys: Any = block(Stage, "master")


class InlineStage(_StageKeys):  # type: ignore[misc]
    """N equal tasks."""

    tasks: Count = 1
    """How many tasks, e.g. `20`."""
    demand: Quantities
    """Resources asked for and used by each task, e.g. `{cpu: 1, memory: 2Gi}`."""
    parents: list[Parent] = []
    """The stages that must end first, by name, or with the kind of the edge or the data handed over, e.g. `[{stage:
    map, data: 120MiB}]`.
    """
    duration: Times | None = None
    """True run time of its tasks at speed 1; left out for a service, which runs as long as the run, e.g. `{kind:
    lognormal, mean: 30s, cov: 0.3}`.
    """
    hosts: list[str] | list[list[str]] = []
    """Nodes with the input of all tasks, or a list of nodes per task, e.g. `[n1, n2]`."""
    running: list[InlineRunning] = []
    """The stage's first tasks where they run already, of a job that arrives at 0, e.g. `[{node: n1, elapsed: 40s}]`."""


_JobKeys: Any = block(Job, "id", "stages")


class InlineJob(_JobKeys):  # type: ignore[misc]
    """A job written out."""

    name: Annotated[str, Field(min_length=1)]
    """Its recurring name, by which predictors find its history, e.g. `etl`."""
    id: Annotated[str, Field(min_length=1)] | None = None
    """Name of this run of the job; the recurring name, numbered if taken, when left out, e.g. `etl-monday`."""
    submit: Duration = 0
    """Time of arrival, e.g. `5m`."""
    deadline: Interval | None = None
    """Time from arrival to deadline, for policies that go by deadlines, e.g. `10m`."""
    apart: Annotated[float, Field(ge=1, le=1e3)] = 1.0
    """Factor on the true run times of a gang whose tasks are not all in a single rack, e.g. `1.5`."""
    stages: Annotated[list[InlineStage], Field(min_length=1)]
    """Its stages, e.g. `[{name: map, tasks: 20, demand: {cpu: 1}, duration: 30s}]`."""


class PastStage(Block):
    """A stage of a finished job."""

    tasks: Count
    """Number of tasks, e.g. `20`."""
    duration: Interval
    """Their mean run time, e.g. `28s`."""


class InlinePastJob(Block):
    """A job finished before the scenario begins, for predictors that learn from history."""

    name: Annotated[str, Field(min_length=1)]
    """Its recurring name, e.g. `etl`."""
    user: str = ""
    """User of the job, e.g. `alice`."""
    app: str = ""
    """Program of the job, e.g. `spark-etl`."""
    ago: Interval
    """Time from the job's end to the scenario's beginning, e.g. `1d`."""
    took: Interval | None = None
    """Time from submission to end; the sum over its stages when left out, e.g. `10m`."""
    stages: Annotated[list[PastStage], Field(min_length=1)]
    """Its stages, in order, e.g. `[{tasks: 20, duration: 28s}]`."""


class JobsWorkload(WorkloadBlock):
    """Jobs written out in the scenario, and finished jobs of the past."""

    kind: Literal["jobs"]
    """Written out, e.g. `jobs`."""
    jobs: list[InlineJob]
    """The jobs, e.g. `[{name: etl, stages: [{name: map, demand: {cpu: 1}, duration: 30s}]}]`."""
    history: list[InlinePastJob] = []
    """Finished jobs of the past, e.g. `[{name: etl, ago: 1d, stages: [{tasks: 20, duration: 28s}]}]`."""


AnyWorkload = Annotated[
    SyntheticWorkload
    | TpchWorkload
    | DagsWorkload
    | LachesisWorkload
    | MixedWorkload
    | ProductionWorkload
    | TraceWorkload
    | JobsWorkload,
    Field(discriminator="kind"),
]
