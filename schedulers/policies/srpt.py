"""Shortest remaining processing time, by estimate."""

from __future__ import annotations

import math

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered


@policies.register("srpt", source="Schrage 1968; remaining work = estimate x unfinished tasks")
class ShortestRemaining(Ordered, NeedsEstimates):
    """Serves the job with the least estimated work left first; jobs without an estimate come last."""

    bundles = True
    ahead = True

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        left = view.remaining_ms(job)
        return (math.inf if left is None else left, view.tie(job, self.params.tie))
