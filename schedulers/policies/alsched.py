"""alsched: wishes weighed against each other in space alone, without times."""

from __future__ import annotations

from schedulers.core.policy import policies
from schedulers.planning.tetrisched.leasing import Leasing


@policies.register("alsched", source="alsched (SoCC'12); STRL without times, as in TetriSched (EuroSys'16), section 4")
class Alsched(Leasing):
    """Starts the tasks whose wishes for what is free now are worth most together; needs no estimates."""
