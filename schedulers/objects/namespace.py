"""Namespaces: of each only its labels count, by which queues are open to it."""

from __future__ import annotations

from schedulers.objects.meta import Stored


class Namespace(Stored):
    """A namespace."""
