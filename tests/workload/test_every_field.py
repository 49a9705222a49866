"""Every field of a job goes through whatever keeps jobs; one that is new does so without a line here."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from rm_emulator.scenario import inline
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import API_VERSION
from rm_emulator.scenario.schema.structs import as_written
from rm_emulator.scenario.schema.workload import JobsWorkload
from rm_emulator.testing import replay
from rm_emulator.workload import storage
from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core.events import JobSubmitted, NodeAdded
from schedulers.core.log import Log, SchedulerConfig, parse
from schedulers.core.model import Job, Node, Service, Stage
from schedulers.core.places import Places, Requirement, Toleration
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.core.written import Written
from schedulers.objects.dagjob import DagJob, DagJobSpec, StageSpec, core_job
from schedulers.objects.names import RECURRING_LABEL
from tests.workload import samples_stored

RESOURCES: Final = samples_stored.WORKLOAD.resources
_PLACES: Final = Places(
    terms=((Requirement(key="disk", operator="In", values=("ssd",)),),), tolerations=(Toleration(key="gpu"),)
)
_STAGES: Final = (
    *samples_stored.FULL.job.stages,
    Stage(name="m", tasks=1, demand=(1, 0, 0), places=_PLACES, master=True),
)
#: A job in which every field of today says something.
FULL: Final = msgspec.structs.replace(
    samples_stored.FULL,
    job=msgspec.structs.replace(samples_stored.FULL.job, stages=_STAGES, service=Service(start_within_ms=9)),
    runtimes=(*samples_stored.FULL.runtimes, samples_stored.FULL.runtimes[0]),
    usage=(*samples_stored.FULL.usage, (1, 0, 0)),
)
FIELDS: Final = [(cls, field) for cls in (WorkloadJob, Job, Stage) for field in msgspec.structs.fields(cls)]


def invented(kind: msgspec.inspect.Type, default: Any) -> Any:
    """A value of this type that is not the default."""
    match kind:
        case msgspec.inspect.Metadata(type=said):
            return invented(said, default)
        case msgspec.inspect.BoolType():
            return default is not True
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 7 if isinstance(kind, msgspec.inspect.IntType) else 7.5
        case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
            return "something"
        case msgspec.inspect.LiteralType(values):
            return next(value for value in values if value != default)
        case msgspec.inspect.UnionType(types):
            said = next(each for each in types if not isinstance(each, msgspec.inspect.NoneType))
            return invented(said, default)
        case msgspec.inspect.VarTupleType(item):
            return (invented(item, None),)
        case msgspec.inspect.TupleType(items):
            return tuple(invented(item, None) for item in items)
        case msgspec.inspect.DictType(key, value):
            return {invented(key, None): invented(value, None)}
        case msgspec.inspect.StructType(cls, fields):
            return cls(**{each.name: invented(each.type, None) for each in fields if each.required})
    raise AssertionError(f"nothing is known of {kind}")


def with_something(cls: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> WorkloadJob:
    """A job that says something in this field of it, or of one of its stages."""
    said = [getattr(each, field.name) for each in _parts(FULL, cls)]
    if any(value != field.default for value in said):
        return FULL
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType)
    kind = next(each.type for each in info.fields if each.name == field.name)
    value = {field.name: invented(kind, field.default)}
    if cls is WorkloadJob:
        return msgspec.structs.replace(FULL, **value)
    if cls is Job:
        return msgspec.structs.replace(FULL, job=msgspec.structs.replace(FULL.job, **value))
    stages = (msgspec.structs.replace(FULL.job.stages[0], **value), *FULL.job.stages[1:])
    return msgspec.structs.replace(FULL, job=msgspec.structs.replace(FULL.job, stages=stages))


def _parts(entry: WorkloadJob, cls: type[msgspec.Struct]) -> tuple[msgspec.Struct, ...]:
    return {WorkloadJob: (entry,), Job: (entry.job,), Stage: entry.job.stages}[cls]


@pytest.fixture(params=FIELDS, ids=lambda param: f"{param[0].__name__}.{param[1].name}")
def entry(request: pytest.FixtureRequest) -> WorkloadJob:
    """A job that says something in one of the fields."""
    cls, field = request.param
    made = with_something(cls, field)
    assert any(getattr(part, field.name) != field.default for part in _parts(made, cls))
    return made


def heard(job: Job, log: Log | None = None) -> Scheduler:
    """A scheduler that has heard of the job."""
    config = SchedulerConfig(resources=RESOURCES, policy={"kind": "fifo"})
    scheduler = Scheduler(config, log=log)
    scheduler.handle(NodeAdded(0, Node(id="n1", capacity=(10, 10, 10))))
    scheduler.handle(JobSubmitted(1, job))
    return scheduler


def test_a_stored_workload_keeps_it(entry: WorkloadJob, tmp_path: Path) -> None:
    workload = Workload(name="w", jobs=(entry,), resources=RESOURCES)
    storage.save(workload, tmp_path / "w")
    assert storage.load(tmp_path / "w") == workload


def test_a_log_tells_it_and_a_replay_hears_it(entry: WorkloadJob) -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    heard(entry.job, log)
    log.flush()
    lines = b"".join(chunks).splitlines()
    assert [line.job for line in parse(lines) if isinstance(line, JobSubmitted)] == [entry.job]
    assert replay(lines) == lines


def test_a_snapshot_of_the_scheduler_keeps_it(entry: WorkloadJob) -> None:
    scheduler = Scheduler.restore(heard(entry.job).snapshot())
    assert [state.spec for state in scheduler.state.jobs.values()] == [entry.job]


#: What says a field in a DagJob, where the object's spec has no field of that name.
OTHERWISE: Final = {
    (Job, "id"): "metadata", (Job, "name"): "metadata", (Stage, "hint_ms"): "hints", (Stage, "demand"): "template",
    (Stage, "places"): "template",
}  # fmt: skip
OBJECTS: Final[dict[type[msgspec.Struct], type[msgspec.Struct]]] = {Job: DagJobSpec, Stage: StageSpec}
IN_OBJECTS: Final = [
    (cls, field)
    for cls, field in FIELDS
    if cls in OBJECTS and ((cls, field.name) in OTHERWISE or field.name in OBJECTS[cls].__struct_fields__)
]
_POD: Final = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
    "nodeSelector": {"disk": "ssd"},
}
#: A DagJob that says all that it can of a job.
DAGJOB: Final = {
    "metadata": {"name": "etl-1", "namespace": "ns", "uid": "u", "labels": {RECURRING_LABEL: "etl"}},
    "spec": {
        "queue": "prod",
        "user": "ada",
        "deadline": "2026-01-01T00:00:00Z",
        "wishes": {"prefer": [{"device": "gpu"}]},
        "stages": [
            {"name": "a", "tasks": 2, "template": {"spec": _POD}, "hints": {"durationSeconds": 3}},
            {"name": "b", "tasks": 3, "template": {"spec": _POD}, "parents": ["a"], "gang": True},
        ],
    },
}


@pytest.mark.parametrize("place", IN_OBJECTS, ids=lambda place: f"{place[0].__name__}.{place[1].name}")
def test_a_dagjob_says_it_where_the_object_has_a_place_for_it(
    place: tuple[type[msgspec.Struct], msgspec.structs.FieldInfo],
) -> None:
    cls, field = place
    job = core_job(msgspec.convert(DAGJOB, DagJob), Resources())
    parts: tuple[msgspec.Struct, ...] = (job,) if cls is Job else job.stages
    assert any(getattr(part, field.name) != field.default for part in parts)


def written(cls: type[Written]) -> Iterator[type[Written]]:
    for each in cls.__subclasses__():
        yield each
        yield from written(each)


@pytest.mark.parametrize("cls", [*written(Written)], ids=lambda cls: cls.__name__)
def test_a_default_that_comes_from_a_file_is_not_written(cls: type[Written]) -> None:
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType)
    needed = {each.name: invented(each.type, None) for each in info.fields if each.required}
    plain = cls(**needed)
    told = {field.name: getattr(plain, field.name) for field in msgspec.structs.fields(cls)}
    assert msgspec.json.encode(msgspec.convert(msgspec.to_builtins(told), cls)) == msgspec.json.encode(plain)
    for name, value in told.items():
        said = {**needed, name: pickle.loads(pickle.dumps(value))}
        assert msgspec.json.encode(cls(**said)) == msgspec.json.encode(plain)


#: Nobody writes these: who is an application master the cluster says.
NOT_WRITTEN: Final = ("master",)


def as_file(entry: WorkloadJob) -> dict[str, Any]:
    """The job as a scenario writes it."""
    resources = Resources(RESOURCES)
    names = [stage.name for stage in entry.job.stages]
    told = as_written(entry.job).model_dump(mode="json", exclude_none=True)
    for stage, block in zip(entry.job.stages, told["stages"], strict=True):
        block["demand"] = resources.show(stage.demand)
        block["parents"] = [
            {"stage": names[edge.parent], "data": edge.data} if edge.data else names[edge.parent]
            for edge in stage.edges
        ]
        if entry.job.service is None:
            block["duration"] = "1s"
        for name in NOT_WRITTEN:
            del block[name]
    if entry.job.deadline is not None:
        told["deadline"] = f"{entry.job.deadline - entry.submit_ms}ms"
    return {**told, "submit": f"{entry.submit_ms}ms"}


def test_a_scenario_says_it(entry: WorkloadJob) -> None:
    workload = {"kind": "jobs", "jobs": [as_file(entry)]}
    cluster = {"nodes": [{"capacity": {**dict.fromkeys(RESOURCES, 10), "memory": "16Gi"}}]}
    spec = {"cluster": cluster, "workload": workload, "policies": [{"kind": "fifo"}]}
    whole = {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "x"}, "spec": spec}
    block = load(whole).scenario.spec.workload
    assert isinstance(block, JobsWorkload)
    (found,) = inline.workload(block, "w", Resources(RESOURCES)).jobs
    stages = tuple(msgspec.structs.replace(stage, master=False) for stage in entry.job.stages)
    assert found.job == msgspec.structs.replace(entry.job, stages=stages)
