"""Errors raised by the core. Each message has the mistake, the value seen and the values accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Root of all errors in input from users; programs print its lines and end with code 2."""

    @property
    def lines(self) -> list[str]:
        """One line per mistake, as printed."""
        return str(self).split("\n")


class SchedulerError(Exception):
    """Root of all errors of `schedulers`."""


class InvalidTransition(SchedulerError):
    """An impossible decision or a corrupt log; the message carries the story of the object concerned."""


class NotRepeatable(SchedulerError):
    """A policy that decides differently on the same facts."""


class VainSuggestions(SchedulerError):
    """A policy that suggests without end what cannot start."""


class InvalidQuantity(SchedulerError, UserError, ValueError):
    """An unreadable resource quantity."""


class InvalidJob(SchedulerError, UserError, ValueError):
    """A job with impossible counts, or with stages forming no DAG."""


class InvalidPlan(SchedulerError, ValueError):
    """An offline schedule breaking a rule, or run times, demands and machines without any valid schedule."""


class InvalidQueue(SchedulerError, ValueError):
    """A queue with impossible weights or limits."""


class InvalidParameters(SchedulerError, UserError, ValueError):
    """Parameters not accepted by a policy, placer or predictor."""


class InvalidWeights(SchedulerError, UserError, ValueError):
    """Damaged weights of a network, or weights of another architecture or version."""


class UnknownName(SchedulerError, UserError, LookupError):
    """An unregistered name; carries the nearest valid name, if any is near."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.nearest = nearest(name, self.known)
        hint = f", did you mean '{self.nearest}'?" if self.nearest else ""
        super().__init__(f"unknown {kind} '{name}'{hint} (known: {', '.join(self.known) or 'none'})")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, or None when nothing is near enough to be a typing mistake."""
    # 0.6 is difflib's own default: lower cutoffs propose words that nobody meant.
    found = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return found[0] if found else None
