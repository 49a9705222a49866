"""YARN's FairScheduler: shares of queues and of applications, reservations for the starved."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import MindsQueues
from schedulers.core.model import Queue
from schedulers.core.policy import ClusterView, Offer, Suggestions, policies
from schedulers.yarn.fair import FairConfig, FairScheduler
from schedulers.yarn.fair_queues import FairQueueConfig
from schedulers.yarn.policy import Size, Units, YarnPolicy
from schedulers.yarn.tree import Branch, tree, unknown

Ordering = Literal["drf", "fair", "fifo"]


class FairQueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue of the allocation file; min and max in [MB, vcores]. weight None: the declared queue's."""

    weight: Annotated[float, msgspec.Meta(ge=0)] | None = None
    min: Size | None = None
    max: Size | None = None
    max_am_share: float | None = None
    ordering: Ordering | None = None
    max_running_apps: Annotated[int, msgspec.Meta(ge=0)] | None = None


@policies.register("fair_yarn", source="Hadoop 3.3 FairScheduler; checked against real runs (yarn-sls-measured)")
class FairYarn(YarnPolicy[FairScheduler], MindsQueues):
    """Serves the queue, and in it the application, furthest below its fair share; reserves nodes for the starved."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings, with the defaults of Hadoop 3.3.5."""

        queues: Annotated[
            Mapping[str, FairQueueSettings], msgspec.Meta(description="settings by the queue's path, such as root.a")
        ] = {}
        default_ordering: Annotated[
            Ordering, msgspec.Meta(description="of queues that name none: by memory, by dominant share, or in order")
        ] = "fair"
        assign_multiple: Annotated[bool, msgspec.Meta(description="more than one container per beat")] = False
        dynamic_max_assign: Annotated[
            bool, msgspec.Meta(description="then until more than half of the node's free room is given")
        ] = True
        max_assign: Annotated[int, msgspec.Meta(description="else so many, -1: no limit")] = -1
        update_ms: Annotated[int, msgspec.Meta(ge=1, description="how often demands and shares are computed")] = 500
        reservable_nodes: Annotated[
            float, msgspec.Meta(ge=0, le=1, description="part of the nodes that one application may reserve")
        ] = 0.05
        increment_multiple: Annotated[
            float, msgspec.Meta(ge=0, description="asks below this many increments reserve nothing")
        ] = 2.0
        locality_threshold_node: Annotated[
            float, msgspec.Meta(description="part of the nodes that is passed up for one with the input, -1: none")
        ] = -1
        locality_threshold_rack: Annotated[float, msgspec.Meta(description="likewise for their rack")] = -1
        max_am_share: Annotated[
            float, msgspec.Meta(description="part of a queue's share that application masters may hold, -1: all")
        ] = 0.5
        minimum_allocation: Annotated[
            Size | None, msgspec.Meta(description="[MB, vcores] of the smallest container; none: sizes as asked for")
        ] = None
        increment_allocation: Annotated[
            Size | None, msgspec.Meta(description="[MB, vcores] that sizes are multiples of; the minimum by default")
        ] = None
        maximum_allocation: Annotated[
            Size | None, msgspec.Meta(description="[MB, vcores] of the largest container")
        ] = None
        preemption: Annotated[
            Literal[False], msgspec.Meta(description="between queues: not modelled (off by default in Hadoop)")
        ] = False

    params: Params
    _next_update = 0

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues."""
        return ("weight",)

    @classmethod
    def mistakes(
        cls, params: Params, queues: Mapping[str, Queue], used: Collection[str]
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """See MindsQueues.mistakes: unknown queues."""
        return ((("queues", path), message) for path, message in unknown(params.queues, queues, used))

    @property
    def _whole(self) -> bool:
        return self.params.minimum_allocation is not None

    def _make(self, view: ClusterView, units: Units) -> FairScheduler:
        params = self.params
        self._next_update = 0
        return FairScheduler(
            FairConfig(
                root=_config(tree(view.queues, view.queue_names()), params.queues, units),
                resources=units.names,
                minimum=units.size(params.minimum_allocation, 0),
                increment=units.size(params.increment_allocation or params.minimum_allocation, 0),
                maximum=units.size(params.maximum_allocation, 2**31),
                policy=params.default_ordering,
                am_share=params.max_am_share,
                multiple=params.assign_multiple,
                dynamic=params.dynamic_max_assign,
                most_containers=params.max_assign,
                reservable_nodes=params.reservable_nodes,
                reservation_multiple=params.increment_multiple,
                node_share=params.locality_threshold_node,
                rack_share=params.locality_threshold_rack,
            )
        )

    def dump(self) -> Any:
        """See Policy.dump."""
        known = super().dump()
        return known and known | {"next_update": self._next_update}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        super().load(data, view)
        self._next_update = data["next_update"] if data else 0

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Where nodes are offered in cycles, each begins with an update: nothing else would call for updates."""
        if offer.nodes is None and offer.job is None:
            self._books(view).update(view.now)
        yield from super().schedule(view, offer)

    def _catch_up(self, yarn: FairScheduler, now: int) -> None:
        """The update thread. Between facts nothing changes, so of several updates only the last counts."""
        if now >= self._next_update:
            period = self.params.update_ms
            last = now // period * period
            yarn.update(last)
            self._next_update = last + period

    def _refresh(self, yarn: FairScheduler, now: int) -> None:
        yarn.update(now)


def _config(branch: Branch, settings: Mapping[str, FairQueueSettings], units: Units) -> FairQueueConfig:
    mine = settings.get(branch.path, FairQueueSettings())
    return FairQueueConfig(
        name=branch.name,
        policy=mine.ordering,
        weight=branch.queue.weight if mine.weight is None else mine.weight,
        minimum=None if mine.min is None else units.size(mine.min, 0),
        most=None if mine.max is None else units.size(mine.max, 2**31),
        am_share=mine.max_am_share,
        kids=tuple(_config(kid, settings, units) for kid in branch.kids),
    )
