"""Profile `yarn`."""

from __future__ import annotations

from rm_emulator.engine.beats import Beats
from rm_emulator.engine.containers import Container
from rm_emulator.engine.profile import profiles


@profiles.register("yarn", source="hadoop-yarn 3.3: NodeStatusUpdaterImpl, AMRMClientAsync")
class Yarn(Beats):
    """YARN on a cluster: a container's end is reported at once, by a heartbeat out of band.

    Source: hadoop-yarn 3.3, NodeStatusUpdaterImpl (a finished container of an application interrupts the wait for the
    next heartbeat) and AMRMClientAsync (the application master takes grants, counts ends and asks in its calls).
    """

    asks = "roots"
    sleeps_at_once = True

    def ended(self, container: Container) -> bool:
        """Let the node beat now; a sleeping node with its turn in this very instant comes first."""
        super().ended(container)
        # Nodes woken by the end enter the ring before the beat out of band: in a naive run no node has left the ring.
        if self._parked or self._unheard.at < len(self._unheard.entries):
            self.offer()
        self.ring.beat_now(container.index)
        return True
