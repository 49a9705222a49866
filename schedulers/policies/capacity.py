"""YARN's CapacityScheduler: queues with guaranteed capacities, limits of users, reservations, preemption."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import MindsQueues, Preempts
from schedulers.core.model import Queue
from schedulers.core.policy import ClusterView, Triggers, policies
from schedulers.core.resources import Vector
from schedulers.yarn.capacity import CapacityConfig, CapacityScheduler
from schedulers.yarn.locality import LocalityDelay
from schedulers.yarn.policy import Size, Units, YarnPolicy
from schedulers.yarn.preemption import Fraction, Preemption
from schedulers.yarn.queues import QueueConfig
from schedulers.yarn.tree import ROUNDING, Branch, fraction, parts, tree, unknown

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class CapacityQueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue of capacity-scheduler.xml, of its parent's part. None: by the queue's declaration, see `Capacity`."""

    capacity: Percent | None = None
    maximum_capacity: Percent | None = None
    user_limit_factor: float = 1
    minimum_user_limit_percent: Percent = 100
    maximum_am_resource_percent: Fraction | None = None
    ordering: Literal["fifo", "fair"] = "fifo"
    child_ordering: Literal["utilization", "priority-utilization"] = "utilization"
    priority: int = 0
    preemptible: bool | None = None


@policies.register("capacity", source="Hadoop 3.3 CapacityScheduler; checked against real runs (yarn-sls-measured)")
class Capacity(YarnPolicy[CapacityScheduler], Preempts, MindsQueues):
    """Serves the queue with the least use of its capacity, in it the first application within all limits.

    The policy follows the classes of Hadoop 3.3's CapacityScheduler method by method: the loop of a node's heartbeat,
    parent and leaf queues, the allocator of an application on a node, limits of users, the preemption monitor. It was
    checked against real runs (docs/hadoop.md). The policy needs a tree of queues with capacities, and no estimates;
    clusters with executors are refused.

    **Queues.** `queues` has settings by path: the names from `root` down, so a queue `x` declared with `parent: a` is
    `root.a.x`. A path without a queue is a mistake of the scenario. A queue without settings of its own has its
    guaranteed capacity, or a capacity by its weight among its siblings from the part guaranteed to nobody; its maximum
    is its `max`, in its largest share.

    | setting of a queue | default | meaning |
    | --- | --- | --- |
    | `capacity` | none | guaranteed part of the parent, in %; none: the declared `guaranteed`, else by weight |
    | `maximum_capacity` | none | largest part of the parent's capacity, in %; none: the queue's `max`, else 100 |
    | `user_limit_factor` | 1 | largest use of a single user, as a multiple of the queue's capacity |
    | `minimum_user_limit_percent` | 100 | smallest part of the queue that a user may claim beside other users, in % |
    | `maximum_am_resource_percent` | none | part of the queue for application masters; none: the policy's setting |
    | `ordering` | `fifo` | order of applications: `fifo` or `fair` |
    | `child_ordering` | `utilization` | order of child queues: `utilization` or `priority-utilization` |
    | `priority` | 0 | priority among siblings, for `priority-utilization` |
    | `preemptible` | none | whether the monitor may take containers of the queue; none: the declared queue's value |

    **Preemption.** `preemption` has `enabled` (false), `period_ms` (3000), `max_wait_before_kill_ms` (15000),
    `total_per_round` (0.1), `max_ignored_over_capacity` (0.1) and `natural_termination_factor` (0.2), as
    `yarn.resourcemanager.monitor.capacity.preemption.*` in Hadoop. The Kubernetes operator stops no pods and refuses
    `preemption`.

    **Modelled:** capacities and maximum capacities, also of inner queues; limits of users; limits on application
    masters, of the queue and of the user; locality delay for nodes and racks; a single container far from its input
    per beat; reservations, and the search of other nodes during a reservation; FIFO and fair order inside a queue;
    priorities of queues; preemption between queues, with marks, waiting time, budget per round, dead zone and natural
    termination.

    **Surprising, and as in Hadoop:**

    - A user with `user_limit_factor: 1` stops a single container above the queue's capacity, even in an empty cluster.
    - An ask at the head of a queue, too large for the rest of the queue, holds up the applications behind it.
    - With `calculator: default` (the default of Hadoop, not of this policy) CPU limits nothing.
    - Shares are computed in floats of 32 bits and cut off: 70 % of 100 GB is 71679 MB.
    - The monitor takes whole containers. A queue with a guarantee of half a container gets a container, loses it, and
      gets it again, as long as another queue waits. Make guarantees a whole number of containers.

    No setting switches these off. With `minimum_allocation`, containers are multiples of it and CPU counts in whole
    vcores, as in YARN; without it, sizes are taken as asked for, in thousandths of a core. Like YARN, the policy gives
    few containers at each beat and reserves nodes, so a task may wait beside a free node. In cycles (`events`,
    `kubernetes`) a cycle stands for beats of every node with room. Limits that only the core keeps (such as
    `per_user.limit`) are not planned for; a task refused by the core is set aside for the beat and holds up nobody.

    **Not modelled:** asynchronous scheduling, node labels, placement constraints, lazy and intra-queue preemption,
    queue mappings, queues created on demand, absolute resources as capacities, size-based weight in fair order.
    Reservations always look on (`reservations-continue-look-all-nodes`) and the rack's delay always resets in full
    (`rack-locality-full-reset`): Hadoop's defaults.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings, with the defaults of Hadoop 3.3.5."""

        queues: Annotated[
            Mapping[str, CapacityQueueSettings],
            msgspec.Meta(description="settings of queues by path, such as root.a"),
        ] = {}
        node_locality_delay: Annotated[
            int,
            msgspec.Meta(
                description="number of opportunities that an application passes up for a node with its input "
                "(node-locality-delay); larger: more local tasks, longer waits"
            ),
        ] = 40
        rack_locality_additional_delay: Annotated[
            int,
            msgspec.Meta(
                description="number of further opportunities passed up for the input's rack "
                "(rack-locality-additional-delay); -1: by the application's open asks"
            ),
        ] = -1
        maximum_offswitch_assignments: Annotated[
            int,
            msgspec.Meta(
                description="limit on containers far from their input per beat "
                "(per-node-heartbeat.maximum-offswitch-assignments); -1: none"
            ),
        ] = 1
        multiple_assignments: Annotated[
            bool,
            msgspec.Meta(
                description="several containers per beat (per-node-heartbeat.multiple-assignments-enabled); false: a "
                "single container"
            ),
        ] = True
        maximum_container_assignments: Annotated[
            int,
            msgspec.Meta(
                description="limit on containers per beat (per-node-heartbeat.maximum-container-assignments); -1: none"
            ),
        ] = 100
        maximum_am_resource_percent: Annotated[
            Fraction,
            msgspec.Meta(
                description="largest part of a queue for application masters (maximum-am-resource-percent); larger: "
                "more applications at once"
            ),
        ] = 0.1
        minimum_allocation: Annotated[
            Size | None,
            msgspec.Meta(
                description="smallest container and step of sizes, [MB, vcores] "
                "(yarn.scheduler.minimum-allocation-*); none: sizes as asked for"
            ),
        ] = None
        maximum_allocation: Annotated[
            Size | None,
            msgspec.Meta(
                description="largest container, [MB, vcores] (yarn.scheduler.maximum-allocation-*); none: no limit"
            ),
        ] = None
        calculator: Annotated[
            Literal["dominant", "default"],
            msgspec.Meta(
                description="resources that count (resource-calculator): memory and CPU (dominant), or memory alone "
                "(default)"
            ),
        ] = "dominant"
        preemption: Annotated[
            Preemption,
            msgspec.Meta(
                description="monitor that takes containers of queues above their capacity "
                "(yarn.resourcemanager.monitor.capacity.preemption.*)"
            ),
        ] = Preemption()

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues."""
        return ("weight", "guaranteed", "preemptible") if params.preemption.enabled else ("weight", "guaranteed")

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if params.preemption.enabled:
            self.triggers = Triggers(every_beat=True, period_ms=params.preemption.period_ms)
        else:
            self.without = frozenset({Preempts})

    @classmethod
    def mistakes(
        cls, params: Params, queues: Mapping[str, Queue], used: Collection[str]
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """See MindsQueues.mistakes: unknown queues, and capacities refused by Hadoop's CapacityScheduler."""
        yield from ((("queues", path), message) for path, message in unknown(params.queues, queues, used))
        for path, mine in params.queues.items():
            if (
                mine.capacity is not None
                and mine.maximum_capacity is not None
                and mine.maximum_capacity < mine.capacity
            ):
                message = f"maximum_capacity {mine.maximum_capacity:g} is below the capacity, {mine.capacity:g}"
                yield ("queues", path, "maximum_capacity"), message
        for branch in tree(queues, used).all():
            own = {kid.path: params.queues[kid.path].capacity for kid in branch.kids if kid.path in params.queues}
            given = {path: part for path, part in own.items() if part is not None}
            total = sum(given.values())
            if total > 100 * (1 + ROUNDING) or (len(given) == len(branch.kids) > 0 and total < 100 * (1 - ROUNDING)):
                message = f"the capacities of {', '.join(given)} make {total:g} together, not 100"
                yield ("queues", next(reversed(given)), "capacity"), message

    @property
    def _whole(self) -> bool:
        return self.params.minimum_allocation is not None

    def _make(self, view: ClusterView, units: Units) -> CapacityScheduler:
        params = self.params
        return CapacityScheduler(
            CapacityConfig(
                root=_config(tree(view.queues, view.queue_names()), params.queues, tuple(view.capacity)),
                resources=units.names,
                calculator="memory" if params.calculator == "default" else "dominant",
                minimum=units.size(params.minimum_allocation, 0),
                maximum=units.size(params.maximum_allocation, 2**31),
                delay=LocalityDelay(
                    node=params.node_locality_delay, rack_additional=params.rack_locality_additional_delay
                ),
                multiple=params.multiple_assignments,
                most_containers=params.maximum_container_assignments,
                most_off_switch=params.maximum_offswitch_assignments,
                am_share=params.maximum_am_resource_percent,
                monitor=params.preemption.config(),
            )
        )


def _config(
    branch: Branch,
    settings: Mapping[str, CapacityQueueSettings],
    cluster: Vector,
    capacity: float = 1.0,
    above: tuple[float, float] = (1.0, 1.0),
) -> QueueConfig:
    """capacity: of its parent's part. above: the parent's own part of the cluster, and the parent's maximum."""
    mine = settings.get(branch.path, CapacityQueueSettings())
    maximum = _maximum(branch, mine, cluster, capacity, above)
    here = (above[0] * capacity, above[1] * maximum)
    shares = parts(branch.kids, [_own(kid, settings, cluster, here[0]) for kid in branch.kids])
    return QueueConfig(
        name=branch.name,
        capacity=capacity,
        maximum=maximum,
        user_limit=mine.minimum_user_limit_percent,
        user_limit_factor=mine.user_limit_factor,
        am_share=mine.maximum_am_resource_percent,
        priority=mine.priority,
        ordering=mine.ordering,
        child_order=mine.child_ordering,
        preemption=branch.queue.preemptible if mine.preemptible is None else mine.preemptible,
        kids=tuple(
            _config(kid, settings, cluster, share, here) for kid, share in zip(branch.kids, shares, strict=True)
        ),
    )


def _own(branch: Branch, settings: Mapping[str, CapacityQueueSettings], cluster: Vector, whole: float) -> float | None:
    """Capacity set for a queue, of its parent's part; whole: the parent's part, of the cluster."""
    mine = settings.get(branch.path)
    if mine is not None and mine.capacity is not None:
        return mine.capacity / 100
    part = fraction(branch.queue.guaranteed, cluster)
    return None if part is None or not whole else part / whole


def _maximum(
    branch: Branch, mine: CapacityQueueSettings, cluster: Vector, capacity: float, above: tuple[float, float]
) -> float:
    if mine.maximum_capacity is not None:
        return max(capacity, mine.maximum_capacity / 100)
    limit = fraction(branch.queue.max, cluster)
    return 1.0 if limit is None else min(1.0, max(capacity, limit / above[1]))
