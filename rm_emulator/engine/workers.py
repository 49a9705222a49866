"""The control for workers with queues and for schedulers that probe workers (Sparrow)."""

from __future__ import annotations

from rm_emulator.engine.control import Control
from schedulers.core.decider import Decider
from schedulers.core.state import ClusterState


class Workers(Control):
    """Schedulers and workers of one cluster (Sparrow, SOSP 2013): no policy has a say, and nothing is ever on offer."""

    def __init__(self, decider: Decider) -> None:
        super().__init__((decider.state,))
        # Bound directly: no call in between for each message.
        self.handle, self.explain = decider.handle, decider.explain
        self.containers = decider.state.containers

    def _state_of(self, job: str) -> ClusterState:
        return self._states[0]
