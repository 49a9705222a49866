"""Why a node does not take a task: one closed set of codes, each with what it names and its numbers.

What may be decided by it (whether stopping others would help, which resource is scarce) is read from the code;
`sentence` is for people alone.
"""

from __future__ import annotations

import enum

import msgspec


class NodeCode(enum.StrEnum):
    """What keeps a task off a node, with its words. HAS_ROOM: the node does not; the job waits for something else."""

    template: str
    """A few words for people, with `{name}` for what the refusal names."""

    UNKNOWN = "unknown", "unknown node"
    DRAINING = "draining", "draining"
    TAINT = "taint", "with taint {name}"
    LABELS = "labels", "with other {name}"
    TOO_SMALL = "too_small", "too small"
    LACKS = "lacks", "lack {name}"
    HAS_ROOM = "has_room", "has room"

    def __new__(cls, code: str, template: str = "") -> NodeCode:
        """A member is its code, as any text is."""
        member = str.__new__(cls, code)
        member._value_, member.template = code, template
        return member

    @property
    def resolvable_by_preemption(self) -> bool:
        """Whether the task might start there if others were stopped: taints, labels and size stay as they are."""
        return self not in (NodeCode.TAINT, NodeCode.LABELS, NodeCode.TOO_SMALL)


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
        return self.code.template.replace("{name}", " and ".join((self.name, *self.also)))
