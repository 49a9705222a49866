"""Pods between a decision and its effect: creations and releases pass through a client, starts and ends are watched."""

from __future__ import annotations

from rm_emulator.engine.config import Kubernetes
from schedulers.core import keyed


class Pods:
    """When pods are there, released, running and seen to end, in profile `kubernetes`.

    Creations and releases each pass through one queue with a fixed rate, as they do through one process's client.
    """

    def __init__(self, settings: Kubernetes, seed: int) -> None:
        self.settings = settings
        self._phase = int(keyed.uniform(seed, "whole-seconds") * 1000)
        self._creating = self._releasing = 0.0  # until when each queue is busy

    def created(self, now: int, pods: int) -> int:
        """When the last of so many pods, wanted now, has been seen."""
        begin = max(now + self.settings.create_ms, self._creating)
        self._creating = begin + 1000 * pods / self.settings.create_rate
        return round(self._creating) + self.settings.seen_ms

    def released(self, now: int) -> int:
        """When a pod that is decided on now has been seen running."""
        self._releasing = max(float(now), self._releasing) + 1000 / self.settings.release_rate
        return round(self._releasing) + self.settings.start_ms + self.settings.seen_ms

    def runs(self, now: int, runtime: int) -> int:
        """How long a pod that was seen running now is seen to run."""
        if not self.settings.whole_seconds:
            return runtime
        since = (now - self.settings.seen_ms - self._phase) % 1000
        return max(1, 1000 * -(-runtime // 1000) - since)
