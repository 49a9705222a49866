"""Where a task may run: requirements on a node's labels, and the taints that it tolerates.

The meaning is Kubernetes' own (node affinity, taints and tolerations), because it is the widest in use;
a YARN node label is one requirement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from schedulers.core.fields import Name, written
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.written import Written

EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A condition on a node's label, or on a field of the node, of which there is `metadata.name`."""

    key: Name
    """Name of the label, e.g. `disk`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared, e.g. `In`."""
    values: tuple[str, ...] = ()
    """With what, e.g. `[ssd, nvme]`."""
    field: bool = False
    """It is on the node's name (`metadata.name`) instead, e.g. `true`."""

    def show(self) -> str:
        """As label selectors are written: `zone in (a, b)`, `disk`, `!disk`, `cores > 8`."""
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({', '.join(self.values)})"
        return f"{self.key} {'>' if self.operator == 'Gt' else '<'} {', '.join(self.values)}"

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name with these labels meets the requirement."""
        there = (name if self.key == "metadata.name" else None) if self.field else labels.get(self.key)
        match self.operator:
            case "In":
                return there is not None and there in self.values
            case "NotIn":
                return there is None or there not in self.values
            case "Exists":
                return there is not None
            case "DoesNotExist":
                return there is None
        return self._compares(there)

    def _compares(self, there: str | None) -> bool:
        """Gt and Lt compare whole numbers; what is not one meets neither."""
        try:
            left, right = int(there or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


class Taint(Written, frozen=True, gc=False):
    """Keeps stages off a node that do not tolerate it (Kubernetes' meaning)."""

    key: Name
    """Name of the taint, e.g. `gpu`."""
    value: str = ""
    """Its value, where tolerations compare it, e.g. `a100`."""
    effect: Annotated[str, written(choices=EFFECTS)] = "NoSchedule"
    """PreferNoSchedule keeps nobody away, e.g. `NoExecute`."""


class Toleration(Written, frozen=True, gc=False):
    """A taint that does not matter."""

    key: str = ""
    """Its name; left out with Exists: any taint, e.g. `gpu`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether its value counts, e.g. `Exists`."""
    value: str = ""
    """Its value, e.g. `a100`."""
    effect: Annotated[str, written(choices=("", *EFFECTS))] = ""
    """Its effect; all when left out, e.g. `NoSchedule`."""

    def covers(self, taint: Taint) -> bool:
        """Whether this toleration makes the taint harmless."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class Places(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Nodes that a stage may use: those that meet a whole term of several, and whose taints it tolerates."""

    terms: tuple[tuple[Requirement, ...], ...] = ()
    """Lists of conditions: one of these lists has to be met as a whole, e.g. `[[{key: disk, operator: In, values:
    [ssd]}]]`.
    """
    tolerations: tuple[Toleration, ...] = ()
    """Taints that do not matter, e.g. `[{key: gpu, operator: Exists}]`."""

    def show(self) -> str:
        """The requirements as label selectors are written: `zone in (a, b), disk`; empty without any."""
        return " or ".join(", ".join(requirement.show() for requirement in term) for term in self.terms)

    def bars(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> NodeRefusal | None:
        """Why a node is not among them (its labels, or a taint); None: it is."""
        for taint in taints:
            if taint.effect != "PreferNoSchedule" and not any(t.covers(taint) for t in self.tolerations):
                return NodeRefusal(NodeCode.TAINT, taint.key)
        if self.terms and not any(term and all(r.holds(name, labels) for r in term) for term in self.terms):
            asked = {requirement.field for term in self.terms for requirement in term}
            return NodeRefusal(NodeCode.LABELS, "names" if asked == {True} else "labels")
        return None


ANYWHERE = Places()
