"""Fair shares, through the scheduler and policy `fair`."""

from __future__ import annotations

from typing import Final

from rm_emulator.cases.kinds import Case, Check, Checks, Unsupported, kind, only
from schedulers.core.decisions import Place
from schedulers.core.events import JobSubmitted, NodeAdded, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler

_PLENTY: Final = 10_000


@kind("drf_discrete", {"cap", "users", "tie_break", "expect"})
def drf_discrete(case: Case) -> Checks:
    """Whole tasks on one machine, one after another to the user with the smallest dominant share, until none fits.

    A user is a job with endless equal tasks; ties go to the user named first in `tie_break`.
    """
    names = tuple(case["cap"])
    users = case["users"]
    only(case["expect"], {"picks", "tasks", "used"}, "expectation")
    config = SchedulerConfig(resources=names, policy={"kind": "fair", "measure": "dominant"}, offers="cycle")
    scheduler = Scheduler(config)
    scheduler.handle(NodeAdded(0, Node(id="machine", capacity=tuple(case["cap"].values()))))
    for user in case.get("tie_break", sorted(users)):
        only(users[user], {"d", "w", "max"}, "key of a user")
        if any(name not in names for name in users[user]["d"]):
            raise Unsupported("demands for resources that the machine lacks are not supported")
        demand = tuple(users[user]["d"].get(name, 0) for name in names)
        stage = Stage(name="tasks", tasks=users[user].get("max", _PLENTY), demand=demand)
        scheduler.handle(JobSubmitted(0, Job(id=user, stages=(stage,), weight=users[user].get("w", 1.0))))
    picks = [d.job for d in scheduler.handle(Tick(1)) if isinstance(d, Place)]
    got = {
        "picks": picks,
        "tasks": {user: picks.count(user) for user in users},
        "used": dict(zip(names, scheduler.state.used, strict=True)),
    }
    yield Check("", case["expect"], {key: got[key] for key in case["expect"]})
