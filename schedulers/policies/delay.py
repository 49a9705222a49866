"""Delay scheduling: fair sharing with a short wait of jobs for a node with their input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from schedulers.core.abilities import OneTaskEach
from schedulers.core.events import Event, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions, TieSetting, Triggers, policies
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState
from schedulers.kit.inputs import Inputs, Near
from schedulers.kit.ordered import ByShare, Key, Measure, place_by_share
from schedulers.planning.locality import skips_for

Skips = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _Wait(msgspec.Struct):
    """Wait of a job since its last launch."""

    level: int = 0
    """Places of launches without a wait: 0 only nodes with the input, 1 also their racks, 2 anywhere."""
    used: int = 0
    """Opportunities passed up, or ms waited, by the form."""
    skipped: bool = False
    """Whether the job was passed up at the last offer."""


class _Data(msgspec.Struct, frozen=True):
    """A job's input, with the wait for a node and then for a rack with the input, in the form's unit."""

    inputs: Inputs
    for_node: int
    for_rack: int


class _LocalTask(NamedTuple):
    """A possible start of a task on a node (None: any of the stage). nodes: how many on offer have room."""

    near: Near
    task: int | None
    stage: int
    node: str
    nodes: int

    def suggestion(self, job: str) -> Suggestion:
        """Where the input does not matter, the placer chooses the node."""
        return Suggestion(job, self.stage, self.node if self.near in (Near.NODE, Near.RACK) else None, self.task)


@policies.register("delay", source="Delay Scheduling (EuroSys'10), section 3")
class Delay(ByShare, OneTaskEach):
    """Fair sharing; a job passes up nodes without its input for some offers or some time, then takes any.

    Jobs go in the order of `fair`: least held per unit of weight first. A job without input on the node on offer keeps
    its place, and the next job gets the room.

    A launch on a node with the input makes the job wait anew; a launch in its rack renews only the wait for the rack
    (section 4.1); after a launch elsewhere the job takes any node until it meets its input again. A task without input
    on any node, and a gang, starts at once. An opportunity is a node on offer with room for the job: a heartbeat, or
    each such node of a cycle. Where racks are not known there is no wait for a rack.

    The policy needs input on nodes (`data` of the workload, or `hosts` of a stage), and no estimates. Clusters with
    executors are refused. On Kubernetes nothing says where input is, so `delay` decides as `fair` there. docs/delay.md
    shows how to choose the wait.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        form: Annotated[
            Literal["count", "time"],
            msgspec.Meta(description="unit of the wait: opportunities passed up (count), or time"),
        ] = "count"
        locality: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                lt=1,
                description="with count: share of tasks that shall run where their input is, from which skips without "
                "a value are computed; larger: longer waits",
            ),
        ] = 0.95
        node_skips: Annotated[
            Skips | None,
            msgspec.Meta(
                description="with count: number of opportunities passed up for a node with the input; none: computed "
                "from `locality`"
            ),
        ] = None
        rack_skips: Annotated[
            Skips | None,
            msgspec.Meta(
                description="with count: number of further opportunities passed up for the input's rack, where racks "
                "are known; none: computed from `locality`"
            ),
        ] = None
        node_wait_s: Annotated[Seconds, msgspec.Meta(description="with time: wait for a node with the input, in s")] = (
            3.0
        )
        rack_wait_s: Annotated[
            Seconds,
            msgspec.Meta(description="with time: further wait for the input's rack, in s, where racks are known"),
        ] = 3.0
        reset: Annotated[
            Literal["always", "unrefused"],
            msgspec.Meta(
                description="starts at the input that begin the wait anew: all (the paper), or only starts without a "
                "pass-up since the last one (Spark 3.1)"
            ),
        ] = "always"
        measure: Measure = "dominant"
        tie: TieSetting = "submit"

    params: Params
    triggers = Triggers(every_offer=True)

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._waits: dict[str, _Wait] = {}
        self._offered = 0  # when the last offer was
        self._data: dict[str, _Data] = {}
        self._racks: dict[str, str] | None = None

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return place_by_share(job, view, self.params.measure, self.params.tie)

    def observe(self, event: Event, view: ClusterView) -> None:
        """With other nodes, input is elsewhere."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved):
            self._racks = None
            self._data.clear()

    # -- who is served ----------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the poorest job with input here or with a long enough wait, until nothing fits."""
        self._wait_until(view.now)
        refused: set[str] = set()  # room only shrinks within an offer, so who was refused once stays refused
        while offer.has_room():
            self._refresh(view)
            served = yield from self._serve(view, offer, refused)
            if not served:
                return

    def _serve(self, view: ClusterView, offer: Offer, refused: set[str]) -> Any:
        for name in self._order:
            if name in refused:
                continue
            job = view.jobs[name]
            choice = self._find(job, view, offer)
            if choice is not None and self._may_start(job, choice.near, view):
                outcome = yield choice.suggestion(name)
                if outcome.placed:
                    self._started(name, choice.near)
                    return True
            elif choice is not None:
                self._pass_up(job, choice.nodes, view)
            refused.add(name)
        return False

    def _find(self, job: JobState, view: ClusterView, offer: Offer) -> _LocalTask | None:
        """The task nearest to its input over all stages and nodes on offer; None when nothing fits."""
        best: _LocalTask | None = None
        most = 0
        for choice in self._candidates(job, view, offer):
            most = max(most, choice.nodes)
            if best is None or choice.near < best.near:
                best = choice
            if choice.near <= Near.FREE:
                break
        return best and best._replace(nodes=most)

    def _candidates(self, job: JobState, view: ClusterView, offer: Offer) -> Iterator[_LocalTask]:
        """For each stage and node on offer with room for it, the nearest task."""
        inputs = self._data_of(job, view).inputs
        for stage in job.open_stages():
            if offer.fits(job, stage):
                nodes = view.nodes_to_suggest(job, stage, offer)
                for node in nodes:
                    yield _LocalTask(*inputs.nearest(stage, node.spec), stage.index, node.id, len(nodes))

    # -- who waits --------------------------------------------------------------------------------

    def _may_start(self, job: JobState, near: Near, view: ClusterView) -> bool:
        if near <= Near.FREE:
            return True
        wait = self._waits.get(job.id, _Wait())
        data = self._data_of(job, view)
        if near is Near.RACK and (wait.level >= 1 or wait.used >= data.for_node):
            return True
        return wait.level == 2 or wait.used >= _needed(wait, data)

    def _started(self, name: str, near: Near) -> None:
        """A launch begins the wait anew, at the level of the launch."""
        wait = self._waits.get(name)
        if near is Near.NODE:
            if wait is not None and (self.params.reset == "always" or not (wait.used or wait.skipped)):
                del self._waits[name]
        elif near is not Near.FREE:
            self._waits[name] = _Wait(1 if near is Near.RACK else 2)

    def _pass_up(self, job: JobState, nodes: int, view: ClusterView) -> None:
        wait = self._waits.setdefault(job.id, _Wait())
        wait.skipped = True
        if self.params.form == "count":
            wait.used += nodes
        if job.hold is not Reason.WAITS_FOR_LOCALITY:
            view.recheck_reason(job.id)

    def _wait_until(self, now: int) -> None:
        """Time form: jobs passed up at the last offer have waited since then."""
        since, self._offered = self._offered, now
        if self.params.form == "time":
            for wait in self._waits.values():
                if wait.skipped:
                    wait.used += now - since
                    wait.skipped = False

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """See Policy.why."""
        wait = self._waits.get(job.id)
        if wait is None or not (wait.used or wait.skipped):
            return None
        data = self._data_of(job, view)
        if any(data.inputs.has_free(stage) for stage in job.open_stages()) or self._may_start(job, Near.ANY, view):
            return None
        needed = _needed(wait, data)
        if self.params.form == "count":
            return Reason.WAITS_FOR_LOCALITY, {"missed": wait.used, "needed": needed, "unit": "opportunities"}
        waited = wait.used + (view.now - self._offered if wait.skipped else 0)
        return Reason.WAITS_FOR_LOCALITY, {"missed": waited / 1000, "needed": needed / 1000, "unit": "s"}

    # -- where input lies -------------------------------------------------------------------------

    def _data_of(self, job: JobState, view: ClusterView) -> _Data:
        data = self._data.get(job.id)
        if data is None:
            if self._racks is None:
                self._racks = {node.id: node.spec.rack for node in view.nodes.values() if not node.draining}
            inputs = Inputs(job.spec, self._racks)
            data = self._data[job.id] = _Data(inputs, *self._limits(inputs, self._racks))
        return data

    def _limits(self, inputs: Inputs, racks: Mapping[str, str]) -> tuple[int, int]:
        """How long a job waits for a node with its input, then for a rack. racks: of each node."""
        params = self.params
        known = len(set(racks.values()) - {""})
        if not inputs.tasks:
            return 0, 0
        if params.form == "time":
            return round(1000 * params.node_wait_s), round(1000 * params.rack_wait_s) if known else 0
        for_node, for_rack = params.node_skips, params.rack_skips if known else 0
        if for_node is None:
            for_node = skips_for(params.locality, len(racks), inputs.tasks, inputs.replicas)
        if for_rack is None:
            for_rack = skips_for(params.locality, known, inputs.tasks, inputs.replicas)
        return for_node, for_rack

    # -- memory -----------------------------------------------------------------------------------

    def _leave(self, name: str, view: ClusterView) -> None:
        super()._leave(name, view)
        if name not in view.jobs:
            self._waits.pop(name, None)
            self._data.pop(name, None)

    def _sort(self, view: ClusterView) -> None:
        super()._sort(view)
        self._waits = {name: wait for name, wait in self._waits.items() if name in view.jobs}
        self._data = {name: data for name, data in self._data.items() if name in view.jobs}

    def dump(self) -> Any:
        """Waits of jobs, and the time of the last offer."""
        return {"waits": msgspec.to_builtins(self._waits), "offered": self._offered}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        super().load(data, view)
        self._waits = msgspec.convert(data["waits"], dict[str, _Wait])
        self._offered = data["offered"]


def _needed(wait: _Wait, data: _Data) -> int:
    """After how long a job starts tasks anywhere."""
    return data.for_rack if wait.level else data.for_node + data.for_rack
