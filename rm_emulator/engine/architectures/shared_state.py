"""Architecture `shared_state`."""

from __future__ import annotations

from rm_emulator.engine.config import SharedState as Settings
from rm_emulator.engine.config import Thinker
from rm_emulator.engine.profile import architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import ThinkingProfile, ThinkingScheduler
from schedulers.core.decisions import Place


@architectures.register("shared_state", source="Omega (EuroSys 2013), section 3.4")
class SharedStateProfile(ThinkingProfile):
    """Omega (Schwarzkopf et al., EuroSys 2013, section 3.4): private copies of the cluster, transactional commits.

    A claim is compared with the node as of the copy for this job. The public simulator compares counters of single
    claims (google/cluster-scheduler-simulator), so that there a second claim on a node may pass after a refused first
    claim.
    """

    settings: Settings

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        self.hears_ends = self.settings.own_ends == "at_once"
        self._commits = 0
        self._last_commit = [0] * len(self.free)  # by node the last commit that placed a task there

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """The schedulers of the settings."""
        return self.settings.thinkers

    def refresh_view(self, scheduler: ThinkingScheduler) -> None:
        """Copy the free room of nodes changed by others."""
        scheduler.commits_seen = self._commits
        self.set_foreign_use(scheduler, scheduler.stale_nodes, self.free)
        # Only stale nodes are copied: a copy of all nodes for each attempt would be slow.
        scheduler.stale_nodes.clear()

    def node_changed(self, node: int, by: int) -> None:
        """Mark the node as stale for all other schedulers; a scheduler knows its own changes."""
        for scheduler in self.schedulers:
            if scheduler.number != by:
                scheduler.stale_nodes[node] = None

    def claims_choices(self, scheduler: ThinkingScheduler, chosen: list[Place]) -> bool:
        """Whether all tasks found a node, or the commit may be in parts."""
        return self.settings.commit == "incremental" or len(chosen) == scheduler.tasks_asked

    def refused_claims(self, scheduler: ThinkingScheduler, claims: list[Place]) -> list[Place]:
        """Refused claims: by conflict, and all claims for a commit as a whole."""
        against = self._sequence_conflicts if self.settings.conflict == "sequence" else self._fit_conflicts
        refused = against(scheduler, claims)
        if refused and self.settings.commit == "all_or_nothing":
            refused = claims
        self._commits += 1
        # A refused commit counts too, but leaves no mark on nodes: only placements conflict.
        gone = {claim.container for claim in refused}
        for claim in claims:
            if claim.container not in gone:
                self._last_commit[self.index[claim.node]] = self._commits
        return refused

    def _sequence_conflicts(self, scheduler: ThinkingScheduler, claims: list[Place]) -> list[Place]:
        """Claims on nodes with any placement after the copy, or closed since."""
        closed, seen = scheduler.unheard_closed, scheduler.commits_seen
        return [c for c in claims if c.node in closed or self._last_commit[self.index[c.node]] > seen]

    def _fit_conflicts(self, scheduler: ThinkingScheduler, claims: list[Place]) -> list[Place]:
        """Claims with too little room, after the earlier claims of this commit, or on a closed node."""
        left: dict[int, list[int]] = {}
        found = []
        for claim in claims:
            index = self.index[claim.node]
            room = left.setdefault(index, list(self.free[index]))
            demand = self.engine.jobs[claim.job].source.job.stages[claim.stage].demand
            fits = all(amount <= there for amount, there in zip(demand, room, strict=True))
            if not fits or claim.node in scheduler.unheard_closed:
                found.append(claim)
            else:
                left[index] = [there - amount for amount, there in zip(demand, room, strict=True)]
        return found
