"""Places of tasks: requirements on a node's labels, and tolerated taints.

The meaning is Kubernetes' own (node affinity, taints and tolerations), because it is the widest in use; a YARN node
label is a single requirement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from schedulers.core.fields import Name, written
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.written import Written

# NoExecute counts as NoSchedule here: evictions of running pods are Kubernetes' own work.
EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A condition on a node's label, or on a field of the node, of which there is only `metadata.name`."""

    key: Name
    """Name of the label, e.g. `disk`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """The comparison, e.g. `In`."""
    values: tuple[str, ...] = ()
    """Values to compare with, e.g. `[ssd, nvme]`."""
    field: bool = False
    """The condition is on the node's name (`metadata.name`) instead, e.g. `true`."""

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
        """Whether a node with the given name and labels meets the requirement."""
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
        """Whether a label is above (Gt) or below (Lt) the value; only whole numbers meet either."""
        try:
            left, right = int(there or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


class Taint(Written, frozen=True, gc=False):
    """Keeps stages without a matching toleration off a node (Kubernetes' meaning)."""

    key: Name
    """Name of the taint, e.g. `gpu`."""
    value: str = ""
    """Its value, for tolerations that compare values, e.g. `a100`."""
    effect: Annotated[str, written(choices=EFFECTS)] = "NoSchedule"
    """PreferNoSchedule keeps nobody away, e.g. `NoExecute`."""


class Toleration(Written, frozen=True, gc=False):
    """A taint to be ignored."""

    key: str = ""
    """Its name; left out with Exists: any taint, e.g. `gpu`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether its value counts, e.g. `Exists`."""
    value: str = ""
    """Its value, e.g. `a100`."""
    effect: Annotated[str, written(choices=("", *EFFECTS))] = ""
    """Its effect; all when left out, e.g. `NoSchedule`."""

    def covers(self, taint: Taint) -> bool:
        """Whether the toleration makes the taint harmless."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class Places(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Nodes open to a stage: all nodes meeting a whole term, and with tolerated taints only."""

    terms: tuple[tuple[Requirement, ...], ...] = ()
    """Lists of conditions: any of the lists has to be met as a whole, e.g. `[[{key: disk, operator: In, values:
    [ssd]}]]`.
    """
    tolerations: tuple[Toleration, ...] = ()
    """Taints to be ignored, e.g. `[{key: gpu, operator: Exists}]`."""

    def show(self) -> str:
        """The requirements as label selectors are written: `zone in (a, b), disk`; empty without any."""
        return " or ".join(", ".join(requirement.show() for requirement in term) for term in self.terms)

    def apart_from(self, nodes: tuple[str, ...]) -> Places:
        """These places without some nodes."""
        if not nodes:
            return self
        other = Requirement("metadata.name", "NotIn", nodes, field=True)
        # An empty term matches no node, with or without the others.
        terms = tuple((*term, other) if term else term for term in self.terms) or ((other,),)
        return Places(terms, self.tolerations)

    def bars(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> NodeRefusal | None:
        """The reason to bar a node (its labels, or a taint); None: the node is open."""
        for taint in taints:
            # A preference never bars a node; kube-scheduler weighs preferences, the core does not.
            if taint.effect != "PreferNoSchedule" and not any(t.covers(taint) for t in self.tolerations):
                return NodeRefusal(NodeCode.TAINT, taint.key)
        # An empty term matches no node, as in Kubernetes.
        if self.terms and not any(term and all(r.holds(name, labels) for r in term) for term in self.terms):
            asked = {requirement.field for term in self.terms for requirement in term}
            return NodeRefusal(NodeCode.LABELS, "names" if asked == {True} else "labels")
        return None


ANYWHERE = Places()
