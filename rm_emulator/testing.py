"""Contract tests for policies, predictors, placers, profiles and trace formats, from inside the tree or outside it.

Every registered class must keep the scheduler's promises, and each promise is a function here:

    import pytest
    import my_plugin  # registers "mine"
    from rm_emulator.testing import POLICY_CHECKS, Subject

    @pytest.mark.parametrize("check", POLICY_CHECKS)
    def test_mine(check):
        check(Subject(policy={"kind": "mine"}))

A check runs small random scenarios (a pure function of a number) in the emulator and raises
AssertionError that names the scenario. Nothing here depends on a test runner.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from unittest import SkipTest

import msgspec
import numpy as np

from rm_emulator.audit import Audit as Audit  # noqa: PLC0414 (here plug-ins find it)
from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Disorder, EngineConfig, Executors
from rm_emulator.engine.execution import draw
from rm_emulator.engine.in_memory import run_in_memory
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.recording import Attempt as Attempt  # noqa: PLC0414 (here plug-ins find it)
from rm_emulator.engine.recording import MemoryRecording as MemoryRecording  # noqa: PLC0414
from rm_emulator.engine.simulation import Simulation
from rm_emulator.results.chart_checks import check_chart as check_chart  # noqa: PLC0414
from rm_emulator.version import has_compiled_core
from rm_emulator.workload.format_checks import check_refusals
from rm_emulator.workload.formats import FORMATS
from rm_emulator.workload.model import Drawn, Fixed, PerTask, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.checks import validate
from schedulers.core.compatible import Setup, assigns_ahead, clashes, stable_orders
from schedulers.core.decisions import Decision
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.events import Event, NodeAdded
from schedulers.core.log import Header, Ignored, Log, SchedulerConfig, parse
from schedulers.core.memory import dump
from schedulers.core.model import CopyRules, Edge, Job, Limit, Links, Node, PastJob, PerUser, Queue, Stage
from schedulers.core.old_names import old_classes
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState

#: Scenarios that each check runs unless told otherwise: every profile, with executors, with disorder.
SEEDS: Final = (0, 1, 2, 3)
#: Profiles of the scenarios, in turn: those of the tree, so that no plug-in changes which scenarios there are. The one
#: whose containers may outlive tasks comes twice.
_DRAWN: Final = ("yarn", "sls", "events", "events", "kubernetes")
_DISORDER: Final = Disorder(delay=0.2, delay_ms=2500, duplicate=0.2, late=0.2, late_ms=1500)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Subject of a check: a policy with its predictor, placer and so on, each as `{'kind': name, **settings}`."""

    policy: dict[str, Any]
    predictor: dict[str, Any] | None = None
    placement: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    reserve_after: int | None = None
    copies: CopyRules | None = None
    profile: dict[str, Any] | None = None
    """Profile of the scenarios; None: the profiles of the tree, in turn."""

    def __str__(self) -> str:
        reserves = self.reserve_after and {"kind": f"{self.reserve_after} ms"}
        copies = self.copies and {"kind": f"{self.copies.max} copies, others {self.copies.others}"}
        parts = (self.policy, self.predictor, self.placement, reserves, copies, self.profile)
        return "+".join(_short(part) for part in parts if part and part["kind"] != "first_fit")

    @property
    def told_truth(self) -> bool:
        """Whether the predictor hears true run times (the oracle)."""
        return self.predictor is not None and predictors.entry(self.predictor["kind"]).cls.told_truth


def _short(spec: Mapping[str, Any]) -> str:
    return ",".join([spec["kind"], *(f"{k}={v}" for k, v in spec.items() if k != "kind")])


#: Policies whose decisions no estimate changes: with an estimate they are tested as they are without. (Pilots, which
#: `slearn` lets go first, are another matter.)
BLIND: Final = frozenset(
    {"bfs", "capacity", "delay", "drf", "fair", "fair_yarn", "fifo", "hdrf", "las", "random", "requeue"}
)


def subjects() -> list[Subject]:
    """Every registered policy, predictor and placer in combinations with an effect on its decisions.

    Each policy alone, with the truth, with history, with pilots, with lines; each predictor and placer under `gs`.
    Policies blind to estimates are left out with the truth and with history.
    """
    choices: tuple[dict[str, Any] | None, ...] = (
        None,
        {"kind": "oracle"},
        {"kind": "three_sigma"},
        {"kind": "slearn", "fixed_percent": 30},
    )
    gs = {"kind": "gs", "first_threshold_ms": 2e4, "growth": 3.0}
    return [
        *(
            Subject(policy={"kind": p.name}, predictor=predictor)
            for p in policies
            for predictor in (choices if p.name not in BLIND else (None, choices[-1]))
        ),
        *(Subject(policy=gs, predictor={"kind": p.name}) for p in predictors),
        *(Subject(policy=gs, predictor=choices[-1], placement={"kind": p.name}) for p in placers if not p.cls.assigns),
        *(Subject(policy={"kind": p}, predictor=choices[1], placement={"kind": "deft"}) for p in stable_orders()),
    ]


# -- scenarios ------------------------------------------------------------------------------------


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A small random scenario."""

    name: str
    """The call that makes the scenario again."""
    config: EngineConfig
    workload: Workload
    seed: int


def case(
    seed: int, *, disorder: bool = False, profile: str | None = None, executors: bool | None = None, **settings: Any
) -> Case:
    """Scenario number `seed`: few different nodes, few jobs, some of them DAGs, run times of seconds.

    In every fourth scenario edges are of all kinds, else all edges are barriers. Everything is drawn from the number;
    `profile` and `executors` override what was drawn. settings: the profile's own.
    """
    rng = keyed.generator(seed, "contract")
    profile = profile or _DRAWN[seed % len(_DRAWN)]
    keeps = profiles.entry(profile).cls.has_executors and seed % 4 == 3
    has_executors = keeps if executors is None else executors
    resources = ("cpu", "memory", "gpu")[: int(rng.integers(2, 4))]
    # Executors of different sizes block each other's nodes by nature; the promise concerns equal sizes.
    demands = _demands(rng, len(resources), 1 if has_executors else int(rng.integers(1, 5)))
    # Short intervals and round run times make many things happen in the same millisecond.
    fine = rng.random() < 0.4
    nodes = _nodes(rng, demands)
    queues = _queues(keyed.generator(seed, "contract queues"), demands, nodes) if seed % 2 else ()
    config = EngineConfig(
        nodes=nodes,
        resources=resources,
        queues=queues,
        profile=profile,
        settings=settings,
        heartbeat_ms=int(rng.choice([10, 20, 50] if fine else [500, 1000, 1700])),
        am_heartbeat_ms=int(rng.choice([10, 20] if fine else [400, 1000])),
        startup=Fixed(0) if fine or rng.random() < 0.5 else Drawn(800.0, 0.5),
        containers_per_heartbeat=int(rng.integers(1, 3)) if rng.random() < 0.4 else None,
        executors=Executors(moving_ms=700) if has_executors else None,
        disorder=_DISORDER if disorder else None,
    )
    jobs = _jobs(rng, demands, int(rng.integers(3, 8)), 10 if fine else 1)
    if queues:
        jobs = _in_queues(keyed.generator(seed, "contract jobs' queues"), jobs, queues)
    if seed % 4 == 2:
        edges = keyed.generator(seed, "contract edges")
        jobs = tuple(_tied(edges, entry, shares=not has_executors) for entry in jobs)
    jobs = _with_deadlines(keyed.generator(seed, "contract deadlines"), jobs)
    workload = Workload(name=f"case {seed}", jobs=jobs, history=_history(rng), resources=resources)
    own = "".join(f", {name}={value!r}" for name, value in settings.items())
    name = f"case({seed}, disorder={disorder}, profile={profile!r}, executors={has_executors}{own})"
    return Case(name=name, config=config, workload=workload, seed=seed)


def _demands(rng: np.random.Generator, resources: int, sizes: int) -> list[Vector]:
    cpu = rng.choice([500, 1000, 1500, 2000], sizes)
    memory = rng.choice([256, 512, 1024, 3000], sizes)
    gpu = rng.choice([0, 0, 500, 1000], sizes)
    return [(int(c), int(m), int(g))[:resources] for c, m, g in zip(cpu, memory, gpu, strict=True)]


def _queues(rng: np.random.Generator, demands: list[Vector], nodes: tuple[Node, ...]) -> tuple[Queue, ...]:
    """A tree of queues, some with limits; every task fits into every queue."""
    largest = tuple(max(d[r] for d in demands) for r in range(len(demands[0])))

    def limit() -> Limit:
        kind = int(rng.integers(0, 4))
        if kind > 1:
            return None
        factor = int(rng.integers(1, 4))
        wide = tuple(factor * part if rng.random() < 0.7 else -1 for part in largest)
        share = max(part / max(1, sum(n.capacity[r] for n in nodes)) for r, part in enumerate(largest))
        return wide if kind else min(1.0, 1e-6 + share * float(rng.uniform(1, 3)))

    def count() -> int | None:
        return int(rng.integers(1, 4)) if rng.random() < 0.3 else None

    def queue(name: str, parent: str = "") -> Queue:
        per_user = PerUser(limit=limit(), max_running=count()) if rng.random() < 0.3 else None
        weight = float(rng.choice([1.0, 2.0, 3.0]))
        return Queue(name=name, parent=parent, weight=weight, max=limit(), per_user=per_user, max_running=count())

    return (queue("a"), queue("a.x", "a"), queue("a.y", "a"), queue("b"))


def _in_queues(
    rng: np.random.Generator, jobs: tuple[WorkloadJob, ...], queues: tuple[Queue, ...]
) -> tuple[WorkloadJob, ...]:
    replace = msgspec.structs.replace
    leaves = [queue.name for queue in queues[1:]]
    return tuple(replace(entry, job=replace(entry.job, queue=str(rng.choice(leaves)))) for entry in jobs)


def _with_deadlines(rng: np.random.Generator, jobs: tuple[WorkloadJob, ...]) -> tuple[WorkloadJob, ...]:
    """Half of the jobs should be done some seconds after they come."""
    made = []
    for entry in jobs:
        after, has_one = int(rng.integers(1, 60_000)), rng.random() < 0.5
        spec = msgspec.structs.replace(entry.job, deadline=entry.submit_ms + after) if has_one else entry.job
        made.append(msgspec.structs.replace(entry, job=spec))
    return tuple(made)


def _nodes(rng: np.random.Generator, demands: list[Vector]) -> tuple[Node, ...]:
    largest = [max(d[r] for d in demands) for r in range(len(demands[0]))]
    nodes = []
    for index in range(int(rng.integers(2, 6))):
        factor = 1 if index == 0 else rng.uniform(0.4, 2.5)
        capacity = tuple(int(amount * factor * (1 if index == 0 else rng.uniform(1, 2))) for amount in largest)
        nodes.append(Node(id=f"n{index}", capacity=capacity, speed=float(rng.choice([1.0, 1.0, 0.5, 2.0]))))
    return tuple(nodes)


def _jobs(rng: np.random.Generator, demands: list[Vector], count: int, shrink: int) -> tuple[WorkloadJob, ...]:
    at = 0
    jobs = []
    for number in range(count):
        at += int(rng.choice([0, 500, 1000, int(rng.integers(1, 9000))])) // shrink
        stages: list[Stage] = []
        runtimes = []
        for index in range(int(rng.choice([1, 1, 2, 3, 4]))):
            tasks = int(rng.choice([1, 2, 3, 6, 10]))
            parents = tuple(p for p in range(index) if rng.random() < 0.6)
            demand = demands[int(rng.integers(len(demands)))]
            stages.append(Stage(name=f"s{index}", tasks=tasks, demand=demand, parents=parents))
            drawn = draw(Drawn(float(rng.choice([900.0, 3000.0, 9000.0])) / shrink, 0.5), rng, tasks)
            step = 1000 if rng.random() < 0.3 else 1
            step = 10 if shrink > 1 else step
            runtimes.append(PerTask(tuple(step * -(-ms // step) for ms in drawn)))
        name = f"name{number % 3}"
        job = Job(
            id=f"j{(7 * number) % 10}{number}",
            stages=tuple(stages),
            name=name,
            user=f"u{number % 2}",
            app=name,
            weight=float(rng.choice([1.0, 1.0, 2.0])),
        )
        jobs.append(WorkloadJob(job=job, submit_ms=at, runtimes=tuple(runtimes)))
    return tuple(sorted(jobs, key=lambda entry: (entry.submit_ms, entry.job.id)))


def _tied(rng: np.random.Generator, entry: WorkloadJob, *, shares: bool) -> WorkloadJob:
    """The job with edges of all kinds, one to one where parent and child have as many tasks. shares: whether any."""
    stages, replace = entry.job.stages, msgspec.structs.replace

    def edge(child: Stage, parent: int) -> int | Edge:
        one_to_one, share = stages[parent].tasks == child.tasks, float(rng.choice([0.05, 0.5, 0.9]))
        if rng.random() < 0.3 or not (one_to_one or shares):
            return parent
        return Edge(parent=parent, kind="one_to_one") if one_to_one else Edge(parent=parent, kind="share", share=share)

    tied = tuple(replace(stage, parents=tuple(edge(stage, parent) for parent in stage.above)) for stage in stages)
    return replace(entry, job=replace(entry.job, stages=tied))


def _history(rng: np.random.Generator) -> tuple[PastJob, ...]:
    past = []
    for number in range(12):
        ended = -1000 * (12 - number)
        stages = ((int(rng.integers(1, 10)), float(rng.uniform(500, 9000))), (2, 1500.0))
        name = f"name{number % 3}"
        past.append(PastJob(name=name, app=name, user="u0", submitted=ended - 9000, finished=ended, stages=stages))
    return tuple(past)


# -- small parts for unit tests -------------------------------------------------------------------


def stage(tasks: int = 1, demand: Vector = (1000, 1024), parents: tuple[int, ...] = (), name: str = "s") -> Stage:
    """A stage, by default a single task with a demand of a core and a GiB."""
    return Stage(name=name, tasks=tasks, demand=demand, parents=parents)


def job(id_: str, *stages: Stage, **fields: Any) -> Job:
    """A job; by default with a single stage of a single task."""
    return Job(id=id_, stages=stages or (stage(),), **fields)


def node(id_: str = "n", cores: int = 1, **fields: Any) -> Node:
    """A node with so many cores and a GiB of memory for each."""
    return Node(id=id_, capacity=(1000 * cores, 1024 * cores), **fields)


def scheduler(policy: str | Mapping[str, Any], *nodes: Node, log: Log | None = None, **config: Any) -> Scheduler:
    """A scheduler of cpu and memory with the given nodes; config: fields of SchedulerConfig (offers: 'event')."""
    spec = {"kind": policy} if isinstance(policy, str) else dict(policy)
    settings = {"resources": ("cpu", "memory"), "policy": spec, "offers": "event", **config}
    made = Scheduler(SchedulerConfig(**settings), log=log)
    for each in nodes:
        made.handle(NodeAdded(0, each))
    return made


# -- a run under audit ----------------------------------------------------------------------------


class Ran(NamedTuple):
    """A finished run: its simulation, its audit, its records, and its log as lines."""

    simulation: Simulation
    audit: Audit
    kept: MemoryRecording
    log: Log
    lines: list[bytes]


def scheduler_config(subject: Subject, config: EngineConfig, seed: int) -> SchedulerConfig:
    """The configuration of a scheduler for a subject on a cluster."""
    return SchedulerConfig(
        resources=config.resources,
        policy=subject.policy,
        predictor=subject.predictor,
        placement=subject.placement,
        offers=timing(config).offers,
        executors=config.executors is not None,
        containers_per_offer=config.containers_per_heartbeat,
        seed=seed,
        reserve_after=subject.reserve_after,
        copies=subject.copies,
    )


def run_case(subject: Subject, made: Case, *, guarded: bool = False) -> Ran:
    """Run a scenario to its end under audit. Raises AssertionError with the scenario's name.

    guarded: forbidden changes of the state are such errors too; slower.
    """
    chunks: list[bytes] = []
    log = Log(chunks.append)
    audit = Audit(Scheduler(scheduler_config(subject, made.config, made.seed), log=log))
    if guarded and not has_compiled_core():
        audit.state.__class__ = _guarded(f"{subject}, {made.name}")
    try:
        simulation, kept = run_in_memory(made.config, made.workload, audit, seed=made.seed, oracle=subject.told_truth)
    except AssertionError as error:
        raise AssertionError(f"{subject}, {made.name}: {error}") from error
    log.flush()
    return Ran(simulation, audit, kept, log, b"".join(chunks).splitlines())


def case_for(subject: Subject, seed: int, *, disorder: bool = False) -> Case:
    """As `case`, without executors where policy or placer serve none, or nodes are reserved, or tasks are copied.

    Where tasks are copied, stages hand on data over slow links.
    """
    cls, params = policies.parse(subject.policy)
    kind, placement = subject.policy["kind"], subject.placement["kind"]
    copies, reserves = subject.copies is not None, subject.reserve_after is not None
    setup = Setup(
        policy=cls(params), kind=kind, placement=placement, executors=True, copies=copies, reserve_after=reserves
    )
    own = {"profile" if name == "kind" else name: value for name, value in (subject.profile or {}).items()}
    drawn = case(seed, disorder=disorder, executors=False if clashes(setup) else None, **own)
    return with_data(drawn) if subject.copies else drawn


def with_data(made: Case) -> Case:
    """The same scenario with data on edges of stages behind barriers, up to 10 MB, and an equal rate of all links."""
    rng, replace = keyed.generator(made.seed, "contract data"), msgspec.structs.replace

    def fed(stage: Stage) -> Stage:
        if stage.ties:
            return stage  # which takes no data
        return replace(stage, parents=tuple(Edge(parent=p, data=int(rng.integers(0, 10**7))) for p in stage.above))

    jobs = tuple(
        replace(entry, job=replace(entry.job, stages=tuple(map(fed, entry.job.stages)))) for entry in made.workload.jobs
    )
    config = replace(made.config, links=Links(rate=int(rng.choice([10**3, 10**5, 10**6]))))
    return replace(made, name=f"with_data({made.name})", config=config, workload=replace(made.workload, jobs=jobs))


def _cases(subject: Subject, seeds: tuple[int, ...]) -> Iterator[Case]:
    return (case_for(subject, seed, disorder=disorder) for seed in seeds for disorder in (False, True))


def _known(subject: Subject, made: Case, *, guarded: bool = False) -> Ran:
    """Like `run_case`, with recent runs kept: several checks of a subject look at the same run."""
    key = f"{subject} {made.name} {guarded}"
    if key not in _LATEST:
        if len(_LATEST) >= _REMEMBERED:
            del _LATEST[next(iter(_LATEST))]
        _LATEST[key] = run_case(subject, made, guarded=guarded)
    return _LATEST[key]


_LATEST: Final[dict[str, Ran]] = {}
_REMEMBERED: Final = 32


# -- the promises of policies, predictors and placers ---------------------------------------------


def check_safe(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """No over-commit, no task before its parents, each task succeeds once, every hold has a reason, all jobs end."""
    for made in _cases(subject, seeds):
        ran = _known(subject, made)
        validate(ran.audit.state)
        try:
            ran.audit.drained()
            _recorded_once(ran, made, subject.copies.max if subject.copies else 1)
        except AssertionError as error:
            raise AssertionError(f"{subject}, {made.name}: {error}") from error


def _recorded_once(ran: Ran, made: Case, most: int) -> None:
    """Each task has succeeded, at most so often."""
    succeeded = Counter((t.job, t.stage, t.task) for t in ran.kept.tasks if t.code == 0)
    assert max(succeeded.values(), default=1) <= most, f"a task was executed more than {most} times"
    assert len(succeeded) == made.workload.tasks, f"{len(succeeded)} of {made.workload.tasks} tasks were executed"
    assert len(ran.kept.jobs) == len(made.workload.jobs), "a job was not reported, or twice"


def check_repeatable(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """The same seed gives the same log, byte for byte."""
    for made in _cases(subject, seeds):
        first, second = _known(subject, made), _known(subject, made, guarded=True)
        assert first.lines == second.lines, f"{subject}, {made.name}: two runs differ{_parting(first, second)}"


def check_skipping(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """Leaving out heartbeats without effect changes nothing."""
    for seed in seeds:
        made = case_for(subject, seed) if subject.profile else case(seed, profile=("yarn", "sls")[seed % 2])
        made = with_data(made) if subject.copies else made
        naive = msgspec.structs.replace(made, config=msgspec.structs.replace(made.config, skip=False))
        first, second = run_case(subject, made), run_case(subject, naive)
        differ = f"{subject}, {made.name}: naive and skipping differ"
        assert first.log.sha256 == second.log.sha256, f"{differ}{_parting(first, second)}"


def check_no_peeking(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """True run times of tasks yet to start change no decision before the first end of such a task."""
    if subject.told_truth:
        return
    for made in _cases(subject, seeds):
        first = _known(subject, made)
        starts = sorted(t.started_ms for t in first.kept.tasks if t.started_ms is not None)
        cut = starts[len(starts) // 3]
        late = {(t.job, t.stage, t.task) for t in first.kept.tasks if t.started_ms is not None and t.started_ms > cut}
        second = run_case(subject, _with_other_run_times(made, late))
        ends = [t.ended_ms for ran in (first, second) for t in ran.kept.tasks if (t.job, t.stage, t.task) in late]
        until = min(ends, default=0)
        before = [[entry for entry in ran.audit.history if entry[0].at < until] for ran in (first, second)]
        assert before[0] == before[1], f"{subject}, {made.name}: decisions before {until} ms depend on the future"


def _with_other_run_times(made: Case, tasks: set[tuple[str, int, int]]) -> Case:
    jobs = []
    for entry in made.workload.jobs:
        runtimes = []
        for stage, known in enumerate(entry.runtimes):
            assert isinstance(known, PerTask)
            other = [
                (ms // 3 + 1 if task % 2 else 3 * ms + 1) if (entry.job.id, stage, task) in tasks else ms
                for task, ms in enumerate(known.ms)
            ]
            runtimes.append(PerTask(tuple(other)))
        jobs.append(msgspec.structs.replace(entry, runtimes=tuple(runtimes)))
    return msgspec.structs.replace(made, workload=msgspec.structs.replace(made.workload, jobs=tuple(jobs)))


def check_snapshot(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """A scheduler restored from a snapshot decides as the original scheduler."""
    for made in _cases(subject, seeds):
        facts = [event for event, _ in _known(subject, made).audit.history]
        parts = (part + 0.15 * keyed.uniform(made.seed, "snapshot", str(part)) for part in (0.2, 0.5, 0.8))
        moments = {int(len(facts) * part) for part in parts}
        original = Scheduler(scheduler_config(subject, made.config, made.seed))
        restored: dict[int, Scheduler] = {}
        for number, event in enumerate(facts):
            if number in moments:
                restored[number] = Scheduler.restore(original.snapshot())
                validate(restored[number].state)
            expected = original.handle(event)
            for at, scheduler in restored.items():
                decided = scheduler.handle(event)
                where = f"{subject}, {made.name}: after a snapshot before fact {at}, at fact {number} ({event})"
                assert decided == expected, f"{where}: {decided}, not {expected}"


def check_hands_off(subject: Subject, seeds: tuple[int, ...] = SEEDS[:2]) -> None:
    """Only facts and decisions change the state: no policy, predictor, placer or engine does; skipped if compiled."""
    if has_compiled_core():
        raise SkipTest("a compiled core cannot be watched: unset RM_EMULATOR_COMPILED and install anew")
    for made in _cases(subject, seeds):
        _known(subject, made, guarded=True)


def _guarded(where: str) -> type[ClusterState]:
    """A state that notices changes between two facts or decisions."""
    left: list[bytes] = []

    def figures(state: ClusterState) -> bytes:
        known = {name: data for name, data in dump(state).items() if name not in ("touched", "doubted")}
        sums = state.capacity, state.used, state.foreign, state.sizes.waiting
        return msgspec.msgpack.encode((known, sums, list(state.tree.accounts())))

    def guarded(name: str) -> Callable[[ClusterState, Any], Any]:
        own = getattr(ClusterState, name)

        def step(state: ClusterState, told: Event | Decision) -> Any:
            assert not left or figures(state) == left[0], f"{where}: before {told} somebody changed the state"
            answer = own(state, told)
            left[:] = [figures(state)]
            return answer

        return step

    steps = {name: guarded(name) for name in ("hear", "apply", "go_on")}
    return type("Guarded", (ClusterState,), {"__slots__": (), **steps})


def check_replay(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """Replaying a log writes the same log."""
    for made in _cases(subject, seeds):
        lines = _known(subject, made).lines
        replayed = replay(lines)
        where = next((n for n, (a, b) in enumerate(zip(lines, replayed, strict=False), 1) if a != b), None)
        assert replayed == lines, f"{subject}, {made.name}: the replayed log differs at line {where}"


def replay(lines: list[bytes]) -> list[bytes]:
    """The log of a fresh scheduler after hearing the facts of a log, both as lines."""
    header = next(parsed := parse(lines))
    assert isinstance(header, Header), "a log begins with its header"
    chunks: list[bytes] = []
    log = Log(chunks.append)
    scheduler = Scheduler(header.config, log=log)
    for line in parsed:
        fact = line.event if isinstance(line, Ignored) else line
        if isinstance(fact, Event):
            scheduler.handle(fact)
    log.flush()
    return b"".join(chunks).splitlines()


def check_memory(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """Dumps of policy and predictor are plain data, and a loaded dump gives the same dump again."""
    for made in _cases(subject, seeds):
        facts = [event for event, _ in _known(subject, made).audit.history]
        scheduler = Scheduler(scheduler_config(subject, made.config, made.seed))
        for event in facts[: len(facts) // 2]:
            scheduler.handle(event)
        restored = Scheduler.restore(scheduler.snapshot())
        for what in ("policy", "predictor"):
            before, after = getattr(scheduler, what), getattr(restored, what)
            first, second = (_plain(each.dump()) if each is not None else None for each in (before, after))
            assert first == second, f"{subject}, {made.name}: the {what}'s memory changed: {first} became {second}"


def check_forgets(subject: Subject, seeds: tuple[int, ...] = SEEDS) -> None:
    """When all jobs are over, the predictor keeps no estimate of any job."""
    for made in _cases(subject, seeds):
        ran = _known(subject, made)
        predictor = ran.audit.scheduler.predictor
        last = max(event.at for event, _ in ran.audit.history)
        for name in [entry.job.id for entry in made.workload.jobs] if predictor is not None else ():
            assert predictor is not None
            said = predictor.estimate(name, 0)
            assert said is None, f"{subject}, {made.name}: job {name} is over at {last}, and still estimated: {said}"


def _plain(data: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(data))


def _parting(first: Ran, second: Ran) -> str:
    for number, (a, b) in enumerate(itertools.zip_longest(first.lines, second.lines), start=1):
        if a != b:
            return f"; line {number}: {a!r} against {b!r}"
    return ""


PolicyCheck = Callable[[Subject], None]
#: What holds for every policy with every predictor and every placer.
POLICY_CHECKS: Final[tuple[PolicyCheck, ...]] = (
    check_safe,
    check_repeatable,
    check_skipping,
    check_no_peeking,
    check_snapshot,
    check_hands_off,
    check_replay,
    check_memory,
    check_forgets,
)


def _check_all(subject: Subject) -> None:
    for check in POLICY_CHECKS:
        check(subject)


def check_policy(name: str, **settings: Any) -> None:
    """All promises, for a policy by name: alone, with the truth, with history and with pilots."""
    for predictor in (None, "oracle", "three_sigma", "slearn"):
        _check_all(Subject(policy={"kind": name, **settings}, predictor={"kind": predictor} if predictor else None))
    check_registered(policies, name)


def check_predictor(name: str, **settings: Any) -> None:
    """All promises, for a predictor by name, under `gs`."""
    _check_all(Subject(policy={"kind": "gs"}, predictor={"kind": name, **settings}))
    check_registered(predictors, name)


def check_placer(name: str, **settings: Any) -> None:
    """All promises, for a placer by name, under `fair`, or under `fifo` for a placer with lines."""
    placement = {"kind": name, **settings}
    _check_all(Subject(policy={"kind": "fifo" if assigns_ahead(placement) else "fair"}, placement=placement))
    check_registered(placers, name)


def check_profile(name: str, seeds: tuple[int, ...] = SEEDS, **settings: Any) -> None:
    """Safe, repeatable, skipping and replay, for a profile by name: under `fair`, and under `gs` with pilots."""
    for policy, predictor in (("fair", None), ("gs", {"kind": "slearn", "fixed_percent": 30})):
        subject = Subject(policy={"kind": policy}, predictor=predictor, profile={"kind": name, **settings})
        for check in (check_safe, check_repeatable, check_skipping, check_replay):
            check(subject, seeds)
    check_registered(profiles, name)


# -- the promises of registrations ----------------------------------------------------------------


def check_registered(registry: Registry[Any], name: str) -> None:
    """A name comes with a summary, its source, and settings with defaults, descriptions and a check."""
    entry = registry.entry(name)
    said = (entry.cls.__doc__ or "").strip().partition("\n")[0]
    assert said.endswith("."), f"{name}: the first docstring line of {entry.cls.__name__} is a sentence, not {said!r}"
    assert entry.source, f"{name}: where does it come from?"
    for setting in entry.parameters():
        assert setting.description, f"{name}: the setting {setting.name} has no description"
    assert msgspec.json.encode(entry.describe()), f"{name}: what the listings say is not plain data"
    entry.params()  # every setting has a default, so this needs no argument
    _refuses(registry, {"kind": name, "no_such_setting": 1}, InvalidParameters, "no_such_setting")
    _refuses(registry, {"kind": f"{name}_"}, UnknownName, f"did you mean '{name}'")


def _refuses(registry: Registry[Any], spec: dict[str, Any], error: type[Exception], words: str) -> None:
    said = ""
    try:
        registry.parse(spec)
    except error as raised:
        said = str(raised)
    assert words in said, f"{spec}: expected {error.__name__} with {words!r}, not {said!r}"


# -- the promises of trace formats ----------------------------------------------------------------


def check_format(name: str) -> None:
    """A trace format is documented, and refuses unreadable files with TraceError and a message."""
    check_registered(FORMATS, name)
    entry = FORMATS.entry(name)
    columns = [column.name for column in getattr(entry.cls, "columns", ())]
    assert len(set(columns)) == len(columns), f"{name}: a column is listed twice"
    assert all(column.meaning for column in getattr(entry.cls, "columns", ())), f"{name}: a column without a meaning"
    check_refusals(name, entry.cls)


__getattr__ = old_classes(__name__, {"Kept": "MemoryRecording"})
