"""Schedulers that think, written down from their definition in known-answer cases: small, slow, and of one resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Job:
    id: str
    by: str
    at: int
    left: int
    cpu: int
    dur: int
    placed: bool = False
    tries: int = 0


@dataclass
class _Attempt:
    job: _Job
    end: int
    turn: int
    view: dict[str, int]
    commits: int


@dataclass
class _Scheduler:
    name: str
    t_job: int
    t_task: int
    order: list[str]
    queue: list[_Job] = field(default_factory=list)
    attempt: _Attempt | None = None
    held: int = 0


def commits(case: dict[str, Any]) -> list[list[Any]]:
    """Rows [time, job, tasks placed, claims refused] of a case of kind `omega_trace`, all numbers whole."""
    return _Run(case).rows


class _Run:
    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.rows = case, []
        self.kind = case["architecture"]
        self.free = dict(case["machines"])
        self.times = case["schedulers"]
        names = ["all"] if self.kind.startswith("monolithic") else list(self.times)
        self.schedulers = [
            _Scheduler(name, *self._times(name), self.times.get(name, {}).get("order", list(self.free)))
            for name in names
        ]
        self.running: list[tuple[int, str, _Scheduler, int]] = []
        self.coming = [_Job(j["id"], j["by"], j["at"], j["tasks"], j["cpu"], j["dur"]) for j in case["jobs"]]
        self.retries: list[tuple[int, int, _Job]] = []
        self.locked: dict[str, dict[str, int]] = {}
        self.placements: list[tuple[int, str, str]] = []  # (number of the commit, machine, scheduler)
        self.turn = self.commit = 0
        while (now := self._next()) is not None:
            self._instant(now)

    def _times(self, name: str) -> tuple[int, int]:
        times = self.times.get(name, {"t_job": 0, "t_task": 0})
        return times["t_job"], times["t_task"]

    def _next(self) -> int | None:
        times = [end for end, *_ in self.running] + [s.attempt.end for s in self.schedulers if s.attempt]
        return min(times + [job.at for job in self.coming] + [at for at, *_ in self.retries], default=None)

    def _instant(self, now: int) -> None:
        for task in [task for task in self.running if task[0] == now]:
            self.running.remove(task)
            self.free[task[1]] += task[3]
            task[2].held -= task[3]
        through = [s for s in self.schedulers if s.attempt is not None and s.attempt.end == now]
        for scheduler in sorted(through, key=lambda s: s.attempt.turn if s.attempt else 0):
            self._end(scheduler, now)
        for job in [job for job in self.coming if job.at == now]:
            self.coming.remove(job)
            self._of(job).queue.append(job)
        for retry in sorted(retry for retry in self.retries if retry[0] == now):
            self.retries.remove(retry)
            self._of(retry[2]).queue.append(retry[2])
        self._begin(now)

    def _of(self, job: _Job) -> _Scheduler:
        return next(s for s in self.schedulers if s.name in ("all", job.by))

    def _begin(self, now: int) -> None:
        if self.kind != "two_level":
            for scheduler in self.schedulers:
                if scheduler.attempt is None and scheduler.queue:
                    self._think(scheduler, now, dict(self.free))
            return
        while True:
            left = {m: f - sum(lock.get(m, 0) for lock in self.locked.values()) for m, f in self.free.items()}
            idle = [s for s in self.schedulers if s.attempt is None and s.queue]
            if not idle or not any(left.values()):
                return
            scheduler = min(idle, key=lambda s: s.held)
            self.locked[scheduler.name] = left
            self._think(scheduler, now, left)

    def _think(self, scheduler: _Scheduler, now: int, view: dict[str, int]) -> None:
        job = scheduler.queue.pop(0)
        t_job, t_task = scheduler.t_job, scheduler.t_task
        if self.kind == "monolithic_single":
            t_job, t_task = self.case["single"]["t_job"], self.case["single"]["t_task"]
        elif self.kind == "monolithic_multi":
            t_job, t_task = self._times(job.by)
        self.turn += 1
        scheduler.attempt = _Attempt(job, now + t_job + t_task * job.left, self.turn, view, self.commit)

    def _end(self, scheduler: _Scheduler, now: int) -> None:
        attempt = scheduler.attempt
        assert attempt is not None
        scheduler.attempt, job = None, attempt.job
        view = dict(self.free) if self.kind.startswith("monolithic") else attempt.view
        claims: list[str] = []
        for _ in range(job.left):
            machine = next((m for m in scheduler.order if view[m] >= job.cpu), None)
            if machine is None:
                break
            view[machine] -= job.cpu
            claims.append(machine)
        refused = self._refused(scheduler, attempt, claims)
        self.locked.pop(scheduler.name, None)
        self.commit += 1
        placed = [machine for number, machine in enumerate(claims) if number not in refused]
        tried = len(claims)
        if self.case.get("commit") == "all_or_nothing" and (refused or len(claims) < job.left):
            if len(claims) < job.left:
                tried = 0  # no commit is tried without a place for every task, so no claim can be refused
            refused, placed = set(range(tried)), []
        for machine in placed:
            self.free[machine] -= job.cpu
            scheduler.held += job.cpu
            self.running.append((now + job.dur, machine, scheduler, job.cpu))
            self.placements.append((self.commit, machine, scheduler.name))
        self.rows.append([now, job.id, len(placed), tried - len(placed)])
        job.left -= len(placed)
        job.placed = job.placed or bool(placed)
        job.tries += 1
        in_vain, most = self.case["give_up"]
        if job.left and not (job.tries > most or (not job.placed and job.tries > in_vain)):
            self.turn += 1
            self.retries.append((now + self.case["retry"], self.turn, job))

    def _refused(self, scheduler: _Scheduler, attempt: _Attempt, claims: list[str]) -> set[int]:
        if self.kind != "shared_state":
            return set()
        if self.case["conflict"] == "sequence":
            newer = {m for number, m, who in self.placements if number > attempt.commits and who != scheduler.name}
            return {number for number, machine in enumerate(claims) if machine in newer}
        left, refused = dict(self.free), set()
        for number, machine in enumerate(claims):
            if left[machine] < attempt.job.cpu:
                refused.add(number)
            else:
                left[machine] -= attempt.job.cpu
        return refused
