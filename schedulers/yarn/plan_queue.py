"""The CapacityScheduler with a queue for each current reservation, as Hadoop's plan follower has it.

Follows ...resourcemanager.reservation.CapacitySchedulerPlanFollower over a PlanQueue: queues below the root come with
reservations and go with them, and applications move between them and the queue of all without a reservation.
"""

from __future__ import annotations

import msgspec

from schedulers.yarn.capacity import CapacityScheduler
from schedulers.yarn.queues import LeafQueue, QueueConfig


class PlanScheduler(CapacityScheduler):
    """A CapacityScheduler whose leaf queues below the root change while applications run."""

    def set_queues(self, root: QueueConfig) -> None:
        """AbstractSchedulerPlanFollower.synchronizePlan: queues by name; those that go hold no application."""
        there = {kid.config.name: kid for kid in self.root.kids}
        self.root.kids = [there.get(kid.name) or LeafQueue(kid, self.root, self.zero) for kid in root.kids]
        self._leaves = {leaf.path: leaf for leaf in self.root.leaves()}
        self.configure(msgspec.structs.replace(self.config, root=root))

    def move(self, name: str, queue: str) -> None:
        """CapacityScheduler.moveApplication: with its containers and asks; reservations of nodes stay behind."""
        app = self.apps[name]
        for by_node in list(app.reservations.values()):
            for reservation in list(by_node.values()):
                self._forget(reservation)
        asks = list(app.asks.values())
        for ask in asks:
            self._close(app, ask.priority)
        used, runs = app.used, app.active
        self._held(app, tuple(-amount for amount in used))
        self._app_removed(app)
        app.queue, app.active, app.rank = queue, False, ()
        self._app_added(app, 0)
        leaf = self._leaf_of[name]
        if runs and not app.active:  # running applications count as activated, whatever the limits say now
            self._start(leaf, leaf.users[app.user], app, app.am_demand or self.zero)
        self._held(app, used)
        for ask in asks:
            self.ask(name, ask.priority, ask.demand, ask.places)
