"""Changes that might have let a job end sooner: a small fixed set of changes to its demands, the nodes and its queues.

The reasons of the job's waiting select the changes worth a run; `advice` runs them. Run times stay unchanged: whether
tasks can do with less is for people to judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.execution import Execution, ListedTimes
from rm_emulator.engine.sizes import Sizes
from rm_emulator.experiments.assembly import waves_of
from rm_emulator.results.story import FOR_DATA, STARTING
from rm_emulator.scenario.workload import Built
from rm_emulator.workload.model import PerNode, PerTask, WorkloadJob
from schedulers.core.model import Node, Queue, Stage
from schedulers.core.queues import QueueTree
from schedulers.core.reasons import Reason
from schedulers.core.resources import show_steps

#: Waiting that nothing here can shorten.
_ITS_OWN: Final = {
    STARTING,
    FOR_DATA,
    Reason.NO_NODE_MATCHES,
    Reason.WAITS_FOR_STAGE,
    Reason.WAITS_FOR_PILOTS,
    Reason.WAITS_FOR_ASK,
    Reason.WAITS_FOR_THOUGHT,
    Reason.QUEUE_GONE,
}
replace = msgspec.structs.replace


class CellSetting(msgspec.Struct, frozen=True):
    """Input of a cell's emulation: cluster, workload, seed."""

    config: EngineConfig
    built: Built
    seed: int
    sizes: Sizes | None = None
    """Container sizes for the rounding of demands."""
    weighted: bool = False
    """Whether the policy follows the weights of queues."""


class Change(msgspec.Struct, frozen=True):
    """A change of a setting."""

    kind: str
    """ask_less, ask_less_of_all (worth a run where less of a single resource does not help), no_gang, fewer_tasks,
    more_nodes, queue_weight, queue_max, queue_max_running, user_limit or user_max_running.
    """
    words: str
    """The change in words, such as `with 2Gi memory instead of 4Gi a task`."""
    setting: CellSetting
    """The setting to emulate."""


def changes(setting: CellSetting, job: str, reasons: Collection[str]) -> list[Change]:
    """The changes worth a run for a job of the workload with the given reasons of waiting."""
    if set(reasons) <= _ITS_OWN:
        return []
    entry = next(entry for entry in setting.built.workload.jobs if entry.job.id == job)
    return [
        *smaller_asks(setting, entry),
        *apart_gangs(setting, entry),
        *_more_nodes(setting),
        *_queues(setting, entry, reasons),
    ]


# -- what the job asks for ----------------------------------------------------------------------


def smaller_asks(setting: CellSetting, entry: WorkloadJob) -> Iterator[Change]:
    """A job of the setting with less of each resource, so that one more task fits on a node, or half; half of all."""
    names, stages = setting.config.resources, entry.job.stages
    asked = [r for r in range(len(names)) if any(stage.demand[r] > 1 for stage in stages)]  # one pod stays one pod
    cuts: list[tuple[tuple[int, ...], bool]] = [((r,), fits) for r in asked for fits in (True, False)]
    cuts += [(tuple(asked), False)] if len(asked) > 1 else []
    tried = {tuple(stage.demand for stage in stages)}
    for which, fits in cuts:
        changed = tuple(_cut(setting, stage, which, fits=fits) for stage in stages)
        demands = tuple(stage.demand for stage in changed)
        if demands not in tried:
            tried.add(demands)
            words = _less(names, which, stages, changed, fits=fits)
            kind = "ask_less" if len(which) == 1 else "ask_less_of_all"
            yield Change(kind, words, _with_job(setting, entry, stages=changed))


def _cut(setting: CellSetting, stage: Stage, which: Collection[int], *, fits: bool) -> Stage:
    demand = list(stage.demand)
    for r in which:
        if demand[r]:
            demand[r] = max(1, _one_more(setting.config.nodes, r, demand[r]) if fits else -(-demand[r] // 2))
    return replace(stage, demand=setting.sizes.normalised(tuple(demand)) if setting.sizes else tuple(demand))


def _one_more(nodes: Collection[Node], r: int, wanted: int) -> int:
    """The largest demand for a resource with room for an additional task on a node of the commonest size."""
    (room, _), *_ = Counter(node.room[r] for node in nodes).most_common(1)
    return min(wanted, room // (room // wanted + 1))


def _less(
    names: tuple[str, ...], which: Collection[int], before: tuple[Stage, ...], after: tuple[Stage, ...], *, fits: bool
) -> str:
    """The change in words; with its amounts where all stages ask for the same."""
    old, new = ({tuple(stage.demand[r] for r in which) for stage in stages} for stages in (before, after))
    named = " and ".join(names[r] for r in which)
    if len(old) > 1 or len(new) > 1:
        return (
            f"with so much less {named} a task that one more fits on a node"
            if fits
            else f"with half the {named} a task"
        )

    def shown(demand: tuple[int, ...]) -> list[str]:
        return [show_steps(names[r], steps) for r, steps in zip(which, demand, strict=True)]

    now = " and ".join(f"{amount} {names[r]}" for r, amount in zip(which, shown(new.pop()), strict=True))
    return f"with {now} instead of {' and '.join(shown(old.pop()))} a task"


def apart_gangs(setting: CellSetting, entry: WorkloadJob) -> Iterator[Change]:
    """The job's gangs as tasks with separate starts; as half as many tasks."""
    stages = entry.job.stages
    gangs = [index for index, stage in enumerate(stages) if stage.gang and stage.tasks > 1]
    if not gangs:
        return
    alone = tuple(replace(stage, gang=False) for stage in stages)
    yield Change(
        "no_gang",
        "with tasks that start one by one instead of in gangs",
        _with_job(setting, entry, stages=alone),
    )
    if any(edge.kind == "one_to_one" and edge.parent in gangs for stage in stages for edge in stage.ties):
        return  # the stage below has as many tasks
    times = Execution(setting.config, setting.seed, waves_of(setting.built)).stage_times(entry)
    halved, runtimes = list(stages), list(entry.runtimes)
    for index in gangs:
        known = times[index]
        if not isinstance(known, ListedTimes):
            return  # measured waves follow the executors: what two tasks in one would take is not known
        halved[index], runtimes[index] = _halved(stages[index], known)
    words = "with half as many tasks in its gangs, each with the work of two"
    yield Change("fewer_tasks", words, _with_job(setting, entry, stages=tuple(halved), runtimes=tuple(runtimes)))


def _halved(stage: Stage, times: ListedTimes) -> tuple[Stage, PerTask]:
    """Half as many tasks, each with the run time of two."""
    tasks = -(-stage.tasks // 2)
    first, second = times.first[:tasks], [*times.first[tasks:], 0]
    hosts = stage.hosts[:tasks] if len(stage.hosts) > 1 else stage.hosts
    hint = None if stage.hint_ms is None else 2 * stage.hint_ms
    # The shorter half may lack a last one, for which the 0 stands.
    runtimes = PerTask(tuple(one + other for one, other in zip(first, second, strict=False)))
    return replace(stage, tasks=tasks, hosts=hosts, hint_ms=hint), runtimes


def _with_job(setting: CellSetting, entry: WorkloadJob, **fields: object) -> CellSetting:
    """The setting with other stages, or run times, of one job."""
    changed = replace(entry, job=replace(entry.job, stages=fields.pop("stages")), **fields)
    workload = setting.built.workload
    jobs = tuple(changed if other is entry else other for other in workload.jobs)
    return replace(setting, built=replace(setting.built, workload=replace(workload, jobs=jobs)))


# -- nodes and queues ---------------------------------------------------------------------------


def _more_nodes(setting: CellSetting) -> Iterator[Change]:
    """A tenth more nodes, at least a single node, of the present sizes; no change for run times by node."""
    entries = setting.built.workload.jobs
    if any(isinstance(times, PerNode) for entry in entries for times in entry.runtimes):
        return
    nodes = setting.config.nodes
    more = -(-len(nodes) // 10)
    names = {node.id for node in nodes}
    added = []
    for number in range(more):
        like = nodes[number * len(nodes) // more]
        name = f"{like.id}-more"
        while name in names:
            name += "-more"
        added.append(replace(like, id=name))
    words = f"with {len(nodes) + more} nodes instead of {len(nodes)}"
    yield Change("more_nodes", words, replace(setting, config=replace(setting.config, nodes=(*nodes, *added))))


def _queues(setting: CellSetting, entry: WorkloadJob, reasons: Collection[str]) -> Iterator[Change]:
    """Limits behind the job's waiting lifted, then twice the weight, of its queue and of each queue above."""
    tree = QueueTree(len(setting.config.resources))
    for queue in setting.config.queues:
        tree.put(queue)
    way = [tree.queues[name] for name in tree.up(entry.job.queue) if name in tree.queues]
    for queue in way:
        for kind, (waited, words, lift) in _LIFTED.items():
            lifted = lift(queue)
            if lifted != queue and waited.intersection(reasons):
                yield Change(kind, words.format(queue.name), _with_queue(setting, queue, lifted))
    if setting.weighted and len(setting.config.queues) > 1:
        for queue in way:
            words = f"with weight {2 * queue.weight:g} instead of {queue.weight:g} of queue {queue.name}"
            yield Change("queue_weight", words, _with_queue(setting, queue, replace(queue, weight=2 * queue.weight)))


def _with_queue(setting: CellSetting, queue: Queue, changed: Queue) -> CellSetting:
    queues = tuple(changed if other is queue else other for other in setting.config.queues)
    return replace(setting, config=replace(setting.config, queues=queues))


def _user_without(queue: Queue, limit: str) -> Queue:
    return queue if queue.per_user is None else replace(queue, per_user=replace(queue.per_user, **{limit: None}))


#: By kind of change: the reasons that it is for, its words, and the queue without the limit.
_LIFTED: Final[dict[str, tuple[frozenset[str], str, Callable[[Queue], Queue]]]] = {
    "queue_max": (
        frozenset({Reason.QUEUE_AT_LIMIT, Reason.OVER_LIMIT}),
        "without max of queue {}",
        lambda queue: replace(queue, max=None),
    ),
    "queue_max_running": (
        frozenset({Reason.QUEUE_FULL_OF_JOBS}),
        "without max_running of queue {}",
        lambda queue: replace(queue, max_running=None),
    ),
    "user_limit": (
        frozenset({Reason.USER_AT_LIMIT, Reason.OVER_LIMIT}),
        "without per_user.limit of queue {}",
        lambda queue: _user_without(queue, "limit"),
    ),
    "user_max_running": (
        frozenset({Reason.USER_FULL_OF_JOBS}),
        "without per_user.max_running of queue {}",
        lambda queue: _user_without(queue, "max_running"),
    ),
}
