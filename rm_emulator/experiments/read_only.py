"""What a policy sees, made read-only: a write by code from outside the program raises instead of spoiling the run.

Only for the first run under a policy from a plug-in: the check makes each write of the core some times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from schedulers.core.errors import SchedulerError
from schedulers.core.live import JobState, NodeState, StageState
from schedulers.core.policy import ClusterView

_CLASSES: Final[tuple[type, ...]] = (JobState, StageState, NodeState)
_MAPPINGS: Final = ("jobs", "waiting", "nodes", "queues", "containers")
_OURS: Final = ("schedulers", "rm_emulator")


class WritesState(SchedulerError):
    """A policy's code writes to what it may only read."""


@contextmanager
def read_only(views: Iterable[ClusterView]) -> Iterator[None]:
    """Within the block jobs, stages, nodes and the views' mappings can be written by the program alone.

    A write raises WritesState with its line in the plug-in, one to a mapping AttributeError or TypeError.
    """
    for view in views:
        for name in _MAPPINGS:
            setattr(view, name, MappingProxyType(getattr(view, name)))
    for cls in _CLASSES:
        type.__setattr__(cls, "__setattr__", _refuse_others)
    try:
        yield
    finally:
        for cls in _CLASSES:
            type.__delattr__(cls, "__setattr__")


def _refuse_others(target: Any, name: str, value: Any) -> None:
    frame = sys._getframe(1)
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _OURS:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise WritesState(f"{place} writes `{name}` of a {type(target).__name__}: what a policy sees is read-only")
    object.__setattr__(target, name, value)
