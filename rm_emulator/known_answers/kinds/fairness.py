"""Fair shares: through the scheduler with the policies `drf` and `hdrf`; other rules in closed form.

Fractions of tasks are whole small tasks on a machine that is larger by the same factor, as fine as a case's tolerance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from rm_emulator.known_answers import shares
from rm_emulator.known_answers.checks import Case, Check, Checks, Unsupported, kind, only
from schedulers.core import keyed
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerAdopted, ContainerEnded, JobSubmitted, NodeAdded, QueueChanged, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.policies.hdrf import cell, dominant, plus
from schedulers.yarn.shares import Contender, compare_drf

_PLENTY: Final = 10_000_000
_FINISHES: Final = 1500
#: Of what the last task of the largest demand leaves over, this much more is allowed for.
_LOOSE: Final = 1.25
_POLICIES: Final[dict[str, dict[str, Any]]] = {
    "policy_hdrf": {"kind": "hdrf"},
    "policy_naive": {"kind": "hdrf", "variant": "naive"},
    "policy_rescale_only": {"kind": "hdrf", "variant": "rescale_only"},
    "policy_ignore_blocked_only": {"kind": "hdrf", "variant": "ignore_only"},
}


class _World:
    """One machine, and an endless job for everybody who shares. scale: small tasks that make one task."""

    def __init__(self, case: Case, policy: Mapping[str, Any], scale: int = 1) -> None:
        self.names, self.scale, self.at = tuple(case["cap"]), scale, 1
        config = SchedulerConfig(resources=self.names, policy=dict(policy), offers="cycle")
        self.scheduler = Scheduler(config)
        self._unit = math.lcm(*(Fraction(str(d)).denominator for leaf in _leaves(case) for d in leaf["d"].values()))
        capacity = tuple(int(amount * scale * self._unit) for amount in case["cap"].values())
        self.scheduler.handle(NodeAdded(0, Node(id="machine", capacity=capacity)))
        for name, weight, parent in _queues(case.get("tree", {}), ""):
            self.scheduler.handle(QueueChanged(0, Queue(name=name, weight=weight, parent=parent)))

    def join(self, name: str, user: Mapping[str, Any], weight: float = 1.0) -> None:
        """A user, or a leaf of the tree, begins to ask for tasks."""
        only(user, {"d", "w", "max"}, "key of a user")
        if any(resource not in self.names for resource in user["d"]):
            raise Unsupported("demands for resources that the machine lacks are not supported")
        demand = tuple(int(user["d"].get(resource, 0) * self._unit) for resource in self.names)
        stage = Stage(name="tasks", tasks=user["max"] * self.scale if "max" in user else _PLENTY, demand=demand)
        self.scheduler.handle(JobSubmitted(0, Job(id=name, stages=(stage,), weight=weight, queue=name)))

    def join_tree(self, case: Case) -> None:
        """All leaves of the case's tree."""
        for leaf in _leaves(case):
            self.join(leaf["name"], {key: leaf[key] for key in leaf if key != "name"})

    def fill(self) -> list[str]:
        """Start whatever fits; returns who got a task, in order."""
        self.at += 1
        return [d.job for d in self.scheduler.handle(Tick(self.at)) if isinstance(d, Place)]

    def start(self, tasks: Mapping[str, int]) -> None:
        """So many tasks run already."""
        for name, count in tasks.items():
            for task in range(count):
                number = self.scheduler.state.next_container
                self.scheduler.handle(ContainerAdopted(1, number, "machine", name, 0, task))

    def finish(self, container: int) -> None:
        """A task ends."""
        self.scheduler.handle(ContainerEnded(self.at, container, 0, 1))

    def tasks(self) -> dict[str, float]:
        """Tasks of each, in the case's unit."""
        return {job.id: job.running / self.scale for job in self.scheduler.state.jobs.values()}

    def seen(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        """What is so now of what a case says."""
        only(expected, {"tasks", "dominant_share", "used"}, "expectation")
        state, factor = self.scheduler.state, self.scale * self._unit
        known = {
            "tasks": self.tasks(),
            "dominant_share": {job.id: state.share(job) for job in state.jobs.values()},
            "used": {name: used / factor for name, used in zip(self.names, state.used, strict=True)},
        }
        return {key: known[key] for key in expected}


def _queues(tree: Mapping[str, Any], parent: str) -> Iterator[tuple[str, float, str]]:
    for name, node in tree.items():
        only(node, {"w", "kids", "d", "max"}, "key of a queue")
        yield name, float(node.get("w", 1)), parent
        yield from _queues(node.get("kids", {}), name)


def _leaves(case: Case) -> list[dict[str, Any]]:
    """Users of a flat case, leaves of a tree."""
    if "tree" not in case:
        return [{"name": name, **user} for name, user in case.get("users", {}).items()]

    def below(tree: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for name, node in tree.items():
            if "kids" in node:
                yield from below(node["kids"])
            else:
                yield {"name": name, "d": node["d"]} | ({"max": node["max"]} if "max" in node else {})

    return list(below(case["tree"]))


def _scale(case: Case) -> int:
    """What one user's last small task leaves over is so many of another's: the tolerance has to hold them."""
    demands = [leaf["d"] for leaf in _leaves(case)]
    asked = [[float(d[name]) for d in demands if d.get(name)] for name in case["cap"]]
    ratio = max((max(one) / min(one) for one in asked if one), default=1.0)
    return math.ceil(_LOOSE * ratio / float(case["tol"]))


# -- DRF ------------------------------------------------------------------------------------------


@kind("drf_continuous", {"cap", "users", "expect", "tol"})
def drf_continuous(case: Case) -> Checks:
    """Policy `drf` between jobs, to the last small task."""
    world = _World(case, {"kind": "drf", "level": "job"}, _scale(case))
    for name, user in case["users"].items():
        world.join(name, user, user.get("w", 1.0))
    world.fill()
    yield Check("", case["expect"], world.seen(case["expect"]), case["tol"])


@kind("drf_discrete", {"cap", "users", "tie_break", "expect"})
def drf_discrete(case: Case) -> Checks:
    """Policy `drf` with whole tasks, one after another; ties go to the user named first in `tie_break`."""
    only(case["expect"], {"picks", "tasks", "used"}, "expectation")
    world = _World(case, {"kind": "drf", "level": "job"})
    for name in case.get("tie_break", sorted(case["users"])):
        world.join(name, case["users"][name], case["users"][name].get("w", 1.0))
    picks = world.fill()
    rest = {key: value for key, value in case["expect"].items() if key != "picks"}
    got = {**world.seen(rest), "picks": picks}
    yield Check("", case["expect"], {key: got[key] for key in case["expect"]})


def _users(case: Case) -> list[shares.User]:
    names = tuple(case["cap"])
    users = []
    for user in case["users"].values():
        only(user, {"d", "w", "max"}, "key of a user")
        demand = tuple(float(user["d"].get(name, 0)) for name in names)
        users.append(shares.User(demand=demand, weight=user.get("w", 1.0), most=user.get("max", math.inf)))
    return users


@kind("asset_fair_continuous", {"cap", "users", "expect", "tol"})
def asset_fair_continuous(case: Case) -> Checks:
    """Asset fairness (DRF, NSDI'11, section 5.1) in closed form: no policy here, only compared with DRF."""
    return _in_closed_form(case, shares.fill(list(case["cap"].values()), _users(case), sum))


@kind("ceei_continuous", {"cap", "users", "expect", "tol"})
def ceei_continuous(case: Case) -> Checks:
    """Competitive equilibrium from equal incomes in closed form."""
    return _in_closed_form(case, shares.ceei(list(case["cap"].values()), _users(case)))


def _in_closed_form(case: Case, tasks: Sequence[float]) -> Checks:
    only(case["expect"], {"tasks"}, "expectation")
    yield Check("", case["expect"], {"tasks": dict(zip(case["users"], tasks, strict=True))}, case["tol"])


@kind("maxmin", {"cap", "users", "expect"})
def maxmin(case: Case) -> Checks:
    """Weighted max-min shares of one resource with minima and maxima."""
    users = case["users"]
    for user in users:
        only(user, {"w", "min", "max"}, "key of a user")
    got = shares.max_min(
        case["cap"],
        [user.get("w", 1.0) for user in users],
        [user.get("min", 0.0) for user in users],
        [user.get("max", case["cap"]) for user in users],
    )
    yield Check("", case["expect"], got, 1e-6)


# -- Mesos and YARN -------------------------------------------------------------------------------


@kind("sorter", {"ops"})
def sorter(case: Case) -> Checks:
    """Mesos' sorter, one operation after another; all its orders in one check."""
    made = shares.Sorter()
    words: dict[str, Any] = {
        "cap": lambda total: setattr(made, "total", total),
        "add": made.add,
        "rm": made.remove,
        "w": made.weights.update,
        "alloc": lambda amounts: _each(made.allocate, amounts),
        "free": lambda amounts: _each(made.free, amounts),
    }
    expected, got = [], []
    for op in case["ops"]:
        only(op, {*words, "sort"}, "operation")
        for word, value in op.items():
            if word == "sort":
                expected.append(value)
                got.append(made.order())
            else:
                words[word](value)
    yield Check("", expected, got)


def _each(function: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        function(name, value)


@kind("drf_whole_node_offers", {"steps", "expect"})
def drf_whole_node_offers(case: Case) -> Checks:
    """Mesos' allocator: every new agent goes whole to the first framework in order."""
    only(case["expect"], {"final_role_share_before_last"}, "expectation")
    made, total = shares.Sorter(), Counter[str]()
    made.total = total
    expected, got = [], []
    roles: dict[str, float] = {}
    for step in case["steps"]:
        only(step, {"agent", "add", "goes_to"}, "key of a step")
        for framework, role in step.get("add", {}).items():
            made.add(f"{role}/{framework}")
        total.update(step["agent"])
        first = made.order()[0]
        roles = {role: made.share(role) for role in case["expect"]["final_role_share_before_last"]}
        made.allocate(first, step["agent"])
        expected.append(step["goes_to"])
        got.append(first.partition("/")[2])
    yield Check("goes_to", expected, got)
    yield Check("role_share", case["expect"]["final_role_share_before_last"], roles, 1e-4)


@kind("yarn_compare", {"cap", "s1", "s2", "expect"})
def yarn_compare(case: Case) -> Checks:
    """Which of two goes first under YARN's DominantResourceFairnessPolicy."""
    sides = []
    for side in (case["s1"], case["s2"]):
        only(side, {"use", "min", "w"}, "key")
        used, least = (tuple(side.get(key, {}).get(name, 0) for name in case["cap"]) for key in ("use", "min"))
        sides.append(Contender("", used, used, least, side.get("w", 1.0)))
    first = compare_drf(sides[0], sides[1], tuple(case["cap"].values()), bug=False)
    yield Check("", case["expect"], {-1: "s1_first", 0: "equal", 1: "s2_first"}[first])


# -- H-DRF ----------------------------------------------------------------------------------------


def _filled(case: Case, policy: Mapping[str, Any], scale: int = 1) -> _World:
    """Everybody in the tree has joined, and nothing more fits."""
    world = _World(case, policy, scale)
    world.join_tree(case)
    world.fill()
    return world


@kind("hdrf_static", {"cap", "tree", "expect", "tol"})
def hdrf_static(case: Case) -> Checks:
    """Policy `hdrf` from an empty machine, to the last small task."""
    world = _filled(case, {"kind": "hdrf"}, _scale(case))
    yield Check("", case["expect"], world.seen(case["expect"]), case["tol"])


@kind("hdrf_node_vector", {"children_share_vectors", "weights", "blocked", "saturated", "expect"})
def hdrf_node_vector(case: Case) -> Checks:
    """The vector of an inner queue from its children's, as policy `hdrf` computes it."""
    children: Mapping[str, Mapping[str, float]] = case["children_share_vectors"]
    names = tuple(dict.fromkeys(name for vector in children.values() for name in vector))
    counting = [r for r, name in enumerate(names) if name not in case["saturated"]]
    total = None
    for child, vector in children.items():
        mine = tuple(float(vector.get(name, 0.0)) for name in names)
        weight = float(case.get("weights", {}).get(child, 1.0))
        added = cell(mine, dominant(mine, counting), weight, blocked=child in case["blocked"], variant="full")
        total = added if total is None else plus(total, added)
    assert total is not None
    joined = total.joined()
    got = {
        "M": total.low,
        "parent_vector": dict(zip(names, joined, strict=True)),
        "parent_share": dominant(joined, counting),
    }
    yield Check("", case["expect"], {key: got[key] for key in case["expect"]}, 1e-9)


def _settings(name: str) -> Mapping[str, Any]:
    only({name: None}, _POLICIES, "policy")
    return _POLICIES[name]


@kind("hdrf_churn", {"cap", "tree", "start", "finish_one_of", "expect"})
def hdrf_churn(case: Case) -> Checks:
    """From a given state one task after another ends, and what is free is given away."""
    for name, expected in case["expect"].items():
        only(expected, {"picks", "tasks"}, "expectation")
        world = _World(case, _settings(name))
        world.join_tree(case)
        world.start(case["start"])
        picks: list[str] = []
        for leaf in case["finish_one_of"]:
            containers = world.scheduler.state.containers.values()
            world.finish(next(c.id for c in containers if c.job == leaf))
            picks += world.fill()
        got = {"picks": picks, "tasks": world.tasks()}
        yield Check(name, expected, {key: got[key] for key in expected})


@kind("hdrf_fill", {"cap", "tree", "expect"})
def hdrf_fill(case: Case) -> Checks:
    """From an empty machine until nothing fits."""
    for name, expected in case["expect"].items():
        yield Check(name, expected, _filled(case, _settings(name)).tasks())


@kind("hdrf_random_churn", {"cap", "tree", "expect"})
def hdrf_random_churn(case: Case) -> Checks:
    """Single tasks end at random and what is free is given away, many times: where does it end, does anybody starve?"""
    for name, expected in case["expect"].items():
        world = _filled(case, _settings(name))
        lowest = min(world.tasks().values())
        for number in keyed.generator(1, "churn").integers(0, 2**31, _FINISHES).tolist():
            containers: Sequence[int] = list(world.scheduler.state.containers)
            world.finish(containers[number % len(containers)])
            world.fill()
            lowest = min(lowest, *world.tasks().values())
        got = ("some_leaf_zero" if not lowest else "none") if isinstance(expected, str) else world.tasks()
        yield Check(name, expected, got)
