"""Stages whose pods could not start where they were placed: they wait, each time twice as long, and say why.

kube-scheduler knows what the core does not (volumes, ports, resources that are not configured), and kubelets know what
neither does. Without a wait the core would give the same room to the same pod again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

#: The first wait, and the longest, in ms.
FIRST_MS: Final = 1_000
LONGEST_MS: Final = 300_000

#: A stage: the core's id of its job, and its index.
Stage = tuple[str, int]


class Setback(msgspec.Struct):
    """A stage's. rounds: how often in a row. until: when it may start again, ms. why: somebody else's own words."""

    rounds: int
    until: int
    why: str

    @property
    def wait_ms(self) -> int:
        """How long it waits in this round."""
        return int(min(LONGEST_MS, FIRST_MS * 2 ** min(self.rounds - 1, 20)))


class Setbacks:
    """Those of one term; a new leader begins anew. withdraw, ask: tell the core of a stage."""

    def __init__(self, withdraw: Callable[[Stage], None], ask: Callable[[Stage], None]) -> None:
        self._stages: dict[Stage, Setback] = {}
        self._withdraw, self._ask = withdraw, ask

    def note(self, stage: Stage, why: str, *, placed: int, now: int) -> None:
        """A pod that was placed at some time could not start. All that was placed before the wait is one round."""
        known = self._stages.get(stage)
        if known is not None and placed < known.until:
            known.why = why
            return
        setback = Setback(known.rounds + 1 if known is not None else 1, 0, why)
        setback.until = now + setback.wait_ms
        self._stages[stage] = setback
        self._withdraw(stage)

    def resume(self, stage: Stage, now: int) -> None:
        """It need not wait any longer: kube-scheduler has found nodes for a pod of it, or bound one."""
        known = self._stages.get(stage)
        if known is not None:
            known.until = min(known.until, now)
        self._ask(stage)

    def over(self, stage: Stage) -> None:
        """A pod of the stage has started to run."""
        if self._stages.pop(stage, None) is not None:
            self._ask(stage)

    def ask_due(self, now: int) -> None:
        """Stages that have waited long enough may start again."""
        for stage, setback in self._stages.items():
            if setback.until <= now:
                self._ask(stage)

    def of(self, job: str, now: int) -> Iterator[Setback]:
        """The job's stages that wait now."""
        return (s for (owner, _), s in self._stages.items() if owner == job and s.until > now)

    def jobs(self, now: int) -> Iterator[str]:
        """Jobs of which a stage waits now; one may come more than once."""
        return (job for (job, _), setback in self._stages.items() if setback.until > now)

    def forget(self, jobs: Callable[[str], bool]) -> None:
        """Keep those of jobs that are still there."""
        self._stages = {stage: setback for stage, setback in self._stages.items() if jobs(stage[0])}
