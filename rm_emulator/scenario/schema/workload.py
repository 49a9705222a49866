"""What runs: drawn, measured, recorded or written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, ValidationError, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from rm_emulator.issues import did_you_mean
from rm_emulator.scenario.schema.settings import Settings, setting_errors, struct_properties
from rm_emulator.scenario.schema.values import (
    Block,
    Bytes,
    Count,
    Duration,
    Interval,
    Load,
    Positive,
    Quantities,
    Times,
)
from rm_emulator.workload.dags import DagsSettings
from rm_emulator.workload.lachesis import LachesisSettings
from rm_emulator.workload.mixed import MixedSettings
from rm_emulator.workload.tpch import TpchSettings
from schedulers.core.errors import nearest


def _preset(name: str) -> str:
    from rm_emulator.workload.synthetic import PRESETS

    if name not in PRESETS:
        text = f"unknown preset '{name}' (accepted: {', '.join(PRESETS)})"
        raise PydanticCustomError("value", "{text}", {"text": text, "hint": did_you_mean(nearest(name, PRESETS))})
    return name


def _knobs(value: Any) -> Any:
    from rm_emulator.workload.synthetic import Spec

    errors = list(setting_errors("the preset", Spec, value)) if isinstance(value, Mapping) else []
    if errors:
        raise ValidationError.from_exception_data("knobs", errors)
    return value


Factor = Annotated[float, Field(ge=1)]


class Remote(Block):
    """Factors on a task's run time by where its input is: on its node, only in its rack, or in neither."""

    node: Factor = 1.0
    """On a node with it, e.g. `1.0`."""
    rack: Factor = 1.0
    """In a rack with it, e.g. `1.2`."""
    off: Factor = 1.0
    """Elsewhere, e.g. `1.5`."""


class Data(Block):
    """Input of the tasks of stages without parents, and what a task pays that runs away from it."""

    replicas: Count | None = None
    """Each task's input is on so many random nodes, spread over racks as HDFS does; a stage that has hosts keeps them,
    e.g. `3`.
    """
    remote: Remote = Remote()
    """What distance costs; only true run times know of it, e.g. `{rack: 1.2, off: 1.5}`."""


def _error_range(value: list[float]) -> list[float]:
    if len(value) != 2 or not -1 < value[0] <= value[1]:
        text = f"{value} is not accepted (expected two numbers, ascending, above -1)"
        raise PydanticCustomError("value", "{text}", {"text": text})
    return value


class Asks(Block):
    """Jobs that ask for something else than their tasks use, which is what the workload says."""

    error: Annotated[list[float], AfterValidator(_error_range)] = [0.0, 0.0]
    """Relative error of what a stage asks for, [lowest, highest]; one draw per stage, by which `oracle` with the same
    `error` misjudges its run time as well, e.g. `[-0.2, 0.5]`.
    """
    without: list[str] = []
    """Resources that are used, but that nobody asks for, e.g. `[network]`."""


def _factor_range(value: list[float]) -> list[float]:
    if len(value) != 2 or not 0 < value[0] <= value[1] <= _LARGEST_FACTOR:
        text = f"{value} is not accepted (expected two numbers, ascending, above 0 and up to {_LARGEST_FACTOR:g})"
        raise PydanticCustomError("value", "{text}", {"text": text})
    return value


_LARGEST_FACTOR: Final = 1e6


class Deadlines(Block):
    """Deadlines of jobs that bring none, for policies that go by them."""

    part: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Of the jobs so many get one, drawn by job, e.g. `0.5`."""
    factor: Annotated[list[float], AfterValidator(_factor_range)] = [1.5, 3.0]
    """So many times as long as the job takes at most alone on the cluster, [lowest, highest], drawn by job, e.g. `[1.5,
    3]`.
    """


class SyntheticWorkload(Block):
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
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from rm_emulator.workload.synthetic import PRESETS, Spec

        block = handler.resolve_ref_schema(handler(schema))
        knobs = {
            name: {k: v for k, v in field.items() if k != "default"} for name, field in struct_properties(Spec).items()
        }
        block["properties"]["preset"] = {"enum": list(PRESETS)}
        block["properties"]["knobs"] = {"type": "object", "properties": knobs, "additionalProperties": False}
        return block


class TpchWorkload(Settings):
    """Recurring TPC-H jobs with measured Spark task durations ([workloads](workloads.md))."""

    kind: Literal["tpch"]
    """Measured, e.g. `tpch`."""
    interarrival: Interval | None = None
    """Mean time between jobs, e.g. `25s`."""
    slots: Count | None = None
    """What `load` is measured against; the cluster's cores when left out, e.g. `50`."""
    profiles: str | None = None
    """Path of the full measurements instead of the built-in summary, e.g. `profiles.json.gz`."""
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """See Settings."""
        return TpchSettings


class DagsWorkload(Settings):
    """Random DAGs of the HEFT literature, with data on their edges ([workloads](workloads.md#random-dags))."""

    kind: Literal["dags"]
    """Drawn, e.g. `dags`."""
    interarrival: Interval | None = None
    """Mean time between jobs, where they do not all arrive at time 0, e.g. `45s`."""
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """See Settings."""
        return DagsSettings


class LachesisWorkload(Settings):
    """TPC-H jobs whose stages hand data on, as LACHESIS has them ([workloads](workloads.md#lachesiss-workload))."""

    kind: Literal["lachesis"]
    """Measured, with data drawn, e.g. `lachesis`."""
    interarrival: Interval | None = None
    """Mean time between jobs, where they do not all arrive at time 0, e.g. `45s`."""
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """See Settings."""
        return LachesisSettings


class MixedWorkload(Settings):
    """Services beside batch jobs, as in the example cell of Omega's simulator ([workloads](workloads.md#a-mix))."""

    kind: Literal["mixed"]
    """Drawn, two streams, e.g. `mixed`."""
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """See Settings."""
        return MixedSettings


class Extract(Block):
    """The paper's extraction: the first half of a trace is history, jobs drawn from the second half run."""

    jobs: Count = 1250
    """How many jobs, e.g. `500`."""
    trace_slots: Count | None = None
    """Slots of the trace's own cluster; task counts shrink by its ratio to `slots`, e.g. `4000`."""
    drop_wider_than: Count | None = None
    """Leave out jobs with a wider stage, and shrink none, e.g. `150`."""


class TraceWorkload(Block):
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
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""


class Requirement(Block):
    """A condition on a node's label."""

    key: Annotated[str, Field(min_length=1)]
    """Name of the label, e.g. `disk`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared, e.g. `In`."""
    values: list[str] = []
    """With what, e.g. `[ssd, nvme]`."""
    field: bool = False
    """It is on the node's name (`metadata.name`) instead, e.g. `true`."""


class Toleration(Block):
    """A taint that does not matter."""

    key: str = ""
    """Its name; left out with Exists: any taint, e.g. `gpu`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether its value counts, e.g. `Exists`."""
    value: str = ""
    """Its value, e.g. `a100`."""
    effect: Literal["", "NoSchedule", "NoExecute", "PreferNoSchedule"] = ""
    """Its effect; all when left out, e.g. `NoSchedule`."""


class Places(Block):
    """Nodes that a stage may use: those that meet a whole term of several, and whose taints it tolerates."""

    terms: list[list[Requirement]] = []
    """Lists of conditions: one of these lists has to be met as a whole, e.g. `[[{key: disk, operator: In, values:
    [ssd]}]]`.
    """
    tolerations: list[Toleration] = []
    """Taints that do not matter, e.g. `[{key: gpu, operator: Exists}]`."""


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


class InlineStage(Block):
    """N equal tasks."""

    name: Annotated[str, Field(min_length=1)]
    """Its name inside the job, e.g. `map`."""
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
    hint: Duration | None = None
    """What its owner says that a task takes, e.g. `30s`."""
    gang: bool = False
    """Its tasks start all together or not at all, e.g. `true`."""
    places: Places | None = None
    """Nodes that they may use; all that have no taint when left out, e.g. `{tolerations: [{key: gpu, operator:
    Exists}]}`.
    """
    hosts: list[str] | list[list[str]] = []
    """Nodes that hold the input of all tasks, or one list of them per task, e.g. `[n1, n2]`."""


class InlineService(Block):
    """What makes a job a service: it runs until the run ends."""

    start_within: Interval | None = None
    """Its objective: from its submission until all its tasks have started, e.g. `30s`."""
    preemptible: bool = True
    """Whether preemption may take containers from it, e.g. `false`."""


class Wish(Block):
    """One way in which a job would like its tasks to run."""

    device: str = ""
    """On nodes of this kind, e.g. `gpu`."""
    rack: str = ""
    """On nodes of this rack, e.g. `r1`."""
    same_rack: bool = False
    """All tasks of a stage in one rack, whichever it is, e.g. `true`."""
    spread: bool = False
    """No two tasks of a stage on one node, e.g. `true`."""
    worth: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """What it is worth against the other ways, e.g. `8`."""
    slowdown: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    """How long tasks take there, as a multiple of the estimate, e.g. `1.5`."""


class Wishes(Block):
    """How a job would like to run; policies that do not plan for wishes pass them by."""

    prefer: list[Wish] = []
    """Ways that will do. No other is taken while one of these can ever be had, e.g. `[{device: gpu, worth: 8},
    {worth: 3}]`.
    """
    value: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """What the whole job is worth against others, e.g. `5`."""
    budget: Interval | None = None
    """Ways are left out in which all its tasks together would take longer, by estimates, e.g. `20m`."""


class InlineJob(Block):
    """A job written out."""

    name: Annotated[str, Field(min_length=1)]
    """Its recurring name, by which predictors find its history, e.g. `etl`."""
    id: Annotated[str, Field(min_length=1)] | None = None
    """What this run of it is called; the name, numbered where that is taken, when left out, e.g. `etl-monday`."""
    user: str = ""
    """Whose it is, e.g. `alice`."""
    app: str = ""
    """The program that it runs, for predictors, e.g. `spark-etl`."""
    queue: str = "default"
    """The leaf queue that it sits in, e.g. `prod`."""
    weight: Positive = 1.0
    """Its part of what jobs share, e.g. `2`."""
    submit: Duration = 0
    """When it arrives, e.g. `5m`."""
    service: InlineService | None = None
    """It is a service, not a batch job, e.g. `{start_within: 30s, preemptible: false}`."""
    deadline: Interval | None = None
    """How long after its arrival it should be done, for policies that go by deadlines, e.g. `10m`."""
    apart: Annotated[float, Field(ge=1, le=1e3)] = 1.0
    """How many times as long a gang of it truly takes whose tasks are not all in one rack, e.g. `1.5`."""
    wishes: Wishes | None = None
    """How it would like to run, e.g. `{prefer: [{device: gpu, worth: 8}, {worth: 3}]}`."""
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


class JobsWorkload(Block):
    """Jobs written out in the scenario, and what history remembers."""

    kind: Literal["jobs"]
    """Written out, e.g. `jobs`."""
    jobs: list[InlineJob]
    """The jobs, e.g. `[{name: etl, stages: [{name: map, demand: {cpu: 1}, duration: 30s}]}]`."""
    history: list[InlinePastJob] = []
    """Jobs that finished before, e.g. `[{name: etl, ago: 1d, stages: [{tasks: 20, duration: 28s}]}]`."""
    data: Data | None = None
    """Input of the tasks, e.g. `{replicas: 3}`."""
    asks: Asks | None = None
    """Asked for beside used, e.g. `{error: [-0.2, 0.5]}`."""
    deadlines: Deadlines | None = None
    """By when jobs should be done that say nothing of it, e.g. `{part: 0.5, factor: [1.5, 3]}`."""


Workload = Annotated[
    SyntheticWorkload | TpchWorkload | DagsWorkload | LachesisWorkload | MixedWorkload | TraceWorkload | JobsWorkload,
    Field(discriminator="kind"),
]
