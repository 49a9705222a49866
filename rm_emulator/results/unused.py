"""Settings of queues that a policy does not heed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from schedulers.core import abilities
from schedulers.core.policy import policies


def unused_settings(spec: Mapping[str, Any]) -> list[str]:
    """Settings of a scenario's queues without effect under some of its policies, a sentence each."""
    queues: Sequence[Mapping[str, Any]] = spec.get("queues") or ()
    set_ = {
        "weight": any(queue.get("weight", 1.0) != 1.0 for queue in queues),
        "guaranteed": any(queue.get("guaranteed") is not None for queue in queues),
        "preemptible": not all(queue.get("preemptible", True) for queue in queues),
    }
    sentences = []
    for name in (name for name, given in set_.items() if given):
        blind = [policy["label"] for policy in spec["policies"] if name not in uses_of_queues(policy)]
        use = [entry.name for entry in policies if name in uses_of_queues({"kind": entry.name})]
        if blind:
            labels = ", ".join(blind)
            others = f"policies that use it: {', '.join(use)}" if use else "only capacity with preemption uses it"
            sentences.append(f"the queues' `{name}` means nothing to {labels} ({others})")
    return sentences


def uses_of_queues(policy: Mapping[str, Any]) -> Collection[str]:
    """Settings of queues in use by a policy of the scenario; all settings for an unknown policy."""
    own = {key: value for key, value in policy.items() if key not in ("label", "predictor", "placement")}
    try:
        cls, params = policies.parse(own)
        return abilities.uses_of_queues(cls, params)
    except Exception:  # not known here, or a plug-in that cannot say
        return ("weight", "guaranteed", "preemptible")
