"""Stages whose pods could not start where placed: each waits, twice as long each time, and says why.

kube-scheduler knows more than the core (volumes, ports, resources outside the configuration), and kubelets know still
more. Without a wait the core would give the same room to the same pod again and again.
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


class Backoff(msgspec.Struct):
    """A stage's back-off."""

    rounds: int
    """How often in a row."""
    until: int
    """When the stage may start again, ms."""
    why: str
    """The refusal in kube-scheduler's or the kubelet's own words."""

    @property
    def wait_ms(self) -> int:
        """Milliseconds of waiting in this round."""
        return int(min(LONGEST_MS, FIRST_MS * 2 ** min(self.rounds - 1, 20)))


class StageBackoffs:
    """The back-offs of one term; a new leader begins anew. `withdraw` and `ask` tell the core of a stage."""

    def __init__(self, withdraw: Callable[[Stage], None], ask: Callable[[Stage], None]) -> None:
        self._stages: dict[Stage, Backoff] = {}
        self._withdraw, self._ask = withdraw, ask

    def note(self, stage: Stage, why: str, *, placed: int, now: int) -> None:
        """A pod placed at time `placed` could not start. All pods placed before the wait belong to one round."""
        known = self._stages.get(stage)
        # A hundred pods of one stage fail at once: counted singly, they would mean the longest wait.
        if known is not None and placed < known.until:
            known.why = why
            return
        backoff = Backoff(known.rounds + 1 if known is not None else 1, 0, why)
        backoff.until = now + backoff.wait_ms
        self._stages[stage] = backoff
        self._withdraw(stage)

    def resume(self, stage: Stage, now: int) -> None:
        """The stage need not wait any longer: kube-scheduler has found nodes for a pod of the stage, or bound a pod."""
        known = self._stages.get(stage)
        if known is not None:
            # The rounds are kept: a stage that fails again right away waits longer, not from the start.
            known.until = min(known.until, now)
        self._ask(stage)

    def clear(self, stage: Stage) -> None:
        """A pod of the stage has started to run."""
        if self._stages.pop(stage, None) is not None:
            self._ask(stage)

    def ask_due(self, now: int) -> None:
        """Stages at the end of their wait may start again."""
        for stage, backoff in self._stages.items():
            if backoff.until <= now:
                self._ask(stage)

    def of(self, job: str, now: int) -> Iterator[Backoff]:
        """The job's stages still waiting."""
        return (backoff for (owner, _), backoff in self._stages.items() if owner == job and backoff.until > now)

    def jobs(self, now: int) -> Iterator[str]:
        """Jobs with a waiting stage; a job may come more than once."""
        return (job for (job, _), backoff in self._stages.items() if backoff.until > now)

    def forget(self, jobs: Callable[[str], bool]) -> None:
        """Drop the back-offs of jobs no longer there."""
        self._stages = {stage: backoff for stage, backoff in self._stages.items() if jobs(stage[0])}
