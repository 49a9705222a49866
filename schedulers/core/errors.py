"""Errors that the core raises. Each message says what was wrong, the value seen and what would be accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Root of all errors in what somebody gave us; programs print its lines and end with code 2."""

    @property
    def lines(self) -> list[str]:
        """One line per mistake, as printed."""
        return str(self).split("\n")


class SchedulerError(Exception):
    """Root of all errors of `schedulers`."""


class InvalidTransition(SchedulerError):
    """An impossible decision or a corrupt log; the message carries the story of the object concerned."""


class InvalidQuantity(SchedulerError, UserError, ValueError):
    """A resource quantity that cannot be read."""


class InvalidJob(SchedulerError, UserError, ValueError):
    """A job whose stages do not form a DAG, or with impossible counts."""


class InvalidPlan(SchedulerError, ValueError):
    """An offline schedule that breaks a rule, or run times, demands and machines for which there is none."""


class InvalidQueue(SchedulerError, ValueError):
    """A queue with impossible weights or limits."""


class InvalidParameters(SchedulerError, UserError, ValueError):
    """Parameters that a policy, placer or predictor does not accept."""


class InvalidWeights(SchedulerError, UserError, ValueError):
    """A network's weights that are damaged, of another architecture, or of another version."""


class InvalidTree(SchedulerError, UserError, ValueError):
    """A decision tree that cannot be read; the message names file and line."""


class UnknownName(SchedulerError, UserError, LookupError):
    """A name that is not registered; carries the nearest valid one, if any is near."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.nearest = nearest(name, self.known)
        hint = f", did you mean '{self.nearest}'?" if self.nearest else ""
        super().__init__(f"unknown {kind} '{name}'{hint} (known: {', '.join(self.known) or 'none'})")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, or None when nothing is near enough to be a typing mistake."""
    found = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return found[0] if found else None
