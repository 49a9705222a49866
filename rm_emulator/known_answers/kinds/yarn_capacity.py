"""Scripts of node heartbeats, and single offers, from the tests of YARN's CapacityScheduler.

Memory is in the unit of the case; these tests use the default calculator, which looks at memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rm_emulator.known_answers.checks import Case, Check, Checks, Malformed, kind, only
from rm_emulator.known_answers.kinds.yarn_fair import GB, PLENTY, Script, Words, places
from schedulers.yarn.capacity import CapacityConfig, CapacityScheduler
from schedulers.yarn.locality import LocalityDelay
from schedulers.yarn.queues import ROOT, QueueConfig
from schedulers.yarn.records import ANY, Action, Grant

_HEARTBEAT: Final = {
    "per-node-heartbeat.multiple-assignments-enabled": "multiple",
    "per-node-heartbeat.maximum-container-assignments": "most_containers",
    "per-node-heartbeat.maximum-offswitch-assignments": "most_off_switch",
}
_DELAYS: Final = {
    "node-locality-delay": "node",
    "rack-locality-additional-delay": "rack_additional",
    "rack-locality-full-reset": "rack_full_reset",
}
_QUEUE: Final = "default"
_PRIORITY: Final = 1


def _unit(case: Case) -> int:
    return GB if case.get("unit") == "GB" else 1


def _settings(config: CapacityConfig, settings: Mapping[str, Any]) -> CapacityConfig:
    only(settings, {**_HEARTBEAT, **_DELAYS}, "setting")
    direct = {_HEARTBEAT[key]: value for key, value in settings.items() if key in _HEARTBEAT}
    delays = {_DELAYS[key]: value for key, value in settings.items() if key in _DELAYS}
    delay = msgspec.structs.replace(config.delay, **delays)
    return msgspec.structs.replace(config, delay=delay, **direct)


def _queue(name: str, settings: Mapping[str, Any], factor: float) -> QueueConfig:
    only(settings, {"capacity", "max", "kids"}, "key of a queue")
    kids = tuple(_queue(kid, below, factor) for kid, below in settings.get("kids", {}).items())
    return QueueConfig(
        name=name, capacity=settings["capacity"], maximum=settings.get("max", 1.0), user_limit_factor=factor, kids=kids
    )


@kind("cs_script", {"unit", "conf", "script", "queues", "user_limit_factor"})
def cs_script(case: Case) -> Checks:
    """Every `expect` of the script in one check: what it says and what is so then."""
    yield from CapacityScript(case).run()


class CapacityScript(Script[CapacityScheduler]):
    """One script on one scheduler."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        factor = case.get("user_limit_factor", 1)
        queues = case.get("queues", {_QUEUE: {"capacity": 1.0}})
        root = _queue(ROOT, {"capacity": 1.0, "kids": queues}, factor)
        config = CapacityConfig(root=root, maximum=(PLENTY, PLENTY))
        self._scheduler = CapacityScheduler(_settings(config, case.get("conf", {})))

    def _words(self) -> Words:
        return {
            "node": self._node,
            "submit": self._submit,
            "am_running": self._run_master,
            "ask": self._ask,
            "hb": self._beat,
            "done": self._done,
            "finish_app": self._scheduler.remove_app,
            "set": self._set,
            "update": lambda _: None,  # nothing is ever stale here
        }

    def _submit(self, submit: Mapping[str, Any]) -> None:
        only(submit, {"app", "queue", "user", "ask", "am", "am_on"}, "key of an application")
        am = (submit["am"][0] * self._scale, 1) if "am" in submit else None
        self._join(submit, am)
        if "am_on" in submit:
            self._beat([submit["am_on"]])

    def _run_master(self, app: str) -> None:
        """The nodes beat in turn until the application master has its container."""
        entry = self._scheduler.apps[app]
        for node in list(self._scheduler.nodes):
            if entry.waits_for_am:
                self._beat([node])
        if entry.waits_for_am:
            raise Malformed(f"the application master of {app} finds no room")

    def _ask(self, ask: Mapping[str, Any]) -> None:
        only(ask, {"app", "mem", "cpu", "n", "prio", "at"}, "key of an ask")
        counts = places(self._scheduler.nodes, ask.get("at", ANY), ask["n"])
        demand = (ask["mem"] * self._scale, ask.get("cpu", 1))
        self._scheduler.ask(ask["app"], ask.get("prio", _PRIORITY), demand, counts)

    def _set(self, settings: Mapping[str, Any]) -> None:
        self._scheduler.configure(_settings(self._scheduler.config, settings))

    def _sights(self) -> Words:
        scheduler, scale = self._scheduler, self._scale
        return {
            "live": self._live,
            "used": lambda apps: {app: scheduler.apps[app].used[0] / scale for app in apps},
            "reservations": self._reservations,
            "node_used": lambda nodes: {node: _used_on(scheduler, node) / scale for node in nodes},
            "queue_used": lambda queues: {queue: scheduler.leaf(queue).used[0] / scale for queue in queues},
        }


def _used_on(scheduler: CapacityScheduler, node: str) -> int:
    entry = scheduler.nodes[node]
    return entry.capacity[0] - entry.free[0]


@kind("cs_leaf_script", {"unit", "ordering", "queue", "node", "apps", "script"})
def cs_leaf_script(case: Case) -> Checks:
    """One leaf queue that is offered nodes, one container (or reservation) per offer."""
    yield from _LeafScript(case).run()


class _LeafScript(Script[CapacityScheduler]):
    """One script on one leaf queue. Offers with a number are of one 16 GB node, those with names of 8 GB nodes."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._shape = {"capacity": 1.0, "max_capacity": 1.0, "user_limit": 100, "user_limit_factor": 1}
        only(case.get("queue", {}), self._shape, "key of the queue")
        self._shape.update(case.get("queue", {}))
        self._ordering = case.get("ordering", "fifo")
        self._scheduler = CapacityScheduler(self._config())
        offers = [step["offer"] for step in self._steps if "offer" in step]
        named = sorted({offer for offer in offers if isinstance(offer, str)})
        size = case.get("node", {}).get("mem", 8 if named else 16)
        for node in named or ["node"]:
            self._scheduler.add_node(node, (size * self._scale, PLENTY))
        for app, settings in case["apps"].items():
            only(settings, {"user", "priority"}, "key of an application")
            self._scheduler.add_app(app, "leaf", settings.get("user", "user"), settings.get("priority", 0))

    def _words(self) -> Words:
        return {"ask": self._ask, "offer": self._offer, "set": self._set}

    def _ask(self, ask: Mapping[str, Any]) -> None:
        self._scheduler.ask(ask["app"], ask.get("prio", _PRIORITY), (ask["mem"] * self._scale, 1), {ANY: ask["n"]})

    def _set(self, settings: Mapping[str, Any]) -> None:
        only(settings, self._shape, "setting")
        self._shape.update(settings)
        self._scheduler.configure(self._config())

    def _offer(self, offer: str | int) -> None:
        for _ in range(offer if isinstance(offer, int) else 1):
            self._scheduler.offer(offer if isinstance(offer, str) else "node")

    def _config(self) -> CapacityConfig:
        shape = self._shape
        leaf = QueueConfig(
            name="leaf", capacity=shape["capacity"], maximum=shape["max_capacity"], user_limit=shape["user_limit"],
            user_limit_factor=shape["user_limit_factor"], ordering=self._ordering,
        )  # fmt: skip
        rest = QueueConfig(name="rest", capacity=1 - shape["capacity"])
        return CapacityConfig(root=QueueConfig(name=ROOT, kids=(leaf, rest)), maximum=(PLENTY, PLENTY))

    def _sights(self) -> Words:
        scheduler, scale = self._scheduler, self._scale
        reserved = [node.id for node in scheduler.nodes.values() if node.reservation is not None]
        return {
            "used": lambda apps: {app: scheduler.apps[app].used[0] / scale for app in apps},
            "reserved": lambda _: scheduler.leaf("leaf").reserved[0] / scale,
            "reserved_on": lambda _: reserved[0] if reserved else None,
            "nodes": lambda _: [_used_on(scheduler, node) / scale for node in scheduler.nodes],
        }


@kind("cs_locality_script", {"unit", "nodes", "cluster_nodes", "conf", "ask", "offers"})
def cs_locality_script(case: Case) -> Checks:
    """Offers to one application: [node, what was placed, opportunities missed, asks left]."""
    scheduler = _one_application(case)
    _ask_for(scheduler, _PRIORITY, case["ask"], _unit(case))
    got = []
    for node, *_ in case["offers"]:
        placed = _placed(scheduler.offer(node))
        app = scheduler.apps["app"]
        got.append([node, placed, app.missed.get(_PRIORITY, 0), _left(scheduler, _PRIORITY)])
    yield Check("", case["offers"], got)


@kind("cs_priority_script", {"unit", "nodes", "cluster_nodes", "conf", "ask_p1", "ask_p2", "offers_p1_left_p2_left"})
def cs_priority_script(case: Case) -> Checks:
    """Offers to one application with two priorities: [node, what was placed for which, asks left of each]."""
    scheduler = _one_application(case)
    for priority in (1, 2):
        _ask_for(scheduler, priority, case[f"ask_p{priority}"], _unit(case))
    got = []
    for node, *_ in case["offers_p1_left_p2_left"]:
        actions = scheduler.offer(node)
        placed = _placed(actions)
        what = placed if placed == "none" else f"{placed} p{actions[-1].priority}"
        got.append([node, what, _left(scheduler, 1), _left(scheduler, 2)])
    yield Check("", case["offers_p1_left_p2_left"], got)


def _one_application(case: Case) -> CapacityScheduler:
    scheduler = CapacityScheduler(_settings(CapacityConfig(delay=LocalityDelay()), case.get("conf", {})))
    nodes = dict(case["nodes"])
    for extra in range(case["cluster_nodes"] - len(nodes)):
        nodes[f"further node {extra}"] = f"further rack {extra}"
    if "nodes" in case and len(nodes) != case["cluster_nodes"]:
        # The test names a node more than its cluster counts: nodes that are never offered go first.
        offered = {row[0] for row in case.get("offers", case.get("offers_p1_left_p2_left", ()))}
        for node in [node for node in nodes if node not in offered][: len(nodes) - case["cluster_nodes"]]:
            del nodes[node]
    for node, rack in nodes.items():
        scheduler.add_node(node, (PLENTY, PLENTY), rack)
    scheduler.add_app("app", _QUEUE)
    return scheduler


def _ask_for(scheduler: CapacityScheduler, priority: int, ask: Mapping[str, Any], scale: int) -> None:
    only(ask, {"size", "host_of", "rack", "any"}, "key of an ask")
    counts = {**ask.get("host_of", {}), **ask.get("rack", {}), ANY: ask["any"]}
    scheduler.ask("app", priority, (ask["size"] * scale, 1), counts)


def _placed(actions: list[Action]) -> str:
    grants = [action for action in actions if isinstance(action, Grant)]
    if not grants:
        return "none"
    level = grants[0].level.value
    return level if level == "off_switch" else f"{level}_local"


def _left(scheduler: CapacityScheduler, priority: int) -> int:
    ask = scheduler.apps["app"].asks.get(priority)
    return 0 if ask is None else ask.open
