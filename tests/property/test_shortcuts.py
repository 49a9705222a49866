"""What was made fast in core, YARN policies, `hdrf` and `gs`, against the slow and obvious way to the same answer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Disorder, EngineConfig, Executors
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from rm_emulator.workload.synthetic import generate
from schedulers.core import sizes as sizes_of_tasks
from schedulers.core.events import ContainerEnded, JobSubmitted, NodeAdded, QueueChanged, Tick
from schedulers.core.holds import Holds
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.policy import Offer
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.core.sizes import Fitting, Sizes
from schedulers.core.state import ClusterState, JobState, StageState
from schedulers.kit import ordered
from schedulers.placers.first_fit import FirstFit
from schedulers.policies.gs import GenericScheduler
from schedulers.policies.hdrf import HierarchicalDrf, _Values
from schedulers.yarn.capacity import CapacityConfig, CapacityScheduler
from schedulers.yarn.fair import FairScheduler
from schedulers.yarn.limits import is_within_user_limit, user_limit
from schedulers.yarn.locality import LocalityDelay, is_asked, missed_before
from schedulers.yarn.queues import LeafQueue, Parent, QueueConfig, in_order, kids_in_order, utilization
from schedulers.yarn.records import ANY, Ask, Level
from schedulers.yarn.records import SchedulerNode as YarnNode
from schedulers.yarn.shares import Claim, Contender, compute_fair_shares, fair_key
from schedulers.yarn.vectors import DOMINANT, Vector, by_shares, divide_ceil, minus, plus, round_up, single, times

#: Few values, so that ties are met; headrooms may be negative.
AMOUNTS = st.tuples(st.integers(-4, 12), st.integers(-4, 12))
CLUSTERS = st.tuples(st.integers(1, 12), st.integers(1, 12))
HUGE = 2**63 - 1


# -- vectors ------------------------------------------------------------------------------------


@given(CLUSTERS, AMOUNTS, AMOUNTS, st.booleans())
def test_two_resources_compare_as_any_number_does(cluster: Vector, a: Vector, b: Vector, largest_only: bool) -> None:
    expected = by_shares(cluster, a, b, largest_only=largest_only)
    assert DOMINANT.compare(cluster, a, b, largest_only=largest_only) == expected


@given(CLUSTERS, AMOUNTS, AMOUNTS)
def test_two_resources_add_up_and_fit_as_any_number_does(cluster: Vector, a: Vector, b: Vector) -> None:
    """A third that is 0 everywhere takes the way of any number, and changes nothing."""
    more = (*cluster, 0), (*a, 0), (*b, 0)
    for calculate in (plus, minus):
        assert (*calculate(a, b), 0) == calculate(more[1], more[2])
    assert DOMINANT.fits(a, b) == DOMINANT.fits(more[1], more[2])
    assert DOMINANT.ratio(a, cluster) == DOMINANT.ratio(more[1], more[0])
    assert DOMINANT.divide(cluster, a, b) == DOMINANT.divide(*more)


@given(st.integers(1, 50), st.integers(0, 60), st.integers(-1, 60))
def test_an_ask_that_names_no_place_waits_for_none(nodes: int, delay: int, more: int) -> None:
    ask = Ask(20, (1, 1), {ANY: 7})
    node = YarnNode("n1", "rack", (8, 8), (8, 8))
    assert [level for level in Level if is_asked(level, ask, node)] == [Level.OFF_SWITCH]
    assert missed_before(Level.OFF_SWITCH, ask, nodes, LocalityDelay(node=delay, rack_additional=more)) < 0


# -- fair shares --------------------------------------------------------------------------------

CLAIMS = st.builds(
    Claim,
    minimum=st.sampled_from((0, 0, 3, 50)),
    maximum=st.sampled_from((None, None, 0, 20, 400)),
    weight=st.sampled_from((0.0, 1.0, 1.0, 2.5)),
    active=st.booleans(),
)


def one_by_one(claims: Sequence[Claim], total: int) -> list[int]:
    """ComputeFairShares.computeSharesInternal as Hadoop writes it: every claim looked at in every step."""
    fixed = [claim.fixed() for claim in claims]
    free = [claim for claim, share in zip(claims, fixed, strict=True) if share is None]

    def used(ratio: float) -> int:
        return min(sum(claim.at(ratio) for claim in free), HUGE)

    limit = min(sum(HUGE if claim.maximum is None else claim.maximum for claim in free), HUGE)
    there = min(max(total - min(sum(share or 0 for share in fixed), HUGE), 0), limit)
    left, right = 0.0, 1.0
    while used(right) < there:
        right *= 2
    for _ in range(25):
        middle = (left + right) / 2
        if used(middle) == there:
            right = middle
            break
        left, right = (middle, right) if used(middle) < there else (left, middle)
    return [claim.at(right) if share is None else share for claim, share in zip(claims, fixed, strict=True)]


@given(st.lists(CLAIMS, max_size=12), st.integers(0, 5000))
def test_equal_claims_counted_together_get_what_each_would(claims: list[Claim], total: int) -> None:
    assert compute_fair_shares(claims, total) == one_by_one(claims, total)


CONTENDERS = st.builds(
    Contender,
    name=st.sampled_from("abcdef"),
    used=AMOUNTS.map(lambda v: (abs(v[0]), abs(v[1]))),
    demand=st.sampled_from(((0, 0), (2, 1), (9, 9))),
    minimum=st.sampled_from(((0, 0), (3, 3), (8, 1))),
    weight=st.sampled_from((0.0, 1.0, 2.5)),
    started=st.integers(0, 2),
)


def as_hadoop_compares(a: Contender, b: Contender) -> int:
    """FairShareComparator: demand, need of the minimum share, use by weight (all memory), then start and name."""
    if any(a.demand) != any(b.demand):
        return -1 if any(a.demand) else 1
    least = (min(a.minimum[0], a.demand[0]), min(b.minimum[0], b.demand[0]))
    needy = (a.used[0] < least[0], b.used[0] < least[1])
    if needy[0] != needy[1]:
        return -1 if needy[0] else 1
    by_need = (a.used[0] / max(least[0], 1), b.used[0] / max(least[1], 1))
    return sign(*(by_need if needy[0] else _by_weight(a, b))) or sign((a.started, a.name), (b.started, b.name))


def _by_weight(a: Contender, b: Contender) -> tuple[float, float]:
    """FairShareComparator.compareFairShareUsage: a weight of 0 comes after every other."""
    if a.weight > 0 and b.weight > 0:
        return a.used[0] / a.weight, b.used[0] / b.weight
    if a.weight == b.weight:
        return a.used[0], b.used[0]
    return -a.weight, -b.weight


def sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


@given(st.lists(CONTENDERS, max_size=8, unique_by=lambda c: c.name))
def test_the_key_of_the_fair_order_is_its_comparator(contenders: list[Contender]) -> None:
    by_comparator = sorted(contenders, key=functools.cmp_to_key(as_hadoop_compares))
    assert sorted(contenders, key=fair_key) == by_comparator


# -- nodes --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_nodes_added_at_once_are_nodes_added_one_by_one(sizes: list[Vector]) -> None:
    for make in (lambda: CapacityScheduler(CapacityConfig(minimum=(1, 1))), FairScheduler):
        one, other = make(), make()
        nodes = [(f"n{i}", size, f"r{i % 2}") for i, size in enumerate(sizes)]
        one.add_nodes(nodes)
        for node in nodes:
            other.add_node(*node)
        for scheduler in (one, other):
            scheduler.add_app("a", "default", am=(2, 1))
        assert [limits(one), one.racks, one.total] == [limits(other), other.racks, other.total]


def limits(scheduler: CapacityScheduler | FairScheduler) -> list[object]:
    if isinstance(scheduler, FairScheduler):
        return [scheduler.root.share, *(leaf.share for leaf in scheduler.root.leaves())]
    found: list[object] = [scheduler.apps["a"].active]
    for leaf in scheduler.root.leaves():
        found += [leaf.capacity, leaf.most, leaf.limit, leaf.am_basis]
    return found


# -- queues of the CapacityScheduler ------------------------------------------------------------

LEAVES = ("root.p.a", "root.p.b", "root.c")
QUEUES = st.builds(
    lambda user_limit, factor, order: QueueConfig(
        name="root",
        child_order=order,
        kids=(
            QueueConfig(
                name="p",
                capacity=0.6,
                kids=(
                    QueueConfig(name="a", capacity=0.1, user_limit=user_limit, user_limit_factor=factor),
                    QueueConfig(name="b", capacity=0.9, ordering="fair"),
                ),
            ),
            QueueConfig(name="c", capacity=0.4, maximum=0.5, user_limit=25.0, user_limit_factor=2.0),
        ),
    ),
    st.sampled_from((100.0, 50.0, 7.0)),
    st.sampled_from((1.0, 0.5, 3.0, -1.0)),
    st.sampled_from(("utilization", "priority-utilization")),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 5), st.integers(0, 6), st.integers(0, 2)),
        st.tuples(st.sampled_from(("end", "remove", "grow")), st.integers(0, 99)),
        st.tuples(st.just("beat"), st.integers(1, 6)),
    ),
    max_size=40,
)


@given(QUEUES, STEPS, st.sampled_from(("memory", "dominant")), st.sampled_from(((0, 0), (2, 1))))
@settings(max_examples=80, deadline=None)
def test_limits_of_users_and_orders_of_queues_that_are_kept_are_what_they_would_be_anew(
    queues: QueueConfig, steps: list[tuple[Any, ...]], calculator: str, minimum: Vector
) -> None:
    config = CapacityConfig(root=queues, calculator=calculator, minimum=minimum, maximum=(9, 9), am_share=1.0)
    scheduler = CapacityScheduler(config)
    for node in ("n0", "n1"):
        scheduler.add_node(node, (12, 10))
    for step in steps:
        take(scheduler, *step)
        for leaf in scheduler.root.leaves():
            if leaf.users:
                anew = user_limit_anew(leaf, scheduler)
                ways = scheduler.minimum, scheduler.total, scheduler.rc
                for user in leaf.users.values():
                    within = scheduler.rc.compare(scheduler.total, user.used, anew) <= 0
                    assert is_within_user_limit(leaf, user.used, *ways) == within
                assert user_limit(leaf, *ways) == anew
        for parent in (scheduler.root, scheduler.root.kids[0]):
            kept = kids_in_order(parent, scheduler.total, scheduler.minimum, scheduler.rc)
            assert [kid.path for kid in kept] == order_anew(parent, scheduler)


def take(scheduler: CapacityScheduler, what: str, number: int, count: int = 0, size: int = 0) -> None:
    """One step: somebody asks, a container ends, an application goes, a node comes, nodes beat so many times."""
    if what == "ask":
        app = f"a{number}"
        if app not in scheduler.apps:
            scheduler.add_app(app, LEAVES[number % 3], f"u{number % 2}")
        scheduler.ask(app, 20, ((2, 1), (3, 3), (1, 4))[size], {ANY: count})
    elif what == "end" and scheduler.containers:
        scheduler.container_ended(list(scheduler.containers)[number % len(scheduler.containers)])
    elif what == "remove" and scheduler.apps:
        scheduler.remove_app(list(scheduler.apps)[number % len(scheduler.apps)])
    elif what == "grow" and number > 80:
        scheduler.add_node(f"n{len(scheduler.nodes)}", (7, 5))
    elif what == "beat":
        for beat in range(number):
            scheduler.beat(f"n{beat % 2}")


def user_limit_anew(leaf: LeafQueue, scheduler: CapacityScheduler) -> Vector:
    """UsersManager.computeUserLimit line by line, of nothing but what the users hold."""
    rc, total, minimum, config = scheduler.rc, scheduler.total, scheduler.minimum, leaf.config
    capacity = rc.larger(total, leaf.capacity, minimum)
    ratio = single(sum(rc.ratio(user.used, total) for user in leaf.users.values()))
    consumed = rc.times_up(total, ratio, minimum)
    current = capacity if rc.compare(total, consumed, capacity) < 0 else plus(consumed, minimum)
    asking = [user.used for user in leaf.users.values() if user.asking]
    equal = divide_ceil(functools.reduce(plus, asking, minimum), float(len(asking)))
    limit = rc.larger(total, equal, divide_ceil(times(current, single(config.user_limit)), 100.0))
    most = times(capacity, single(config.user_limit_factor))
    if config.user_limit_factor == -1:
        most = leaf.most_down
    return round_up(rc.smaller(total, limit, most), minimum)


def order_anew(parent: Parent, scheduler: CapacityScheduler) -> list[str]:
    """Every child's utilization worked out, and all sorted."""
    found = [utilization(kid, scheduler.total, scheduler.minimum, scheduler.rc) for kid in parent.kids]
    respect = parent.config.child_order == "priority-utilization"
    return [each.name for each in in_order(found, respect_priority=respect)]


# -- beats --------------------------------------------------------------------------------------

WORK = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4000)), min_size=1, max_size=6
)


@given(WORK, st.sampled_from(("capacity", "fair_yarn")), st.booleans())
@settings(max_examples=40, deadline=None)
def test_idle_beats_that_yarns_books_do_not_hear_of_would_have_changed_nothing(
    work: list[tuple[int, int, int, int]], kind: str, masters: bool
) -> None:
    """Jobs that come in bursts and leave pauses, on nodes whose beats nearly all bring nothing."""
    assert log_of(work, {"kind": kind}, masters) == log_of(work, {"kind": kind}, masters, hears_all=True)


def log_of(
    work: list[tuple[int, int, int, int]], policy: dict[str, str], masters: bool, *, hears_all: bool = False
) -> list[bytes]:
    written: list[bytes] = []
    log = Log(written.append)
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy=policy), log=log)
    if hears_all:
        scheduler.policy._is_idle = lambda view: False  # type: ignore[attr-defined]
    jobs = []
    for number, (second, tasks, cpu, mean) in enumerate(sorted(work)):
        job = Job(id=f"j{number}", stages=(Stage(name="s", tasks=tasks, demand=(cpu, 1)),), user=f"u{number % 2}")
        am = (1, 1) if masters else ()
        jobs.append(WorkloadJob(job=job, submit_ms=700 * second, runtimes=(Drawn(mean, 0.5),), am=am))
    nodes = tuple(Node(id=f"n{i}", capacity=(4, 8)) for i in range(3))
    workload = Workload(name="work", jobs=tuple(jobs), source="drawn")
    Simulation(EngineConfig(nodes=nodes, profile="yarn"), workload, scheduler, seed=1).run()
    log.flush()
    return written


# -- reasons ------------------------------------------------------------------------------------


@given(WORK, st.booleans())
@settings(max_examples=30, deadline=None)
def test_reasons_said_before_those_of_room_are_those_of_asking_for_both(
    work: list[tuple[int, int, int, int]], limited: bool
) -> None:
    """Jobs of up to 20 tasks, held back for pilots or without room, in a queue with or without a limit."""

    def slow(holds: Holds, job: JobState, stages: list[StageState]) -> Reason | None:
        of_room = cluster(holds, job, stages) or holds._reason_of_room(job, stages)
        said = holds._policy_reason(job)
        return of_room if said is None else min(of_room, said[0], key=lambda reason: reason.precedence)

    cluster = Holds._reason_of_cluster
    quick = _log_of_pilots(work, limited=limited)
    # What stands for the reason of the cluster is then the whole answer: the policy's own reason is never before it.
    with mock.patch.object(Holds, "_reason_of_cluster", slow):
        assert _log_of_pilots(work, limited=limited) == quick
    assert b'"Hold"' in quick


def _log_of_pilots(work: list[tuple[int, int, int, int]], *, limited: bool) -> bytes:
    written: list[bytes] = []
    jobs = []
    for number, (second, tasks, cpu, mean) in enumerate(sorted(work)):
        job = Job(id=f"j{number}", stages=(Stage(name="s", tasks=4 * tasks, demand=(cpu, 1)),), queue="q")
        jobs.append(WorkloadJob(job=job, submit_ms=700 * second, runtimes=(Drawn(mean, 0.5),)))
    nodes = tuple(Node(id=f"n{i}", capacity=(4, 8)) for i in range(3))
    queues = (Queue(name="q", max=(8, 24) if limited else None),)
    cluster = EngineConfig(nodes=nodes, profile="yarn", queues=queues)
    policy, predictor = {"kind": "gs", "work_conserving": False}, {"kind": "slearn"}
    log = Log(written.append)
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy=policy, predictor=predictor), log=log)
    workload = Workload(name="work", jobs=tuple(jobs), source="drawn")
    Simulation(cluster, workload, scheduler, seed=1).run()
    log.flush()
    return b"".join(written)


# -- cycles -------------------------------------------------------------------------------------


def _log_of_cycles(work: list[tuple[int, int, int, int]], policy: str, limit: int | None) -> bytes:
    written: list[bytes] = []
    jobs = []
    for number, (second, tasks, cpu, mean) in enumerate(sorted(work)):
        stage = Stage(name="s", tasks=tasks, demand=(cpu, 1 + tasks % 4))
        job = Job(id=f"j{number}", stages=(stage,), queue=f"q{number % 2}")
        jobs.append(WorkloadJob(job=job, submit_ms=700 * second, runtimes=(Drawn(mean, 0.5),)))
    nodes = tuple(Node(id=f"n{i}", capacity=(4, 8 - i)) for i in range(4))
    queues = (Queue(name="q0"), Queue(name="q1", max=(8, 12)))
    cluster = EngineConfig(nodes=nodes, profile="events", queues=queues, containers_per_heartbeat=limit)
    config = SchedulerConfig(
        resources=("cpu", "memory"),
        policy={"kind": policy},
        offers=timing(cluster).offers,
        containers_per_offer=limit,
    )
    log = Log(written.append)
    workload = Workload(name="work", jobs=tuple(jobs), source="drawn")
    Simulation(cluster, workload, Scheduler(config, log=log), seed=1).run()
    log.flush()
    return b"".join(written)


#: Jobs from which on sizes are looked at first, jobs for each size from which on jobs are looked up by size, and nodes
#: with more room that are remembered.
CHOICES = st.tuples(st.sampled_from((0, 3)), st.sampled_from((0, 4)), st.integers(0, 5))


@given(WORK, st.sampled_from(("fifo", "fair", "sjf")), st.sampled_from((None, 3)), CHOICES)
@settings(max_examples=60, deadline=None)
def test_cycles_decide_as_if_every_node_were_asked_for_every_task(
    work: list[tuple[int, int, int, int]], policy: str, limit: int | None, choices: tuple[int, int, int]
) -> None:
    """Refused sizes answer for larger sizes, only nodes with more room are asked again, jobs are looked up by size, and
    equal tasks fill a node before the next node is looked for.
    """

    def asked(sizes: Sizes, size: int) -> Fitting:
        return Fitting(sizes._ask_every_node(size) if sizes.admits(size) else [], sizes.nodes)

    many, few, risen = choices
    with (
        mock.patch.multiple(ordered, _MANY=many, _FEW=few),
        mock.patch.object(sizes_of_tasks, "RISEN", risen),
    ):
        fast = _log_of_cycles(work, policy, limit)
    with (
        mock.patch.object(Sizes, "fitting", asked),
        mock.patch.object(Sizes, "fits_some_node", lambda sizes, size: bool(asked(sizes, size))),
        mock.patch.object(Offer, "is_for_all_jobs", False),
        mock.patch.object(FirstFit, "takes_first", False),
    ):
        assert _log_of_cycles(work, policy, limit) == fast


# -- hdrf ---------------------------------------------------------------------------------------

WANTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6)), max_size=12)


@given(WANTS, st.lists(st.integers(0, 99), max_size=20), st.sampled_from(("full", "rescale_only", "ignore_only")))
@settings(max_examples=60, deadline=None)
def test_what_hdrf_remembers_is_what_it_would_find_anew(
    wants: list[tuple[int, int, int, int]], churn: list[int], variant: str
) -> None:
    """Queues whose jobs wait for tasks of several sizes, so that a queue is blocked when the last of them is."""
    scheduler = Scheduler(
        SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "hdrf", "variant": variant}, offers="cycle")
    )
    for i in range(2):
        scheduler.handle(NodeAdded(0, Node(id=f"n{i}", capacity=(8, 8))))
    for name, above in (("p", ""), ("q0", "p"), ("q1", "p"), ("q2", ""), ("q3", "")):
        scheduler.handle(QueueChanged(0, Queue(name=name, parent=above)))
    at = 1
    for number, (queue, cpu, memory, tasks) in enumerate(wants):
        stage = Stage(name="s", tasks=tasks, demand=(cpu, memory))
        scheduler.handle(JobSubmitted(at, Job(id=f"j{number}", stages=(stage,), queue=f"q{queue}")))
    for pick in [None, *churn]:
        at += 1
        held = list(scheduler.state.containers)
        if pick is not None and held:
            scheduler.handle(ContainerEnded(at, held[pick % len(held)], 0, 1))
        scheduler.handle(Tick(at))
        check(scheduler, variant)


def check(scheduler: Scheduler, variant: str) -> None:
    policy, view = scheduler.policy, scheduler.view
    assert isinstance(policy, HierarchicalDrf)
    parties, values = policy._refresh(view)
    for party in parties.by_name.values():
        member = policy._members[policy._leaf_of[party.name]]
        assert policy._alike[member.wants].blocked == (not any(view.fits_somewhere(size) for size in party.sizes))
    fresh = _Values(policy._members, policy._alike, policy._counting(view), variant, 2)
    fresh.bring_up_to_date()
    assert (values.keys, values.orders, values._cells) == (fresh.keys, fresh.orders, fresh._cells)


# -- gs -----------------------------------------------------------------------------------------


class _Forgetful(dict):
    """Remembers of no job what its place followed from, so that every job is put in order on every change."""

    def get(self, *_: object) -> None:
        return None


def _log_of_gs(seed: int, *, shares: bool, forgets: bool) -> str:
    workload = generate("2sigma-like", jobs=12, slots=10, load=1.2, seed=seed)
    nodes = tuple(Node(id=f"n{i}", capacity=(1000, 4096)) for i in range(10))
    cluster = EngineConfig(nodes=nodes, resources=workload.resources, profile="yarn")
    config = SchedulerConfig(
        resources=workload.resources,
        policy={"kind": "gs", "sampling_shares": shares},
        predictor={"kind": "slearn"},
    )
    log = Log()
    scheduler = Scheduler(config, log=log)
    if forgets:
        assert isinstance(scheduler.policy, GenericScheduler)
        scheduler.policy._settled = _Forgetful()
    Simulation(cluster, workload, scheduler, seed=seed).run()
    return log.sha256


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=10, deadline=None)
@pytest.mark.drawn(of=8)
def test_gs_decides_as_if_it_put_every_job_in_order_anew(seed: int, shares: bool) -> None:
    assert _log_of_gs(seed, shares=shares, forgets=False) == _log_of_gs(seed, shares=shares, forgets=True)


# -- executors ----------------------------------------------------------------------------------


def _on_executors(seed: int, policy: str, *, disorder: bool, until: int) -> tuple[bytes, str]:
    """What the scheduler remembers in the middle of a run, and the hash of the whole run's log."""
    workload = generate("2sigma-like", jobs=8, slots=6, load=1.5, seed=seed)
    cluster = EngineConfig(
        nodes=tuple(Node(id=f"n{i}", capacity=(2000, 8192), speed=1 + i / 4) for i in range(3)),
        resources=workload.resources,
        profile="events",
        executors=Executors(moving_ms=1500),
        disorder=Disorder(duplicate=0.2, delay=0.2, delay_ms=4000) if disorder else None,
    )
    config = SchedulerConfig(
        resources=workload.resources, policy={"kind": policy}, offers=timing(cluster).offers, executors=True
    )
    log = Log()
    scheduler = Scheduler(config, log=log)
    simulation = Simulation(cluster, workload, scheduler, seed=seed)
    simulation.run(until)
    saved = scheduler.snapshot()
    simulation.calendar.run()
    return saved, log.sha256


@pytest.mark.slow
@given(st.integers(0, 1000), st.sampled_from(("fifo", "fair", "weighted_fair")), st.booleans(), st.floats(0.01, 1))
@settings(max_examples=15, deadline=None)
@pytest.mark.drawn(of=8)
def test_an_executor_that_goes_on_does_as_if_its_end_were_heard_and_its_next_task_applied(
    seed: int, policy: str, disorder: bool, part: float
) -> None:
    run = functools.partial(_on_executors, seed, policy, disorder=disorder, until=int(part * 2e7))
    went_on = run()
    with mock.patch.object(ClusterState, "go_on", return_value=None):
        assert run() == went_on
