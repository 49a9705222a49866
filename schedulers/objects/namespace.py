"""Namespaces: only labels count, for queues are open to namespaces by label."""

from __future__ import annotations

from schedulers.objects.meta import Stored


class Namespace(Stored):
    """A namespace."""
