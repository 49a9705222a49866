"""DagJobs: stages of equal pods, each stage after its parents.

The only description of the object, held against its CRD by a test. The brain reads only the scheduling part of a pod
template (`DagJob`: no policy may see the true run time); the controllers, which make pods, read the whole template
(`WholeDagJob`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from schedulers.core import model
from schedulers.core.errors import InvalidJob, InvalidQuantity
from schedulers.core.resources import Resources, parse_quantity
from schedulers.objects.meta import Stored, label_value, to_ms, whole_number, without_nulls
from schedulers.objects.names import PODS_REFUSED, RECURRING_LABEL, USER_LABEL
from schedulers.objects.nesting import is_deep
from schedulers.objects.pod import Condition, PodTemplate, demand, places

#: Seconds; more than 30 years.
_LONGEST_HINT: Final = 1e9
#: Limits of the CRD; larger jobs would take a process's memory before anybody had looked at them.
MOST_STAGES: Final = 64
MOST_TASKS: Final = 100_000
_MOST_PARENTS: Final = 16
_MOST_WISHES: Final = 16
#: Bytes of an edge, so that the sum over its stages is still a number that a log can hold.
_MOST_DATA: Final = 10**15
#: Worth and slowdown of a wish, value and budget of a job: least and most, as in the CRD.
_WORTH: Final = (0.0, 1e6)
_SLOWDOWN: Final = (1e-3, 1e3)
_VALUE: Final = (1e-3, 1e6)
_BUDGET_S: Final = (1.0, 1e9)
#: Levels of a pod template; a pod has 15. Less than left by `nesting.cut`.
_DEEPEST: Final = 40
#: Failed tries and attempts that are believed.
_MOST_TRIES: Final = 10**9

Template = TypeVar("Template")


class Hints(msgspec.Struct):
    """The submitter's hints about a stage: claims, not facts."""

    durationSeconds: float | None = None
    """Usual run time of a task."""
    spread: float | None = None
    """Standard deviation of run times over their mean."""
    data: dict[str, str] = {}
    """Bytes handed over by each parent, by the parent's name, as a quantity."""


class StageSpec(msgspec.Struct, Generic[Template]):
    """A stage. gang: its tasks start all together or not at all."""

    name: str
    template: Template
    tasks: int = 1
    parents: tuple[str, ...] = ()
    gang: bool = False
    hints: Hints | None = None


class WishSpec(msgspec.Struct):
    """A wished way to run a job (see `model.Wish`). device: the instance type of nodes."""

    device: str = ""
    rack: str = ""
    sameRack: bool = False
    spread: bool = False
    worth: float = 1.0
    slowdown: float = 1.0


class WishesSpec(msgspec.Struct):
    """How a job would like to run (see `model.Wishes`)."""

    prefer: tuple[WishSpec, ...] = ()
    value: float = 1.0
    budgetSeconds: float | None = None


class DagJobSpec(msgspec.Struct, Generic[Template]):
    """The job to run. retries: further tries of a failed task. deadline: RFC 3339 time."""

    stages: tuple[StageSpec[Template], ...]
    queue: str = "default"
    user: str = ""
    deadline: str | None = None
    wishes: WishesSpec | None = None
    retries: int = 3
    ttlSecondsAfterFinished: int | None = None


class Tries(msgspec.Struct, frozen=True):
    """Memory of unfinished tasks with at least a single bad end."""

    failures: int = 0
    """Number of failed tries that count."""
    attempt: int = 0
    """Highest ended attempt."""
    indexes: str = ""
    """Indexes of all such tasks, as `0-5,7`."""


class StageStatus(msgspec.Struct):
    """Counts of a stage's tasks. completedIndexes (of succeeded tasks, `0-5,7`) and tries outlive their pods.

    started: the stage's pods have been asked for.
    """

    name: str
    tasks: int = 0
    created: int = 0
    waiting: int = 0
    released: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    completedIndexes: str = ""
    started: bool = False
    tries: list[Tries] = []


class PlannedStage(msgspec.Struct):
    """When the first task of a stage starts by the plan."""

    name: str
    startSeconds: float = 0.0


class PlanStatus(msgspec.Struct):
    """How the policy would run the job (see the CRD); stages: the first to start in front."""

    machines: int = 0
    boundSeconds: float = 0.0
    makespanSeconds: float = 0.0
    stages: list[PlannedStage] = []
    troublesome: list[str] = []


class PromiseStatus(msgspec.Struct):
    """When the job will be done as far as is known (see the CRD); times as RFC 3339."""

    message: str = ""
    finishTime: str = ""
    marginSeconds: float = 0.0
    revisedTime: str = ""
    containers: int = 0


class ExpectedTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Quantiles of a time to come (RFC 3339); None where so many draws end without."""

    p10: str | None = None
    p50: str | None = None
    p90: str | None = None


class ExpectedStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the job will start and end (see the CRD). known: False where nothing is known of the run times."""

    known: bool
    asOf: str
    start: ExpectedTimes | None = None
    finish: ExpectedTimes | None = None


class Progress(msgspec.Struct):
    """The controllers' part of the status."""

    observedGeneration: int = 0
    phase: str = ""
    conditions: list[Condition] = []
    stages: list[StageStatus] = []
    tasks: int = 0
    succeeded: int = 0
    startTime: str | None = None
    completionTime: str | None = None


class DagJobStatus(Progress):
    """The whole status: the controllers' part, the brain's, and `expected`, the forecaster's."""

    estimateSeconds: float | None = None
    reason: str = ""
    message: str = ""
    position: int | None = None
    plan: PlanStatus | None = None
    promise: PromiseStatus | None = None
    expected: ExpectedStatus | None = None


class DagJobOf(Stored, Generic[Template]):
    """A job of the API server."""

    spec: DagJobSpec[Template]
    status: DagJobStatus = msgspec.field(default_factory=DagJobStatus)

    @property
    def is_over(self) -> bool:
        """Whether the job has succeeded or failed for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def has_succeeded(self) -> bool:
        """Whether all its tasks have succeeded."""
        return self.status.phase == "Succeeded"

    @property
    def refused(self) -> str | None:
        """Why its pods cannot be made, in the API server's words; None: nothing is refused now."""
        told = (c for c in self.status.conditions if c.type == PODS_REFUSED and c.status == "True")
        return next((f"{c.reason}: {c.message}" for c in told), None)


DagJob = DagJobOf[PodTemplate]
WholeDagJob = DagJobOf[dict[str, Any]]


def scheduled(whole: WholeDagJob) -> DagJob:
    """The scheduling part of a DagJob. Raises InvalidJob for a pod template with values impossible in a pod."""
    for stage in whole.spec.stages:
        if is_deep(stage.template, _DEEPEST):
            raise InvalidJob(
                f"DagJob {whole.key}: stage '{stage.name}': its template is nested more than {_DEEPEST} deep"
            )
    try:
        return msgspec.convert(without_nulls(msgspec.to_builtins(whole)), DagJob)
    except msgspec.ValidationError as error:
        raise InvalidJob(f"DagJob {whole.key}: {error}") from None


def write_tries(tries: Mapping[int, tuple[int, int]]) -> list[Tries]:
    """Task index -> (failures, attempt), equal values together: 100,000 tasks with a failure each are an entry."""
    same: dict[tuple[int, int], set[int]] = {}
    for index, ended in tries.items():
        same.setdefault(ended, set()).add(index)
    return [Tries(failures, attempt, show_indexes(same[failures, attempt])) for failures, attempt in sorted(same)]


def read_tries(tries: Iterable[Tries], tasks: int) -> dict[int, tuple[int, int]]:
    """The inverse of `write_tries` for a stage of so many tasks; impossible values are left out."""
    found: dict[int, tuple[int, int]] = {}
    left = tasks  # an index stands in a single entry: repeated indexes must not keep us busy for hours
    for one in tries:
        indexes = read_indexes(one.indexes, tasks) if left > 0 else ()
        left -= len(indexes)
        told = one.failures, one.attempt
        if min(told) >= 0 and max(told) <= _MOST_TRIES:
            found |= dict.fromkeys(indexes, told)
    return found


def show_indexes(indexes: Collection[int]) -> str:
    """`0-5,7` for {0, 1, 2, 3, 4, 5, 7}, as Kubernetes' indexed Jobs write indexes."""
    parts: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for at, index in enumerate(ordered):
        if at + 1 == len(ordered) or ordered[at + 1] != index + 1:
            first = ordered[start]
            parts.append(str(first) if first == index else f"{first}-{index}")
            start = at + 1
    return ",".join(parts)


def read_indexes(text: str, tasks: int) -> set[int]:
    """The inverse of `show_indexes` for a stage of so many tasks.

    Indexes beyond the stage are left out, and indexes out of ascending order: anybody may have written the text, and
    `0-999999999999` must not take all memory, nor a range repeated again and again all time.
    """
    indexes: set[int] = set()
    following = 0
    for part in text.split(",") if text else ():
        start, _, end = part.partition("-")
        first, last = whole_number(start), whole_number(end or start)
        if first is not None and last is not None and following <= first <= last:
            indexes.update(range(first, min(last + 1, tasks)))
            following = last + 1
    return indexes


def core_job(dagjob: DagJob, resources: Resources, *, id: str | None = None) -> model.Job:  # noqa: A002 (the core's word)
    """A DagJob for the core; its id is `namespace/name.uid` (8 characters of the uid) by default.

    Raises InvalidJob with a clear sentence for unknown parents, repeated names, cycles, unreadable quantities (the
    cause is then the InvalidQuantity), hints below zero, and the like.
    """
    meta, spec = dagjob.metadata, dagjob.spec
    if len(spec.stages) > MOST_STAGES:
        raise InvalidJob(f"DagJob {dagjob.key}: {len(spec.stages)} stages ({MOST_STAGES} at most)")
    names = [stage.name for stage in spec.stages]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidJob(f"DagJob {dagjob.key}: two stages are called '{repeated}'")
    job = model.Job(
        id=id if id is not None else f"{dagjob.key}.{meta.uid[:8]}",
        deadline=to_ms(spec.deadline),
        name=meta.labels.get(RECURRING_LABEL) or meta.generateName.rstrip("-") or meta.name,
        user=label_value(spec.user) or meta.labels.get(USER_LABEL, ""),
        queue=spec.queue,
        wishes=_wishes(dagjob),
        stages=tuple(_stage(dagjob, stage, names, resources) for stage in spec.stages),
    )
    total = sum(stage.tasks for stage in spec.stages)
    if total > MOST_TASKS:
        raise InvalidJob(f"DagJob {dagjob.key}: {total} tasks in all stages ({MOST_TASKS} at most)")
    try:
        model.check_job(job, len(resources))
    except InvalidJob as error:
        raise InvalidJob(f"DagJob {dagjob.key}: {error}") from None
    return job


def _wishes(dagjob: DagJob) -> model.Wishes | None:
    spec = dagjob.spec.wishes
    if spec is None:
        return None
    if len(spec.prefer) > _MOST_WISHES:
        raise InvalidJob(f"DagJob {dagjob.key}: {len(spec.prefer)} wishes ({_MOST_WISHES} at most)")
    numbers = [("value", spec.value, _VALUE), ("budgetSeconds", spec.budgetSeconds, _BUDGET_S)]
    for wish in spec.prefer:
        numbers += [("worth", wish.worth, _WORTH), ("slowdown", wish.slowdown, _SLOWDOWN)]
    for what, number, (least, most) in numbers:
        if number is not None and not least <= number <= most:
            raise InvalidJob(f"DagJob {dagjob.key}: wishes: {what} is {number:g} ({least:g} to {most:g})")
    told = map(msgspec.structs.asdict, spec.prefer)
    prefer = tuple(model.Wish(same_rack=wish.pop("sameRack"), **wish) for wish in told)
    budget = None if spec.budgetSeconds is None else round(1000 * spec.budgetSeconds)
    return model.Wishes(prefer=prefer, value=spec.value, budget_ms=budget)


def _stage(dagjob: DagJob, stage: StageSpec[PodTemplate], names: list[str], resources: Resources) -> model.Stage:
    unknown = next((parent for parent in stage.parents if parent not in names), None)
    where = f"DagJob {dagjob.key}: stage '{stage.name}'"
    if unknown is not None:
        raise InvalidJob(f"{where} names parent '{unknown}' ({', '.join(names)})")
    for what, count, least, most in (
        ("tasks", stage.tasks, 1, MOST_TASKS),
        ("parents", len(stage.parents), 0, _MOST_PARENTS),
    ):
        if not least <= count <= most:
            raise InvalidJob(f"{where} has {count} {what} ({least} to {most})")
    try:
        asked = demand(stage.template.spec, resources)
    except InvalidJob as error:
        raise InvalidJob(f"{where}: {error}") from error.__cause__
    return model.Stage(
        name=stage.name,
        tasks=stage.tasks,
        demand=asked,
        parents=_edges(dagjob, stage, names),
        hint_ms=_hint_ms(dagjob, stage),
        places=places(stage.template.spec),
        gang=stage.gang,
    )


def _edges(dagjob: DagJob, stage: StageSpec[PodTemplate], names: list[str]) -> tuple[int | model.Edge, ...]:
    data = stage.hints.data if stage.hints is not None else {}
    where = f"DagJob {dagjob.key}: stage '{stage.name}'"
    other = next((parent for parent in data if parent not in stage.parents), None)
    if other is not None:
        raise InvalidJob(
            f"{where}: hint data names '{other}', which is no parent ({', '.join(stage.parents) or 'none'})"
        )
    edges: list[int | model.Edge] = []
    for parent in stage.parents:
        try:
            amount = -int(-parse_quantity(data.get(parent, 0)) // 1)
        except InvalidQuantity as error:
            raise InvalidJob(f"{where}: hint data: {error}") from error
        if amount > _MOST_DATA:
            raise InvalidJob(f"{where}: hint data: {parent} hands over {amount} bytes ({_MOST_DATA} at most)")
        index = names.index(parent)
        edges.append(model.Edge(parent=index, data=amount) if amount else index)
    return tuple(edges)


def _hint_ms(dagjob: DagJob, stage: StageSpec[PodTemplate]) -> int | None:
    hints = stage.hints if stage.hints is not None else Hints()
    for name, value in (("durationSeconds", hints.durationSeconds), ("spread", hints.spread)):
        if value is not None and not 0 <= value <= _LONGEST_HINT:
            raise InvalidJob(
                f"DagJob {dagjob.key}: stage '{stage.name}': hint {name} is {value} (0 to {_LONGEST_HINT:.0e})"
            )
    return round(1000 * hints.durationSeconds) if hints.durationSeconds is not None else None
