"""alsched: wishes weighed against each other in space alone, without times."""

from __future__ import annotations

from schedulers.core.policy import policies
from schedulers.planning.tetrisched.policy import PlanAheadPolicy


@policies.register("alsched", source="alsched (SoCC'12); STRL without times, as in TetriSched (EuroSys'16), section 4")
class Alsched(PlanAheadPolicy):
    """Starts the tasks with the best total worth of wishes on the free nodes; needs no estimates.

    The policy is `tetrisched` in space alone: a plan knows the nodes free now and no times. Jobs without wishes run on
    any nodes. Weights of queues are not followed, and clusters with executors are refused. docs/wishes.md explains
    wishes and values.
    """
