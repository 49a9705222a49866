"""Scripts of node heartbeats from YARN's own tests, fed to the scheduler as facts.

Only what the core models is run: one queue, one priority, asks for any node, containers per heartbeat.
Anything else in a script makes the case a SKIP that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rm_emulator.cases.kinds import Case, Check, Checks, Malformed, Unsupported, kind, only
from rm_emulator.engine.sizes import Sizes
from schedulers.core.events import (
    ContainerStarted,
    Heartbeat,
    JobChanged,
    JobSubmitted,
    NodeAdded,
)
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler

_MULTIPLE: Final = "per-node-heartbeat.multiple-assignments-enabled"
_CONTAINERS: Final = "per-node-heartbeat.maximum-container-assignments"
_OFF_SWITCH: Final = "per-node-heartbeat.maximum-offswitch-assignments"
_PLENTY: Final = 1_000_000


@kind("cs_script", {"unit", "conf", "script"})
def cs_script(case: Case) -> Checks:
    """CapacityScheduler with its default calculator, which looks at memory only, and one FIFO queue.

    Asks for '*' count as off-switch, of which a node gets one per heartbeat unless the setting says more.
    """
    gigabytes = case.get("unit") == "GB"
    low = 1 if gigabytes else 1024
    sizes = Sizes(minimum=(low,), increment=(low,), maximum=(_PLENTY,))
    settings = {_MULTIPLE: True, _CONTAINERS: 100, _OFF_SWITCH: 1}
    yield from _Script(case, ("memory",), sizes, settings, _per_heartbeat).run()


@kind("fs_script", {"unit", "conf", "script"})
def fs_script(case: Case) -> Checks:
    """FairScheduler with a single application: no order to decide, one container per heartbeat, sizes by increment."""
    apps = [step["submit"]["app"] for step in case["script"] if "submit" in step]
    if len(apps) > 1:
        raise Unsupported("several applications under FairScheduler are not supported")
    sizes = Sizes(minimum=(0, 0), increment=(1024, 1), maximum=(10240, _PLENTY))
    yield from _Script(case, ("memory", "cpu"), sizes, {"assignmultiple": False}, lambda _: 1).run()


def _per_heartbeat(settings: Mapping[str, Any]) -> int | None:
    if not settings[_MULTIPLE]:
        return 1
    limits = [settings[key] for key in (_CONTAINERS, _OFF_SWITCH) if settings[key] >= 0]
    return min(limits) if limits else None


class _Script:
    """One script on one scheduler. limit: containers per heartbeat by the settings in force."""

    def __init__(
        self,
        case: Case,
        resources: tuple[str, ...],
        sizes: Sizes,
        settings: dict[str, Any],
        limit: Callable[[Mapping[str, Any]], int | None],
    ) -> None:
        self._steps: list[Mapping[str, Any]] = case["script"]
        self._resources, self._sizes, self._settings, self._limit = resources, sizes, settings, limit
        only(case.get("conf", {}), settings, "setting")
        settings.update(case.get("conf", {}))
        config = SchedulerConfig(resources=resources, policy={"kind": "fifo"}, containers_per_offer=limit(settings))
        self._scheduler = Scheduler(config)
        self._asks = self._all_asks()
        self._asked = dict.fromkeys(self._asks, 0)
        self._queue_of: dict[str, str] = {}
        self._at = 0

    def run(self) -> Checks:
        """Every `expect` of the script in one check: what it says and what is so then."""
        words: dict[str, Callable[[Any], None]] = {
            "node": self._node,
            "submit": self._submit,
            "am_running": self._run_master,
            "ask": self._ask,
            "hb": self._heartbeats,
            "set": self._set,
            "update": lambda _: None,  # shares are never stale here
        }
        expected, got = [], []
        for step in self._steps:
            only(step, {*words, "expect"}, "step")
            for word, value in step.items():
                if word == "expect":
                    expected.append(value)
                    got.append(self._seen(value))
                else:
                    words[word](value)
        yield Check("", expected, got)

    # -- steps ----------------------------------------------------------------------------------

    def _node(self, node: Mapping[str, Any]) -> None:
        only(node, {"id", "mem", "cpu", "rack"}, "key of a node")
        capacity = (node["mem"], node.get("cpu", 0))[: len(self._resources)]
        self._say(NodeAdded(self._tick(), Node(id=node["id"], capacity=capacity, rack=node.get("rack", ""))))

    def _submit(self, submit: Mapping[str, Any]) -> None:
        name = submit["app"]
        self._queue_of[name] = submit["queue"]
        stages = tuple(
            Stage(name=f"ask{i}", tasks=ask["n"], demand=self._demand(ask)) for i, ask in enumerate(self._asks[name])
        )
        job = Job(id=name, stages=stages, queue=submit["queue"])
        self._say(JobSubmitted(self._tick(), job, asks="asked"))
        for _ in range(len(submit.get("ask", ())) + ("am" in submit)):
            self._next_ask(name)

    def _run_master(self, app: str) -> None:
        """The nodes beat in turn until the application master has its container; then it runs."""
        job = self._scheduler.state.jobs[app]
        for node in list(self._scheduler.state.nodes):
            if not job.running:
                self._heartbeats([node])
        if not job.running:
            raise Malformed(f"the application master of {app} finds no room")
        for container in [c.id for c in self._scheduler.state.containers.values() if c.job == app]:
            self._say(ContainerStarted(self._tick(), container))

    def _ask(self, ask: Mapping[str, Any]) -> None:
        self._next_ask(ask["app"])

    def _heartbeats(self, nodes: list[str]) -> None:
        for node in nodes:
            self._say(Heartbeat(self._tick(), node))

    def _set(self, settings: Mapping[str, Any]) -> None:
        only(settings, self._settings, "setting")
        self._settings.update(settings)
        scheduler = self._scheduler
        scheduler.config = msgspec.structs.replace(scheduler.config, containers_per_offer=self._limit(self._settings))

    # -- what is so -----------------------------------------------------------------------------

    def _seen(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        state = self._scheduler.state
        only(expected, {"live", "used", "node_used", "queue_used", "cluster_free"}, "expectation")
        seen: dict[str, Any] = {}
        for what, value in expected.items():
            if what == "live":
                seen[what] = {app: state.jobs[app].running for app in value}
            elif what == "used":
                seen[what] = {app: state.jobs[app].used[0] for app in value}
            elif what == "node_used":
                seen[what] = {n: state.nodes[n].spec.capacity[0] - state.nodes[n].free[0] for n in value}
            elif what == "queue_used":
                seen[what] = {queue: self._used_by(queue) for queue in value}
            else:
                seen[what] = [c - u for c, u in zip(state.capacity, state.used, strict=True)]
        return seen

    def _used_by(self, queue: str) -> list[int]:
        jobs = [job for job in self._scheduler.state.jobs.values() if self._queue_of[job.id] == queue]
        return [sum(job.used[r] for job in jobs) for r in range(len(self._resources))]

    # -- asks -----------------------------------------------------------------------------------

    def _all_asks(self) -> dict[str, list[Mapping[str, Any]]]:
        """Per application what it asks for, in order: a stage of its job each, launchable once asked for."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for step in self._steps:
            submit, ask = step.get("submit"), step.get("ask")
            if submit is not None:
                only(submit, {"app", "queue", "ask", "am", "user"}, "key of an application")
                master = [{"mem": submit["am"][0], "cpu": 0, "n": 1}] if "am" in submit else []
                found[submit["app"]] = [*master, *submit.get("ask", ())]
            elif ask is not None:
                found[ask["app"]].append(ask)
        for app, asks in found.items():
            own = [ask for ask in asks if "prio" in ask or "at" in ask or "app" in ask]
            if any(ask.get("at", "*") != "*" for ask in asks):
                raise Unsupported("asks for one node or rack are not supported")
            if len({ask.get("prio", 0) for ask in own}) > 1 or sum("app" in ask for ask in asks) > 1:
                raise Unsupported(f"asks of several priorities, or that replace another, are not supported ({app})")
            for ask in asks:
                only(ask, {"app", "mem", "cpu", "n", "prio", "at"}, "key of an ask")
        return found

    def _demand(self, ask: Mapping[str, Any]) -> tuple[int, ...]:
        return self._sizes.normalised((ask["mem"], ask.get("cpu", 0))[: len(self._resources)])

    def _next_ask(self, app: str) -> None:
        self._say(JobChanged(self._tick(), app, (self._asked[app],)))
        self._asked[app] += 1

    def _say(self, event: Any) -> None:
        self._scheduler.handle(event)

    def _tick(self) -> int:
        self._at += 1
        return self._at
