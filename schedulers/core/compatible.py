"""Compatible: one table of combinations refused, read by the scheduler, by checks of files and by the brain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schedulers.core.abilities import (
    AssignsAhead,
    KeepsNodes,
    NeedsEstimates,
    OneTaskEach,
    OrdersAhead,
    Preempts,
    ability,
)
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.placer import placers
from schedulers.core.policy import Policy, policies


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """A policy together with the rest of a scheduler's setup."""

    policy: Policy
    kind: str
    """The name of the policy."""
    placement: str = ""
    """The name of the placer."""
    executors: bool = False
    """Whether containers outlive tasks."""
    copies: bool = False
    """Whether a task may have several containers."""
    reserve_after: bool = False
    """Whether the core reserves nodes."""
    thinks: bool = False
    """Whether the scheduler takes its time (offers: thought)."""
    predictor: bool = True
    """Whether anybody estimates run times."""

    @property
    def assigns_ahead(self) -> bool:
        """Whether tasks are assigned to nodes before they can start, and wait in queues of nodes."""
        return assigns_ahead({"kind": self.placement}) or ability(self.policy, AssignsAhead) is not None

    def has(self, *kinds: type[Any]) -> bool:
        """Whether the policy has at least one of the given abilities."""
        return any(ability(self.policy, kind) is not None for kind in kinds)


class Incompatibility(NamedTuple):
    """A row: where the rule applies, and the sentence, with `{kind}`, `{placement}` and `{ordered}` to be filled in."""

    key: str
    """The setting to be removed."""
    breaks: Callable[[Setup], bool]
    sentence: str


def _acts_by_itself(setup: Setup) -> bool:
    return setup.has(KeepsNodes, Preempts) or setup.policy.triggers.period_ms is not None


def _counts_offers(setup: Setup) -> bool:
    return setup.policy.triggers.every_beat or setup.policy.triggers.every_offer


def _is_assigner(setup: Setup) -> bool:
    return assigns_ahead({"kind": setup.placement})


#: The first matching row of each key is said; rows of a key stand in the order of the checks.
RULES: Final = (
    Incompatibility(
        "predictor",
        lambda s: not s.predictor and s.has(NeedsEstimates),
        "policy '{kind}' orders jobs by estimated run time: give it a predictor",
    ),
    Incompatibility(
        "executors",
        lambda s: s.executors and s.has(OneTaskEach),
        "policy '{kind}' does not serve executors that outlive tasks",
    ),
    Incompatibility("copies", lambda s: s.copies and s.executors, "copies do not go with executors that outlive tasks"),
    Incompatibility(
        "placement",
        lambda s: _is_assigner(s) and s.executors,
        "placement '{placement}' does not go with executors that outlive tasks: it assigns each task to a node",
    ),
    Incompatibility(
        "placement",
        lambda s: _is_assigner(s) and s.kind in policies and s.kind not in stable_orders(),
        "placement '{placement}' assigns tasks before they can start, in the policy's order of jobs and stages, "
        "and '{kind}' has none that holds until then (it goes with {ordered})",
    ),
    Incompatibility(
        "thinks",
        lambda s: s.thinks and s.assigns_ahead,
        "a scheduler that takes its time assigns no tasks ahead: another placement or policy is needed",
    ),
    Incompatibility(
        "thinks",
        lambda s: s.thinks and _acts_by_itself(s),
        "a scheduler that takes its time needs a policy that does not reserve, preempt or act by the clock",
    ),
    Incompatibility(
        "thinks",
        lambda s: s.thinks and _counts_offers(s),
        "a scheduler that takes its time needs a policy that does not count the offers that it passes up",
    ),
    Incompatibility(
        "reserve_after",
        lambda s: s.reserve_after and s.assigns_ahead,
        "reserve_after does not go with a placement that assigns tasks to nodes, where they wait in line",
    ),
    Incompatibility(
        "reserve_after",
        lambda s: s.reserve_after and s.has(KeepsNodes),
        "reserve_after does not go with a policy that makes reservations itself, as YARN's schedulers do",
    ),
    Incompatibility(
        "reserve_after",
        lambda s: s.reserve_after and s.executors,
        "reserve_after does not go with executors that outlive tasks: their room is not given back by task",
    ),
)


def clashes(setup: Setup) -> Mapping[str, str]:
    """A sentence on each clash, by key, in the table's order."""
    found: dict[str, str] = {}
    for rule in RULES:
        # A second sentence on the same setting would only repeat that the setting has to go.
        if rule.key not in found and rule.breaks(setup):
            words = {
                "kind": setup.kind,
                "placement": setup.placement,
                "ordered": ", ".join(stable_orders()),
            }
            found[rule.key] = rule.sentence.format(**words)
    return found


def policy_of(settings: Mapping[str, Any]) -> Policy | None:
    """The policy made from its settings (`kind` among them); None for wrong settings, which other checks report."""
    try:
        cls, params = policies.parse(settings)
        # An instance, because settings may take abilities away (`Ability.without`).
        return cls(params)
    except (UnknownName, InvalidParameters):
        return None


def needs_estimates(settings: Mapping[str, Any]) -> bool:
    """Whether a policy with the given settings makes no sense without a predictor; False for wrong settings."""
    return ability(policy_of(settings), NeedsEstimates) is not None


def assigns_ahead(placement: Mapping[str, Any]) -> bool:
    """Whether a placement (`kind` and settings) assigns tasks to nodes ahead of time; False if unknown."""
    name = placement.get("kind", "")
    # Asked while a file is checked, when the placer may be misspelt: another check reports the name.
    return name in placers and placers.entry(name).cls.assigns


def stable_orders() -> list[str]:
    """Names of the policies with an order in which tasks can be assigned."""
    return [entry.name for entry in policies if issubclass(entry.cls, OrdersAhead) and entry.cls.order_is_stable]
