"""Where a task may run: requirements on a node's labels, and the taints that it tolerates.

The meaning is Kubernetes' own (node affinity, taints and tolerations), because it is the widest in use;
a YARN node label is one requirement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.written import Written


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One condition on a node: on a label, or (field) on a field of the node, of which there is `metadata.name`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()
    field: bool = False

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
    """Keeps tasks off a node that do not tolerate it. effect: NoSchedule, NoExecute, or PreferNoSchedule (a wish)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(Written, frozen=True, gc=False):
    """A taint that does not matter to a task. key "" with Exists: every taint; effect "": every effect."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str = ""

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
    """Nodes that a stage may use: those that meet all requirements of any term (none given: all), taints permitting."""

    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

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
