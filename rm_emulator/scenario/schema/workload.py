"""What runs: drawn, measured, recorded or written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError

from rm_emulator.issues import did_you_mean
from rm_emulator.scenario.schema.settings import Settings, setting_errors, struct_properties
from rm_emulator.scenario.schema.values import Block, Count, Duration, Interval, Load, Positive, Quantities, Times
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
    rack: Factor = 1.0
    off: Factor = 1.0


class Data(Block):
    """Input of the tasks of stages without parents, and what a task pays that runs away from it.

    replicas: each task's input is on so many random nodes, spread over racks as HDFS does; a stage that has hosts
    keeps them. remote: what distance costs; only true run times know of it.
    """

    replicas: Count | None = None
    remote: Remote = Remote()


def _error_range(value: list[float]) -> list[float]:
    if len(value) != 2 or not -1 < value[0] <= value[1]:
        text = f"{value} is not accepted (expected two numbers, ascending, above -1)"
        raise PydanticCustomError("value", "{text}", {"text": text})
    return value


class Asks(Block):
    """Jobs that ask for something else than their tasks use, which is what the workload says.

    error: relative error of what a stage asks for, [lowest, highest]; one draw per stage, by which `oracle` with the
    same `error` misjudges its run time as well. without: resources that are used, but that nobody asks for.
    """

    error: Annotated[list[float], AfterValidator(_error_range)] = [0.0, 0.0]
    without: list[str] = []


class SyntheticWorkload(Block):
    """Jobs drawn from a preset's distributions; `load` is total work over slots times arrival span.

    slots: what the load is measured against and widths grow with; the cluster's cores unless given.
    history: with past jobs for predictors to learn from. knobs: changes to the preset's own settings.
    """

    kind: Literal["synthetic"]
    preset: Annotated[str, AfterValidator(_preset)]
    jobs: Count = 1250
    load: Load | None = None
    slots: Count | None = None
    history: bool = True
    knobs: Annotated[dict[str, Any], BeforeValidator(_knobs)] = {}
    data: Data | None = None
    asks: Asks | None = None

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
    """Recurring TPC-H jobs with measured Spark task durations.

    interarrival: mean time between jobs. slots: what `load` is measured against; the cluster's unless given.
    profiles: path of the full measurements instead of the built-in summary.
    """

    kind: Literal["tpch"]
    interarrival: Interval | None = None
    slots: Count | None = None
    profiles: str | None = None
    data: Data | None = None
    asks: Asks | None = None

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """See Settings."""
        return TpchSettings


class Extract(Block):
    """The paper's extraction: the first half of a trace is history, jobs drawn from the second half run.

    trace_slots: slots of the trace's own cluster; task counts shrink by its ratio to `slots`.
    drop_wider_than: leave out jobs with a wider stage, and shrink none.
    """

    jobs: Count = 1250
    trace_slots: Count | None = None
    drop_wider_than: Count | None = None


class TraceWorkload(Block):
    """Jobs of a trace. format: a name that `rm-emulator traces` lists, or internal (what `convert` writes).

    load: stretch or squeeze the arrivals so that total work over slots times arrival span is this; an
    extract without it keeps the trace's. slots: the cluster's cores unless given.
    """

    kind: Literal["trace"]
    path: Annotated[str, Field(min_length=1)]
    format: str = "internal"
    options: dict[str, Any] = {}
    extract: Extract | None = None
    load: Load | None = None
    slots: Count | None = None
    data: Data | None = None
    asks: Asks | None = None


class Requirement(Block):
    """A condition on a node's label; field: on its name (`metadata.name`) instead."""

    key: Annotated[str, Field(min_length=1)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []
    field: bool = False


class Toleration(Block):
    """A taint that does not matter; key '' with Exists: any taint."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "NoExecute", "PreferNoSchedule"] = ""


class Places(Block):
    """Nodes that a stage may use: those that meet a whole term of several, and whose taints it tolerates."""

    terms: list[list[Requirement]] = []
    tolerations: list[Toleration] = []


class InlineStage(Block):
    """N equal tasks. parents: names of the stages that must be done before.

    gang: its tasks start all together or not at all. places: nodes that they may use (all, unless tainted).
    hosts: nodes that hold the input of all tasks, or one list of them per task.
    """

    name: Annotated[str, Field(min_length=1)]
    tasks: Count = 1
    demand: Quantities
    parents: list[str] = []
    duration: Times
    hint: Duration | None = None
    gang: bool = False
    places: Places | None = None
    hosts: list[str] | list[list[str]] = []


class InlineJob(Block):
    """A job written out. name: its recurring name, by which predictors find its history."""

    name: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1)] | None = None
    user: str = ""
    app: str = ""
    queue: str = "default"
    weight: Positive = 1.0
    submit: Duration = 0
    stages: Annotated[list[InlineStage], Field(min_length=1)]


class PastStage(Block):
    """A stage of a job that finished before: its number of tasks and their mean run time."""

    tasks: Count
    duration: Interval


class InlinePastJob(Block):
    """A job that finished `ago` before the scenario begins, for predictors that learn from history."""

    name: Annotated[str, Field(min_length=1)]
    user: str = ""
    app: str = ""
    ago: Interval
    took: Interval | None = None
    stages: Annotated[list[PastStage], Field(min_length=1)]


class JobsWorkload(Block):
    """Jobs written out in the scenario, and what history remembers."""

    kind: Literal["jobs"]
    jobs: list[InlineJob]
    history: list[InlinePastJob] = []
    data: Data | None = None
    asks: Asks | None = None


Workload = Annotated[
    SyntheticWorkload | TpchWorkload | TraceWorkload | JobsWorkload,
    Field(discriminator="kind"),
]
