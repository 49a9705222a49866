"""A plug-in: the rule that the weights of `lachesis` are a clone of."""

from __future__ import annotations

from schedulers.core.policy import ClusterView, policies
from schedulers.learned import stage_orders
from schedulers.learned.next_stage import NextStage
from schedulers.learned.routes import RouteChoices


@policies.register("longest_job", source="ours: teacher of `lachesis`")
class LongestJob(NextStage):
    """Serves the job with the longest way through it first, and of the job the stage furthest from the end."""

    def choose(self, choices: RouteChoices, view: ClusterView) -> int:
        """See NextStage."""
        return stage_orders.longest_job(choices, view, 0)
