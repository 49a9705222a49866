"""Shares of the queues over time compared with their fair shares, from a cell's tables.

Time runs from the first submission to the last end, in equal buckets; every figure is of bucket means.

demand
    holdings of a queue plus its waiting tasks. A task waits from the moment its stage could start, or from the end
    of its attempt before, until its grant of a container. Records lack the time of a stage's first possible start,
    taken here as the latest completion of another stage of the job before the stage's first grant, else as the
    submission. The rule is exact for chains; a stage beside parallel branches may have waited longer. Tasks without
    any grant are not in the records, and neither is their wait.
share
    dominant share (DRF, section 4.1): the largest held / capacity over the resources.
fair share
    what the queue would hold under ideal water-filling over the tree, given the demands (`results.water_filling`).
Jain's index
    (sum x)^2 / (n sum x^2) of x = share / fair share, both as means over a window, over the queues with a fair
    share in the window; windows with fewer than two such queues are left out. 1: every queue has the same part of its
    fair share.
states
    of a queue with demand, at every instant one of: starved (work waits, one more of its tasks would still be within
    its fair share, and another queue holds more than its own), hungry (work waits otherwise), satisfied (none
    waits). Work waits when at least half of one of its mean tasks does, on average over the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from rm_emulator.results.figures import Fairness, NewQueue, QueueFairness, Windows
from rm_emulator.results.metrics import Attempts, Floats, Ints, blocks, capacities, figure, integrals, owners
from rm_emulator.results.water_filling import SharingTree, scenario_tree

Codes = npt.NDArray[np.int8]

#: Windows of Jain's index, and widths of a bucket: each divides the windows that are not shorter than it.
WINDOWS_MS: Final = (10_000, 60_000, 240_000)
WIDTHS_MS: Final = (1000, 2000, 5000, 10_000, 20_000, 60_000, 240_000)
#: Buckets x queues x resources: beyond it buckets are wider.
CELLS: Final = 4_000_000
IDLE, SATISFIED, HUNGRY, STARVED = range(4)
STATES: Final = {STARVED: "starved", HUNGRY: "hungry", SATISFIED: "satisfied"}
_CLOSE: Final = 1e-9
#: Columns of attempts, beside demands, that the course of the queues is made of.
COLUMNS: Final = ("job", "stage", "task", "attempt", "granted_ms", "ended_ms", "code")


class QueueShares(msgspec.Struct, frozen=True, kw_only=True):
    """Queues over time: arrays of buckets x queues, all in fractions of the cluster.

    start_ms: the first bucket's start; asked: demand resource by resource. task: the mean task's dominant share.
    held, demand, fair, waiting: dominant shares; state: IDLE, SATISFIED, HUNGRY or STARVED.
    """

    queues: tuple[str, ...]
    start_ms: int
    width_ms: int
    tree: SharingTree
    asked: Floats
    held: Floats
    demand: Floats
    fair: Floats
    waiting: Floats
    task: Floats
    state: Codes

    @property
    def end_ms(self) -> int:
        """The last bucket's end."""
        return self.start_ms + len(self.held) * self.width_ms


def queue_shares(
    jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame, queues: Iterable[Mapping[str, Any]] = ()
) -> QueueShares | None:
    """The course of a cell; None when nothing was ever granted. queues: of the scenario, as plain data.

    tasks: COLUMNS and the demands.
    """
    end = latest_end(tasks)
    if end is None or jobs.is_empty():
        return None
    every = capacities(nodes)
    names = tuple(sorted(set(jobs["queue"].to_list())))
    number = {name: at for at, name in enumerate(names)}
    begin = int(jobs["submit_ms"].to_numpy().min())
    tree, resources = scenario_tree(queues, every, names)
    width = _width(max(1, end - begin), len(names) * len(resources))
    buckets = max(1, -(-(end - begin) // width))
    # Units x ms by bucket, queue and resource, and units of all tasks: whole numbers, whose sums are exact.
    held, waited = np.zeros((2, buckets, len(names), len(resources)))
    units, count = np.zeros((len(resources), len(names))), np.zeros(len(names))
    for some, part in blocks(jobs, tasks, *COLUMNS, *(f"demand_{name}" for name in resources)):
        if part.is_empty():
            continue
        job = owners(some, part)
        owner = np.array([number[name] for name in some["queue"].to_list()], dtype=np.int64)[job]
        granted, ended = (part[name].to_numpy() - begin for name in ("granted_ms", "ended_ms"))
        since = waiting_since(some, part, job) - begin
        count += np.bincount(owner, minlength=len(names))
        for r, name in enumerate(resources):
            each = part[f"demand_{name}"].to_numpy().astype(np.float64)
            units[r] += np.bincount(owner, each, len(names))
            held[:, :, r] += integrals(owner, each, granted, ended, width, buckets, len(names))
            waited[:, :, r] += integrals(owner, each, since, granted, width, buckets, len(names))
    capacity = np.array([every[name] for name in resources], dtype=np.float64)
    held /= width * capacity
    waited /= width * capacity
    asked = held + waited
    task: Floats = np.max(units / capacity[:, None], axis=0) / np.maximum(count, 1)
    fair, share, demand, waiting = tree.fill(asked), held.max(axis=2), asked.max(axis=2), (asked - held).max(axis=2)
    return QueueShares(
        queues=names,
        start_ms=begin,
        width_ms=width,
        tree=tree,
        asked=asked,
        held=share,
        demand=demand,
        fair=fair,
        waiting=waiting,
        task=task,
        state=states(share, fair, waiting, demand, task),
    )


def _width(span_ms: int, tracks: int) -> int:
    """The narrowest bucket with which the course stays within CELLS."""
    for width in WIDTHS_MS:
        if span_ms // width * tracks <= CELLS:
            return width
    return WIDTHS_MS[-1] * -(-span_ms * tracks // (WIDTHS_MS[-1] * CELLS))


def latest_end(tasks: Attempts) -> int | None:
    """The last end of an attempt (ms), None without attempts."""
    if isinstance(tasks, pl.LazyFrame):
        tasks = tasks.select(pl.col("ended_ms").max()).collect().drop_nulls()
    return int(tasks["ended_ms"].to_numpy().max()) if len(tasks) else None


def waiting_since(jobs: pl.DataFrame, tasks: pl.DataFrame, job: Ints) -> Ints:
    """The time (ms) from which on the task of each attempt waited for its grant. job: row of each attempt's job."""
    stage, task, attempt = (tasks[name].to_numpy().astype(np.int64) for name in ("stage", "task", "attempt"))
    granted, ended = tasks["granted_ms"].to_numpy(), tasks["ended_ms"].to_numpy()
    stages, of = np.unique(job * (int(stage.max()) + 1) + stage, return_inverse=True)
    never = int(ended.max()) + 1
    owner, first, done = np.empty_like(stages), np.full(len(stages), never), np.full(len(stages), -1)
    owner[of] = job
    np.minimum.at(first, of, granted)
    over = tasks["code"].to_numpy() == 0
    np.maximum.at(done, of[over], ended[over])
    # Of the latest completions before a stage's first grant its own can be one only when its tasks take no time.
    ends = np.sort((owner * never + done)[done >= 0])
    latest = np.concatenate([[-1], ends])[np.searchsorted(ends, owner * never + first, side="right")]
    ready = np.where(latest // never == owner, latest % never, 0)
    since = np.maximum(ready[of], jobs["submit_ms"].to_numpy()[job])
    again = np.flatnonzero(attempt > 0)
    if len(again):
        each = (of * (int(task.max()) + 1) + task) * (int(attempt.max()) + 1) + attempt
        order = np.argsort(each, kind="stable")
        before = order[np.minimum(np.searchsorted(each[order], each[again] - 1), len(order) - 1)]
        found = each[before] == each[again] - 1
        since[again[found]] = ended[before[found]]
    earlier: Ints = np.minimum(since, granted)
    return earlier


def states(held: Floats, fair: Floats, waiting: Floats, demand: Floats, task: Floats) -> Codes:
    """The state of each queue at each instant; all arguments are dominant shares (see the module)."""
    waits = (waiting > 0) & (waiting >= task / 2 - _CLOSE)
    above = held > fair + _CLOSE
    others_above = above.sum(axis=1, keepdims=True) - above > 0
    starved = waits & (held + task <= fair + _CLOSE) & others_above
    busy = np.where(demand > 0, SATISFIED, IDLE)
    return np.where(starved, STARVED, np.where(waits, HUNGRY, busy)).astype(np.int8)


def jain_over_time(course: QueueShares, window_ms: int) -> Floats | None:
    """Jain's index in each window from the first submission on, NaN where fewer than two queues have a fair share.

    The rest after the last whole window belongs to the last window. None when the buckets do not fit the window.
    """
    if window_ms % course.width_ms:
        return None
    each = window_ms // course.width_ms
    at = np.arange(0, max(1, len(course.held) - each + 1), each)
    held, fair = np.add.reduceat(course.held, at), np.add.reduceat(course.fair, at)
    counted = fair > _CLOSE
    part = np.divide(held, fair, out=np.zeros_like(held), where=counted)
    squares = counted.sum(axis=1) * (part**2).sum(axis=1)
    index: Floats = np.divide(part.sum(axis=1) ** 2, squares, out=np.full(len(at), np.nan), where=squares > 0)
    return np.where(counted.sum(axis=1) > 1, index, np.nan)


def figures(course: QueueShares | None, queues: Sequence[str]) -> dict[str, Any]:
    """`fairness` and `new_queue` of one cell, as fields of `figures.Run`. queues: of a cell without a course."""
    if course is None:
        return {"fairness": Fairness(queues={name: QueueFairness() for name in queues}), "new_queue": NewQueue()}
    each = {f"jain_{window // 1000}s": _windows(course, window) for window in WINDOWS_MS}
    of_queues = {name: _queue(course, index) for index, name in enumerate(course.queues)}
    return {"fairness": Fairness(**each, queues=of_queues), "new_queue": _new_queue(course)}


def _windows(course: QueueShares, window_ms: int) -> Windows:
    index = jain_over_time(course, window_ms)
    known = index[~np.isnan(index)] if index is not None else np.zeros(0)
    return Windows(mean=figure(known.mean()), worst=figure(known.min())) if len(known) else Windows()


def _queue(course: QueueShares, index: int) -> QueueFairness:
    state = course.state[:, index]
    times = {f"{name}_s": int((state == code).sum()) * course.width_ms / 1000 for code, name in STATES.items()}
    means = {"share_mean": course.held, "fair_share_mean": course.fair}
    return QueueFairness(**times, **{name: figure(values[:, index].mean()) for name, values in means.items()})


def have_several_queues(courses: Mapping[str, QueueShares]) -> bool:
    """Whether there is anything to share: a run with more than one queue."""
    return any(len(course.queues) > 1 for course in courses.values())


def busiest(course: QueueShares) -> int:
    """The bucket of highest load: the first with the largest demand, held and waiting, for the most wanted resource."""
    return int(course.asked.sum(axis=1).max(axis=1).argmax())


def _new_queue(course: QueueShares) -> NewQueue:
    at, weight = busiest(course), NewQueue().weight
    share = course.tree.share_of_another(course.asked[at], weight)
    return NewQueue(share=figure(share), at_s=(course.start_ms + at * course.width_ms) / 1000)
