"""Scripts of node heartbeats from the tests of YARN's FairScheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from rm_emulator.known_answers.checks import Case, Check, Checks, kind, only
from schedulers.yarn.capacity import CapacityScheduler
from schedulers.yarn.fair import FairConfig, FairScheduler
from schedulers.yarn.fair_queues import ROOT, FairQueueConfig
from schedulers.yarn.records import ANY
from schedulers.yarn.vectors import Vector

_SETTINGS: Final = {
    "assignmultiple": "multiple",
    "dynamic.max.assign": "dynamic",
    "max.assign": "most_containers",
    "reservation-threshold.increment-multiple": "reservation_multiple",
    "reservable-nodes": "reservable_nodes",
    "default_policy": "policy",
}
_QUEUE_SETTINGS: Final = {
    "weight": "weight",
    "min": "minimum",
    "max": "most",
    "max_child": "most_kid",
    "max_am_share": "am_share",
    "policy": "policy",
}
_RACK: Final = "/default-rack"
PLENTY: Final = 1024 * 1024
GB: Final = 1024


@kind("fs_script", {"conf", "script", "policy", "queues"})
def fs_script(case: Case) -> Checks:
    """Every `expect` of the script in one check: what it says and what is so then."""
    yield from FairScript(case).run()


S = TypeVar("S", CapacityScheduler, FairScheduler)
Words = dict[str, Callable[[Any], Any]]


class Script(ABC, Generic[S]):
    """Steps with an `expect` here and there; one ms between steps."""

    _scheduler: S

    def __init__(self, case: Case) -> None:
        self._steps, self._now, self._scale = case["script"], 0, GB if case.get("unit") == "GB" else 1

    @abstractmethod
    def _words(self) -> Words:
        """What a step may do."""

    @abstractmethod
    def _sights(self) -> Words:
        """What may be expected: for each word, what is so now of the things that the case names."""

    def run(self) -> Checks:
        """Steps in order; all that was expected and seen in one check."""
        words: Words = self._words()
        expected, got = [], []
        for step in self._steps:
            only(step, {*words, "expect"}, "step")
            for word, value in step.items():
                self._now += 1
                if word == "expect":
                    expected.append(value)
                    got.append(self._seen(value))
                else:
                    words[word](value)
        yield Check("", expected, got)

    def _seen(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        sights = self._sights()
        only(expected, sights, "expectation")
        return {what: sights[what](value) for what, value in expected.items()}

    def _node(self, node: Mapping[str, Any]) -> None:
        only(node, {"id", "mem", "cpu", "rack"}, "key of a node")
        capacity = (node["mem"] * self._scale, node.get("cpu", PLENTY))
        self._scheduler.add_node(node["id"], capacity, node.get("rack", _RACK))

    def _join(self, submit: Mapping[str, Any], am: Vector | None) -> None:
        """An application comes with what it asks for. am: the size of its master, None where it has none."""
        self._scheduler.add_app(submit["app"], submit["queue"], submit.get("user", "user"), now=self._now, am=am)
        for ask in submit.get("ask", ()):
            self._ask({"app": submit["app"], **ask})

    @abstractmethod
    def _ask(self, ask: Mapping[str, Any]) -> None:
        """An application asks for containers."""

    def _beat(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._scheduler.beat(node, self._now)

    def _done(self, done: Mapping[str, Any]) -> None:
        for container in list(self._scheduler.apps[done["app"]].containers)[: done["n"]]:
            self._scheduler.container_ended(container)

    def _live(self, apps: Iterable[str]) -> dict[str, int]:
        return {app: len(self._scheduler.apps[app].containers) for app in apps}

    def _reservations(self, apps: Iterable[str]) -> dict[str, int]:
        return {app: sum(map(len, self._scheduler.apps[app].reservations.values())) for app in apps}


class FairScript(Script[FairScheduler]):
    """One script on one scheduler, with the settings that all of these tests begin with."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._queues: dict[str, dict[str, Any]] = {}
        for name, settings in case.get("queues", {}).items():
            only(settings, _QUEUE_SETTINGS, f"queue '{name}': setting")
            self._queues[name] = dict(settings)
        for name, policy in case.get("policy", {}).items():
            self._queues.setdefault(name, {})["policy"] = policy
        only(case.get("conf", {}), _SETTINGS, "setting")
        self._conf = {_SETTINGS[key]: value for key, value in case.get("conf", {}).items()}
        self._scheduler = FairScheduler(self._config())

    def _words(self) -> Words:
        return {
            "node": self._node,
            "submit": self._submit,
            "ask": self._ask,
            "update": lambda _: self._scheduler.update(self._now),
            "hb": self._beat,
            "done": self._done,
            "finish_app": self._scheduler.remove_app,
            "set": self._set,
        }

    # -- steps ----------------------------------------------------------------------------------

    def _submit(self, submit: Mapping[str, Any]) -> None:
        only(submit, {"app", "queue", "user", "ask", "am"}, "key of an application")
        self._join(submit, tuple(submit["am"]) if "am" in submit else None)

    def _ask(self, ask: Mapping[str, Any]) -> None:
        only(ask, {"app", "mem", "cpu", "n", "prio", "at"}, "key of an ask")
        counts = places(self._scheduler.nodes, ask.get("at", ANY), ask["n"])
        self._scheduler.ask(ask["app"], ask.get("prio", 1), (ask["mem"], ask["cpu"]), counts)

    def _set(self, settings: Mapping[str, Any]) -> None:
        for key, value in settings.items():
            queue, _, name = key.rpartition(".")
            if key in _SETTINGS:
                self._conf[_SETTINGS[key]] = value
            else:
                only({name: value}, _QUEUE_SETTINGS, "setting")
                self._queues.setdefault(queue, {})[name] = value
        self._scheduler.configure(self._config())

    # -- settings -------------------------------------------------------------------------------

    def _config(self) -> FairConfig:
        names = {name for name in self._queues if name != ROOT}
        return FairConfig(
            root=self._queue(ROOT, "", names), minimum=(0, 0), maximum=(10240, PLENTY),
            **{"reservation_multiple": 0.09, **self._conf},
        )  # fmt: skip

    def _queue(self, name: str, path: str, names: Iterable[str]) -> FairQueueConfig:
        settings = {_QUEUE_SETTINGS[key]: value for key, value in self._queues.get(path or ROOT, {}).items()}
        for key in ("minimum", "most", "most_kid"):
            if key in settings:
                settings[key] = tuple(settings[key])
        start = f"{path}." if path else ""
        kids = dict.fromkeys(other[len(start) :].split(".")[0] for other in names if other.startswith(start))
        below = tuple(self._queue(kid, start + kid, names) for kid in sorted(kids))
        return FairQueueConfig(name=name, kids=below, **settings)

    # -- what is so -----------------------------------------------------------------------------

    def _sights(self) -> Words:
        scheduler = self._scheduler
        return {
            "live": self._live,
            "queue_used": lambda queues: {queue: list(scheduler.leaf(queue).used) for queue in queues},
            "cluster_free": lambda _: [t - u for t, u in zip(scheduler.total, scheduler.root.used, strict=True)],
            "reserved_mem": lambda apps: {app: scheduler.apps[app].reserved[0] for app in apps},
            "reserved_cpu": lambda apps: {app: scheduler.apps[app].reserved[1] for app in apps},
            "reservations": self._reservations,
            "am_used_mem": lambda queues: {queue: scheduler.leaf(queue).am_used[0] for queue in queues},
        }


def places(nodes: Mapping[str, Any], at: str, count: int) -> dict[str, int]:
    """The counts of an ask for one node (with its rack and ANY), one rack (with ANY) or ANY."""
    counts = {at: count, ANY: count}
    if at in nodes:
        counts[nodes[at].rack] = count
    return counts
