"""Reasons of nodes to refuse a task: a closed set of codes, each with a name and numbers.

Decisions (would stopping other tasks help, which resource is scarce) read the code; `sentence` is for people alone.
"""

from __future__ import annotations

import enum

import msgspec


class NodeCode(enum.StrEnum):
    """Obstacles between a task and a node, with words. HAS_ROOM: no obstacle; the job waits for something else."""

    template: str
    """A few words for people, with `{name}` for the name in the refusal."""

    UNKNOWN = "unknown", "unknown node"
    DRAINING = "draining", "draining"
    TAINT = "taint", "with taint {name}"
    LABELS = "labels", "with other {name}"
    TOO_SMALL = "too_small", "too small"
    LACKS = "lacks", "lack {name}"
    HAS_ROOM = "has_room", "has room"

    def __new__(cls, code: str, template: str = "") -> NodeCode:
        """A member is its code, as any text is."""
        # The code alone is the member's text, so that logs and metrics hold no sentences.
        member = str.__new__(cls, code)
        member._value_, member.template = code, template
        return member

    @property
    def resolvable_by_preemption(self) -> bool:
        """Whether the task might start there if other tasks were stopped: taints, labels and size stay as they are."""
        return self not in (NodeCode.TAINT, NodeCode.LABELS, NodeCode.TOO_SMALL)


class NodeRefusal(msgspec.Struct, frozen=True, gc=False):
    """The reason of a node to refuse a task now."""

    code: NodeCode
    name: str = ""
    """The taint's key, `labels` or `names` for a mismatch, or the first resource too small."""
    wanted: int = 0
    """Demand of the task for the resource, in its steps."""
    there: int = 0
    """Free amount of the resource (LACKS), or the whole node's amount (TOO_SMALL)."""
    also: tuple[str, ...] = ()
    """Further resources too small."""

    @property
    def sentence(self) -> str:
        """A few words without numbers, so that nodes can be counted by them."""
        return self.code.template.replace("{name}", " and ".join((self.name, *self.also)))
