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
    """Serves the queue, and in it the application, furthest below its fair share; reserves nodes for the starved.

    The policy follows Hadoop 3.3's FairScheduler and was checked against real runs (docs/hadoop.md). It needs neither
    queues nor estimates: a queue appears when an application names it. Clusters with executors are refused.

    **Queues.** `queues` is Hadoop's allocation file, by path (such as `root.a`):

    | setting of a queue | default | meaning |
    | --- | --- | --- |
    | `weight` | none | weight among siblings; none: the declared queue's |
    | `min`, `max` | none | least and largest share, `[MB, vcores]` |
    | `max_am_share` | none | part of the queue's share for application masters; none: the policy's setting |
    | `ordering` | none | `fair` (memory), `drf` or `fifo`; none: `default_ordering` |
    | `max_running_apps` | none | no effect; set `max_running` on the declared queue, as `convert hadoop` does |

    **Modelled:** fair shares down the tree with minima, maxima and weights; a single container per beat, or several;
    order by memory, by dominant share, or first come; limits on application masters; locality levels by missed
    opportunities; reservations for the starved, on a twentieth of the nodes.

    **Surprising, and as in Hadoop:**

    - A new application is seen at the next update, up to `update_ms` after it came. (In cycles each cycle begins with
      an update.)
    - The share of an application is its queue's share divided by all applications of the queue, idle applications
      included.
    - With `dynamic_max_assign`, a beat goes on until more than half of the node's free room is given.
    - In the `drf` order of two resources, Hadoop looks for the second queue's dominant resource in the use of the
      first queue. The policy has the same mistake, without a setting; with three resources or more Hadoop has other
      code, without the mistake.

    Like YARN, the policy gives few containers at each beat and reserves nodes, so a task may wait beside a free node.
    In cycles (`events`, `kubernetes`) a cycle stands for beats of every node with room. Limits that only the core
    keeps are not planned for; a task refused by the core is set aside for the beat.

    **Not modelled:** preemption between queues (off by default in Hadoop, refused here), continuous scheduling with
    its delays in milliseconds, size-based weight, placement rules.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings, with the defaults of Hadoop 3.3.5."""

        queues: Annotated[
            Mapping[str, FairQueueSettings],
            msgspec.Meta(description="settings of queues by path, such as root.a (the allocation file)"),
        ] = {}
        default_ordering: Annotated[
            Ordering,
            msgspec.Meta(
                description="order in queues without `ordering` (defaultQueueSchedulingPolicy): by memory (fair), by "
                "dominant share (drf), or first come (fifo)"
            ),
        ] = "fair"
        assign_multiple: Annotated[
            bool, msgspec.Meta(description="several containers per beat (assignmultiple); false: a single container")
        ] = False
        dynamic_max_assign: Annotated[
            bool,
            msgspec.Meta(
                description="end of a beat with several containers (dynamic.max.assign): true: more than half of the "
                "node's free room is given, false: `max_assign`"
            ),
        ] = True
        max_assign: Annotated[
            int,
            msgspec.Meta(
                description="limit on containers per beat (max.assign), without `dynamic_max_assign`; -1: none"
            ),
        ] = -1
        update_ms: Annotated[
            int,
            msgspec.Meta(
                ge=1, description="period between computations of demands and shares, in ms (update-interval-ms)"
            ),
        ] = 500
        reservable_nodes: Annotated[
            float,
            msgspec.Meta(
                ge=0, le=1, description="largest part of the nodes reserved by an application (reservable-nodes)"
            ),
        ] = 0.05
        increment_multiple: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="smallest ask that reserves a node, in increments "
                "(yarn.scheduler.reservation-threshold.increment-multiple)",
            ),
        ] = 2.0
        locality_threshold_node: Annotated[
            float,
            msgspec.Meta(
                description="part of the nodes passed up for a node with the input (locality.threshold.node); larger: "
                "longer waits, -1: none"
            ),
        ] = -1
        locality_threshold_rack: Annotated[
            float,
            msgspec.Meta(
                description="part of the nodes passed up for the input's rack (locality.threshold.rack); larger: "
                "longer waits, -1: none"
            ),
        ] = -1
        max_am_share: Annotated[
            float,
            msgspec.Meta(
                description="largest part of a queue's share for application masters (queueMaxAMShareDefault); -1: all"
            ),
        ] = 0.5
        minimum_allocation: Annotated[
            Size | None,
            msgspec.Meta(
                description="smallest container, [MB, vcores] (yarn.scheduler.minimum-allocation-*); none: sizes as "
                "asked for"
            ),
        ] = None
        increment_allocation: Annotated[
            Size | None,
            msgspec.Meta(description="step of sizes, [MB, vcores]; none: `minimum_allocation`"),
        ] = None
        maximum_allocation: Annotated[
            Size | None,
            msgspec.Meta(
                description="largest container, [MB, vcores] (yarn.scheduler.maximum-allocation-*); none: no limit"
            ),
        ] = None
        preemption: Annotated[
            Literal[False],
            msgspec.Meta(
                description="preemption between queues: not modelled, only false is accepted (off by default in Hadoop)"
            ),
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
