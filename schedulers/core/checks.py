"""Every derived figure of the state, worked out anew. Slow, and meant for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulers.core.live import GRANTED, IDLE, MOVING, RUNNING, ContainerState, JobState
from schedulers.core.model import Edge
from schedulers.core.queues import QueueTree

if TYPE_CHECKING:
    from schedulers.core.state import ClusterState


def validate(state: ClusterState) -> None:
    """Raise AssertionError with the first wrong figure."""
    used = [0] * len(state.resources)
    for node in state.nodes.values():
        held = [0] * len(state.resources)
        for container in node.containers:
            for r, amount in enumerate(state.sizes.demands[state.containers[container].size]):
                held[r] += amount
        foreign = [sum(v[r] for v in node.foreign.values()) for r in range(len(held))]
        for r, room in enumerate(node.spec.room):
            assert node.free[r] == room - held[r] - foreign[r], f"free room of {node.id}: {node.free}"
            used[r] += held[r]
    assert used == state.used, f"used {state.used}, containers hold {used}"
    assert state.capacity == [sum(n.spec.capacity[r] for n in state.nodes.values()) for r in range(len(used))]
    assert sum(len(n.containers) for n in state.nodes.values()) == len(state.containers)
    # Counted by the jobs below, and compared with the sums kept up task by task.
    waiting = [0] * len(state.sizes.demands)
    for job in state.jobs.values():
        _validate_job(job, state, waiting)
    assert waiting == state.sizes.waiting, f"waiting by size {state.sizes.waiting}, not {waiting}"
    assert set(state.sizes.active) == {s for s, n in enumerate(waiting) if n}
    assert set(state.waiting) == {j.id for j in state.jobs.values() if j.waiting}
    assert set(state.idle) == {c.id for c in state.containers.values() if c.status == IDLE}
    assert set(state.moving) == {c.id for c in state.containers.values() if c.status == MOVING}
    state.sizes.validate()
    if state.reservations is not None:
        state.reservations.validate()
    foreign = [sum(v[r] for n in state.nodes.values() for v in n.foreign.values()) for r in range(len(used))]
    assert foreign == state.foreign, f"held by others {foreign}, not {state.foreign}"
    _validate_queues(state)
    _validate_copies(state)


def _validate_copies(state: ClusterState) -> None:
    tasks = {(c.job, c.stage, c.task): c.id for c in state.containers.values() if not c.copy}
    copies: dict[tuple[str, int, int], list[int]] = {}
    for number in sorted(c.id for c in state.containers.values() if c.copy):
        container = state.containers[number]
        copies.setdefault((container.job, container.stage, container.task), []).append(number)
    assert {key: (group.task, group.copies) for key, group in state.copies.live.items()} == {
        key: (tasks.get(key), numbers) for key, numbers in copies.items()
    }, "copies"
    # A waiting task has no output and no container, so a copy of it would run for nothing.
    for job, stage, task in copies:
        assert job not in state.jobs or not state.jobs[job].stages[stage].is_waiting(task), (
            f"{job}/{stage}/{task}: copied"
        )


def _validate_queues(state: ClusterState) -> None:
    # A second tree, charged from nothing, because charges are kept up by difference and could drift.
    tree, other = state.tree, QueueTree(len(state.resources))
    other.queues, other.removed = tree.queues, tree.removed
    other.resize(state.capacity)
    for container in state.containers.values() if state.queues else ():
        other.charge(*state.admission.payers[container.id], state.sizes.demands[container.size], 1)
    pending = {}
    for job in state.jobs.values():
        if job.admitted:
            other.count(job.spec.queue, job.spec.user, 1)
        else:
            pending[job.id] = job
            assert not job.open, f"{job.id} was not let in and has open stages"
            assert not state.admission.may_enter(job) or job.cancelled, f"{job.id} could be let in"
        group = tree.path(job.spec.queue, job.spec.user).group
        assert all(state.sizes.groups[stage.size] == group for stage in job.stages), f"{job.id}: limits"
    assert {name for jobs in state.admission.pending.values() for name in jobs} == set(pending), (
        "jobs that were not let in"
    )
    for account in tree.accounts():
        assert tuple(account.used) == other.used(account.queue, account.user), f"use of {account}"
    mine = {(a.queue, a.user): (a.jobs, a.most) for a in tree.accounts()}
    for account in other.accounts():
        assert mine[account.queue, account.user] == (account.jobs, account.most), f"jobs of {account}"


def _lets_in(job: JobState, edge: Edge) -> bool:
    """Whether an edge leaves its stage open."""
    above = job.stages[edge.parent]
    if edge.kind == "barrier":
        return above.finished == above.tasks
    if edge.kind == "one_to_one":
        return True
    return above.finished >= edge.least(above.tasks) and above.finished + above.running == above.tasks


def _behind_one_to_one(job: JobState, stage: int, busy: list[ContainerState]) -> set[int]:
    """Tasks of the stage with an unfinished task of the same number in a parent, by one-to-one edges."""
    found: set[int] = set()
    for edge in job.spec.stages[stage].edges:
        if edge.kind == "one_to_one":
            found |= _behind_one_to_one(job, edge.parent, busy)
            found |= {task for task in range(job.stages[stage].tasks) if job.stages[edge.parent].is_waiting(task)}
            found |= {container.task for container in busy if container.stage == edge.parent}
    return found


def _validate_job(job: JobState, state: ClusterState, waiting: list[int]) -> None:
    mine = [c for c in state.containers.values() if c.job == job.id]
    assert job.executors == len(mine), f"{job.id}: {job.executors} containers, not {len(mine)}"
    busy = [c for c in mine if c.status in (GRANTED, RUNNING) and not c.copy]
    assert job.running == len(busy), f"{job.id}: {job.running} running, not {len(busy)}"
    running = [c for c in busy if c.status == RUNNING]
    assert (job.started, job.started_sum) == (len(running), sum(c.started for c in running))
    assert job.used == [sum(state.sizes.demands[c.size][r] for c in mine) for r in range(len(job.used))]
    assert job.left == sum(s.tasks - s.finished for s in job.stages) > 0
    assert len({(c.stage, c.task) for c in busy}) == len(busy), f"{job.id}: a task runs twice"
    for stage in job.stages:
        there = sum(1 for c in busy if c.stage == stage.index)
        assert stage.running == there
        behind = _behind_one_to_one(job, stage.index, busy)
        assert not any(stage.is_waiting(task) for task in behind), f"{job.id}/{stage.index}: let in before its parents"
        under_way = {c.task for c in busy if c.stage == stage.index}
        assert stage.copies.keys() <= under_way, f"{job.id}/{stage.index}: copies are asked for of what does not run"
        waiting_tasks = stage.tasks - stage.finished - stage.running - len(behind) + len(stage.copies)
        assert stage.waiting == waiting_tasks, f"{job.id}/{stage.index}: {stage.waiting} wait, not {waiting_tasks}"
        closed = [edge for edge in job.spec.stages[stage.index].edges if not _lets_in(job, edge)]
        assert stage.parents_left == len(closed), f"{job.id}/{stage.index}: barrier"
        feeds = any(edge.data for s in job.spec.stages for edge in s.edges if edge.parent == stage.index)
        assert (stage.outputs is not None) == (feeds and state.links is not None), f"{job.id}/{stage.index}: outputs"
        for task, made in (stage.outputs or {}).items():
            assert made, f"{job.id}/{stage.index}/{task}: output nowhere"
            assert not stage.is_waiting(task), f"{job.id}/{stage.index}/{task}: output of a task that waits"
        # Early containers of a stage that is closed again are on their way to their end.
        strict = all(edge.kind != "share" for edge in closed)
        assert not closed or not strict or stage.running == 0, f"{job.id}/{stage.index} runs before its parents"
        is_open = stage.is_open and stage.waiting > 0 and not job.cancelled and job.admitted
        assert (stage.index in job.open) == is_open
        if is_open:
            waiting[stage.size] += stage.waiting
    assert job.open == sorted(job.open)
    assert job.waiting == (0 if job.cancelled else sum(job.stages[i].waiting for i in job.open))
