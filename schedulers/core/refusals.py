"""Why a node does not take a task: one closed set of codes, each with what it names and its numbers.

What may be decided by it (whether stopping others would help, which resource is scarce) is read from the code;
`sentence` is for people alone.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class NodeCode(enum.StrEnum):
    """What keeps a task off a node. HAS_ROOM: the node does not; the job waits for something else."""

    UNKNOWN = "unknown"
    DRAINING = "draining"
    TAINT = "taint"
    LABELS = "labels"
    TOO_SMALL = "too_small"
    LACKS = "lacks"
    HAS_ROOM = "has_room"

    @property
    def resolvable_by_preemption(self) -> bool:
        """Whether the task might start there if others were stopped: taints, labels and size stay as they are."""
        return self not in _FINAL


_FINAL: Final = frozenset({NodeCode.TAINT, NodeCode.LABELS, NodeCode.TOO_SMALL})

_SENTENCES: Final[dict[NodeCode, str]] = {
    NodeCode.UNKNOWN: "unknown node",
    NodeCode.DRAINING: "draining",
    NodeCode.TAINT: "with taint {name}",
    NodeCode.LABELS: "with other {name}",
    NodeCode.TOO_SMALL: "too small",
    NodeCode.LACKS: "lack {name}",
    NodeCode.HAS_ROOM: "has room",
}


class NodeRefusal(msgspec.Struct, frozen=True, gc=False):
    """Why one node does not take a task now.

    name: the taint's key, `labels` or `names` that do not match, or the first resource of which there is too little.
    wanted and there: in its steps, there being what is free (LACKS) or the whole node's (TOO_SMALL). also: the other
    resources that it lacks.
    """

    code: NodeCode
    name: str = ""
    wanted: int = 0
    there: int = 0
    also: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """In a few words, without its numbers, so that nodes can be counted by it."""
        return _SENTENCES[self.code].replace("{name}", " and ".join((self.name, *self.also)))
