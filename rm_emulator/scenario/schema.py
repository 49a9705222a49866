"""What a scenario file may say: one model per block, unknown keys refused, units read by types.

Durations are whole milliseconds once read. Names that only a registry knows (policies, predictors,
placers, presets, trace formats) are checked against it, so a plug-in's parameters are checked as well.
The models say what is accepted in form; `rm_emulator.scenario.resolve` checks what refers to what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from rm_emulator.engine import profiles
from rm_emulator.engine.config import Kubernetes as KubernetesDelays
from rm_emulator.scenario.durations import parse_duration, parse_seeds, show_duration
from rm_emulator.scenario.issues import did_you_mean, show_value
from rm_emulator.workload.tpch import TpchSettings
from schedulers.core.errors import InvalidParameters, InvalidQuantity, UnknownName, nearest
from schedulers.core.placer import placers
from schedulers.core.policy import needs_estimates, policies
from schedulers.core.predictor import predictors
from schedulers.core.queues import parse_share
from schedulers.core.registry import Registry
from schedulers.core.resources import parse_quantity

API_VERSION: Final = "rm-emulator.io/v1alpha1"
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_KUBERNETES: Final = KubernetesDelays()
LABEL: Final = r"^[A-Za-z_][A-Za-z0-9_-]*$"
if TYPE_CHECKING:
    Profile = str
else:
    Profile = Literal[profiles.names()]


def _read(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A validator from a function that raises ValueError with a full message."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise PydanticCustomError("value", "{text}", {"text": str(error)}) from None

    return validate


def _positive(ms: int) -> int:
    if ms < 1:
        raise PydanticCustomError("value", "{text}", {"text": "is 0: expected a duration above zero"})
    return ms


def _quantity(value: Any) -> Any:
    try:
        parse_quantity(value)
    except InvalidQuantity as error:
        raise PydanticCustomError("value", "{text}", {"text": str(error), "hint": _quantity_hint(value)}) from None
    return value


def _quantity_hint(value: Any) -> str:
    """What Kubernetes calls a unit that is written in another way: 4GB, 4gi, 4 GiB."""
    text = str(value).replace(" ", "").rstrip("bB")
    for candidate in (text, text[:-2] + text[-2:].title(), text[:-1] + text[-1:].upper()):
        try:
            parse_quantity(candidate)
        except InvalidQuantity:
            continue
        return did_you_mean(candidate)
    return ""


_DURATION_SCHEMA: Final = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*(ms|s|m|h|d)?\s*)+$"},
        {"type": "number", "minimum": 0},
    ],
    "description": "500ms, 1.5s, 2m, 1h30m, 1d; plain numbers are seconds",
}
_shown = PlainSerializer(show_duration)
Duration = Annotated[int, BeforeValidator(_read(parse_duration)), _shown, WithJsonSchema(_DURATION_SCHEMA)]
Interval = Annotated[
    int,
    BeforeValidator(_positive),
    BeforeValidator(_read(parse_duration)),
    _shown,
    WithJsonSchema(_DURATION_SCHEMA),
]
Quantity = Annotated[
    str | int | float,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
            "description": "a Kubernetes quantity: 4, 500m, 1.5Gi",
        }
    ),
]
Quantities = Annotated[dict[str, Quantity], Field(min_length=1)]
Seeds = Annotated[
    list[int],
    BeforeValidator(_read(parse_seeds)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                {"type": "string", "pattern": r"^\d+(\s*\.\.\s*\d+)?(\s*,\s*\d+(\s*\.\.\s*\d+)?)*$"},
                {"type": "integer", "minimum": 0},
            ],
            "description": "[1, 2, 3] or 1..5",
        }
    ),
]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Block(BaseModel):
    """A mapping of the scenario file."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Metadata(Block):
    """What the scenario is called; the run directory is `out/NAME` unless --out says otherwise."""

    name: Annotated[str, Field(pattern=NAME, max_length=80)]
    description: str = ""


# --- cluster -------------------------------------------------------------------------------------


class Taint(Block):
    """Keeps stages off a node that do not tolerate it (Kubernetes' meaning)."""

    key: Annotated[str, Field(min_length=1)]
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class Nodes(Block):
    """A group of equal nodes.

    name: prefix of their names (`n` gives n001, n002, ...), the name itself when count is 1.
    speed: 2.0 runs a task in half its time. racks: spread the group over so many racks, in blocks.
    labels, taints: say which stages may use them (`places` of a stage).
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    name: Annotated[str, Field(pattern=NAME, max_length=253)] | None = None
    capacity: Quantities
    speed: Positive = 1.0
    rack: str = ""
    racks: Count | None = None
    kind: str = ""
    labels: dict[str, str] = {}
    taints: list[Taint] = []


class Spread(Block):
    """A distribution of times by its mean and coefficient of variation."""

    kind: Literal["lognormal", "gamma", "exponential", "uniform", "normal"]
    mean: Interval
    cov: Annotated[float, Field(ge=0)] = 1.0


def _times(value: Any) -> Any:
    """A scalar is a fixed duration, a list one duration per task, a mapping a distribution."""
    if isinstance(value, Mapping):
        return Spread.model_validate(dict(value))
    if isinstance(value, list):
        return _each(value, _read(parse_duration))
    return _read(parse_duration)(value)


def _each(values: list[Any], read: Callable[[Any], Any]) -> list[Any]:
    found, errors = [], []
    for index, value in enumerate(values):
        try:
            found.append(read(value))
        except PydanticCustomError as error:
            errors.append(InitErrorDetails(type=error, loc=(index,), input=value))
    if errors:
        raise ValidationError.from_exception_data("list", errors)
    return found


def _show_times(value: Any) -> Any:
    if isinstance(value, Spread):
        return value.model_dump(mode="json")
    return [show_duration(ms) for ms in value] if isinstance(value, list) else show_duration(value)


_TIMES_SCHEMA: Final = {
    "anyOf": [
        *_DURATION_SCHEMA["anyOf"],
        {"type": "array", "items": {"anyOf": _DURATION_SCHEMA["anyOf"]}, "minItems": 1},
        Spread.model_json_schema(),
    ],
    "description": "a duration, a list with one per task, or {kind: lognormal, mean: 30s, cov: 0.3}",
}
Times = Annotated[
    int | list[int] | Spread,
    BeforeValidator(_times),
    PlainSerializer(_show_times),
    WithJsonSchema(_TIMES_SCHEMA),
]
StartUp = Annotated[
    int | Spread,
    BeforeValidator(lambda v: _times(v) if isinstance(v, Mapping) else _read(parse_duration)(v)),
    PlainSerializer(_show_times),
    WithJsonSchema({"anyOf": [*_DURATION_SCHEMA["anyOf"], Spread.model_json_schema()]}),
]


class ApplicationMaster(Block):
    """How often each job's application master asks and picks up, and what its container holds (nothing: none)."""

    heartbeat: Interval = 1000
    container: Quantities | None = None


class Executors(Block):
    """Containers that a job keeps between tasks, as in Spark (Decima, section 6.2)."""

    moving_delay: Duration = 2000
    warmup: Duration = 1000
    inverted_levels: bool = True


class Disorder(Block):
    """Seeded disorder of facts and decisions, to find races; all probabilities in [0, 1]."""

    permute: bool = True
    delay: Probability = 0.0
    delay_time: Interval = 1000
    duplicate: Probability = 0.0
    late: Probability = 0.0
    late_time: Interval = 1000


class Sizes(Block):
    """Container sizes as YARN hands them out: demands are raised to the minimum and rounded up to the increment.

    increment: the minimum unless given (as the CapacityScheduler does). A demand above the maximum is refused.
    """

    minimum: Quantities
    increment: Quantities | None = None
    maximum: Quantities | None = None


class Kubernetes(Block):
    """Delays of profile kubernetes; see `rm_emulator.engine.config.Kubernetes`, whose defaults these are."""

    cycle: Duration = _KUBERNETES.cycle_ms
    create: Duration = _KUBERNETES.create_ms
    create_rate: Positive = _KUBERNETES.create_rate
    release_rate: Positive = _KUBERNETES.release_rate
    start: Duration = _KUBERNETES.start_ms
    seen: Duration = _KUBERNETES.seen_ms
    whole_seconds: bool = _KUBERNETES.whole_seconds


class Cluster(Block):
    """The nodes and how the resource manager hears of them.

    profile: yarn (out-of-band heartbeat at a container's end), sls (ticks only), events (no heartbeats),
    kubernetes (decisions in cycles; pods are created, released, bound and watched).
    mode: skipping leaves out heartbeats that cannot change anything; naive beats them all; same decisions.
    overbook: how much more than a node has of network or disk its tasks may ask for, as a part of it; they slow down.
    Where tasks use more than they ask for (`asks` of the workload), they slow down as well.
    """

    nodes: Annotated[list[Nodes], Field(min_length=1)]
    profile: Profile = "yarn"
    heartbeat: Interval = 1000
    application_master: ApplicationMaster = ApplicationMaster()
    mode: Literal["skipping", "naive"] = "skipping"
    startup: StartUp = 0
    containers_per_heartbeat: Count | None = None
    sizes: Sizes | None = None
    executors: Executors | None = None
    disorder: Disorder | None = None
    kubernetes: Kubernetes | None = None
    overbook: dict[Literal["network", "disk"], Annotated[float, Field(ge=0)]] = {}


def _limit(value: Any) -> Any:
    """Resources, or a share of the cluster."""
    if isinstance(value, Mapping):
        return _QUANTITIES.validate_python(dict(value))
    _read(parse_share)(value)
    return value


_QUANTITIES: Final = TypeAdapter[dict[str, Any]](Quantities)
Limit = Annotated[
    dict[str, Any] | str | float,
    BeforeValidator(_limit),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*(\d+\.?\d*|\.\d+)%?\s*$"},
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "object", "additionalProperties": {"type": ["string", "number"]}, "minProperties": 1},
            ],
            "description": "a share of the cluster (25% or 0.25), or resources ({cpu: 4, memory: 8Gi})",
        }
    ),
]


class PerUser(Block):
    """Limits of each user inside a queue: what their tasks hold at most, how many of their jobs run at once."""

    limit: Limit | None = None
    max_running: Count | None = None


class Queue(Block):
    """A queue of the weighted tree; jobs sit in leaves.

    guaranteed: what it can count on. max: what its tasks hold at most; a resource that is not named is not limited.
    max_running: so many of its jobs run at once, the others wait in order of submission.
    """

    name: Annotated[str, Field(min_length=1)]
    weight: Positive = 1.0
    parent: str = ""
    guaranteed: Limit | None = None
    max: Limit | None = None
    per_user: PerUser | None = None
    max_running: Count | None = None
    preemptible: bool = True


# --- workload ------------------------------------------------------------------------------------


class _Settings(BaseModel):
    """A block whose other keys are the settings of a struct that lives beside the code that uses them."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, frozen=True)

    @classmethod
    def struct(cls) -> type[msgspec.Struct]:
        """What describes the other keys."""
        raise AssertionError(f"{cls.__name__} names no struct")

    @property
    def settings(self) -> dict[str, Any]:
        """The struct's settings that the file gives."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and all(isinstance(key, str) for key in data):
            own = {key: value for key, value in data.items() if key not in cls.model_fields}
            errors = list(setting_errors(f"workload '{data.get('kind')}'", cls.struct(), own, tuple(cls.model_fields)))
            if errors:
                raise ValidationError.from_exception_data("settings", errors)
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(schema))
        found["properties"] = {**found.get("properties", {}), **_struct_properties(cls.struct())}
        found["additionalProperties"] = False
        return found


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
    load: Positive | None = None
    slots: Count | None = None
    history: bool = True
    knobs: Annotated[dict[str, Any], BeforeValidator(_knobs)] = {}
    data: Data | None = None
    asks: Asks | None = None

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from rm_emulator.workload.synthetic import PRESETS, Spec

        found = handler.resolve_ref_schema(handler(schema))
        knobs = {
            name: {k: v for k, v in field.items() if k != "default"} for name, field in _struct_properties(Spec).items()
        }
        found["properties"]["preset"] = {"enum": list(PRESETS)}
        found["properties"]["knobs"] = {"type": "object", "properties": knobs, "additionalProperties": False}
        return found


class TpchWorkload(_Settings):
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
        """See _Settings."""
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
    load: Positive | None = None
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


# --- policies ------------------------------------------------------------------------------------


def registered_errors(
    registry: Registry[Any], settings: Mapping[str, Any], beside: Iterable[str] = ()
) -> list[InitErrorDetails]:
    """Every mistake in `{'kind': name, **settings}`, each at its own key; `beside`: other keys of the same block."""
    name = settings.get("kind")
    if name is None:
        accepted = ", ".join(entry.name for entry in registry)
        return [_error((), f"kind is missing (accepted: {accepted})", settings)]
    try:
        entry = registry.entry(str(name))
    except UnknownName as error:
        text = f"unknown {registry.kind} '{name}' (accepted: {', '.join(error.known)})"
        return [_error(("kind",), text, name, did_you_mean(error.nearest))]
    own = {key: value for key, value in settings.items() if key != "kind"}
    errors = list(setting_errors(f"'{entry.name}'", entry.params, own, ("kind", *beside)))
    if not errors:
        try:
            registry.parse(settings)
        except InvalidParameters as error:
            errors.append(_error((), str(error), dict(settings)))
    return errors


def setting_errors(
    what: str, params: type[msgspec.Struct], settings: Mapping[str, Any], beside: Iterable[str] = ()
) -> Iterable[InitErrorDetails]:
    """Every mistake in the settings of a struct, each at its own key; `beside`: other keys of the same block."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(params)}
    for key, value in settings.items():
        if key not in fields:
            accepted = [*beside, *fields]
            text = f"{what} has no setting '{key}' (accepted: {', '.join(accepted)})"
            yield _error((str(key),), text, value, did_you_mean(nearest(str(key), accepted)), key=True)
            continue
        try:
            if isinstance(value, float) and not math.isfinite(value):
                raise msgspec.ValidationError("Expected a finite number")
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            text = f"{show_value(value)} is not accepted: {str(error)[:1].lower()}{str(error)[1:]}"
            choices = _choices(fields[key].type)
            if choices:
                text = f"{show_value(value)} is not accepted (expected {', '.join(choices)})"
            near = nearest(value, choices) if isinstance(value, str) else None
            yield _error((str(key),), text, value, did_you_mean(near))


def _choices(type_: Any) -> list[str]:
    """The words that a setting of this type accepts, [] when it is not an enumeration."""
    return [str(word) for word in msgspec.json.schema(type_).get("enum", ())]


def _error(loc: tuple[str | int, ...], text: str, value: Any, hint: str = "", *, key: bool = False) -> InitErrorDetails:
    context = {"text": text, "hint": hint, "key": key}
    return InitErrorDetails(type=PydanticCustomError("value", "{text}", context), loc=loc, input=value)


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
        return [_error((), text, part, hint)]
    return registered_errors(registry, part)


def _under(name: str, error: InitErrorDetails) -> InitErrorDetails:
    return InitErrorDetails(type=error["type"], loc=(name, *error.get("loc", ())), input=error["input"])


def _struct_properties(params: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of each field; nested structs are written out, as there is nowhere to refer to."""
    schema = msgspec.json.schema(params)
    definitions = schema.get("$defs", {})
    found = _written_out(definitions[params.__name__]["properties"], definitions)
    assert isinstance(found, dict)
    return found


def _written_out(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_written_out(item, definitions) for item in part]
    if isinstance(part, dict):
        if "$ref" in part:
            return _written_out(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {key: _written_out(value, definitions) for key, value in part.items()}
    return part


def _registry_schema(registry: Registry[Any], shared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One JSON Schema alternative per registered name, with its settings."""
    options = [
        {
            "type": "object",
            "title": entry.name,
            "description": entry.summary,
            "properties": {"kind": {"const": entry.name}, **(shared or {}), **_struct_properties(entry.params)},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for entry in registry
    ]
    return {"oneOf": options, "discriminator": {"propertyName": "kind"}}


# --- the document --------------------------------------------------------------------------------


class Spec(Block):
    """What to run: policies times seeds on one cluster and workload.

    log: what events.jsonl keeps (full, decisions, hash); by size when left out.
    record: first keeps one reason per waiting job and change, full every round's (for debugging).
    expect: assertions over summary.json, checked when all runs are done.
    baselines: runs to compare with: each queue alone, one giant node, ideal water-filling (docs/queues.md).
    """

    seeds: Seeds = [1]
    cluster: Cluster
    queues: list[Queue] = []
    workload: Workload
    policies: Annotated[list[PolicySpec], Field(min_length=1)]
    baseline: str | None = None
    expect: list[str] = []
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
    found = Scenario.model_json_schema()
    beside = {
        "label": {"type": "string", "pattern": LABEL},
        "predictor": {"anyOf": [{"$ref": "#/$defs/Predictor"}, {"type": "null"}]},
        "placement": {"anyOf": [{"$ref": "#/$defs/Placement"}, {"type": "null"}]},
    }
    found["$defs"] |= {
        "PolicySpec": _registry_schema(policies, beside),
        "Predictor": _registry_schema(predictors),
        "Placement": _registry_schema(placers),
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
