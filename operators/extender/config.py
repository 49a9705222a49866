"""The configuration of the brain's process, as it stands in its ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from operators.config import Count, Document, InvalidConfig, Millis, Nodes, Text, Where, own_namespace, parse
from operators.lease import LeaderElection
from operators.log import Level
from operators.serving.ports import ExtenderPort, ManagementPort
from schedulers.core.abilities import NeedsCopies, Preempts, ability
from schedulers.core.compatible import Setup, clashes, policy_of
from schedulers.core.errors import InvalidParameters, UnknownName, nearest
from schedulers.core.placer import placers
from schedulers.core.policy import Policy, policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry

Seconds = Annotated[float, msgspec.Meta(gt=0)]

#: Without these a node could be filled beyond what a kubelet takes.
NEEDED: Final = ("cpu", "memory", "pods")
#: Why the brain is a single central scheduler, by the kind of any other architecture.
WHY_CENTRAL: Final = {
    "central": "with think times is for the emulator: the brain thinks for as long as it takes",
    "two_level": "is for the emulator: nothing in a cluster locks free room while one of several schedulers thinks",
    "shared_state": "is for the emulator: the API server binds a pod without a look at the room on its node, so "
    "nothing would refuse one of two claims",
    "decentralised": "is for the emulator: kubelets keep no queues of reservations, and ask nobody for the next pod",
}
NO_OTHER: Final = "is no architecture of a cluster (expected central, or nothing)"
#: Why a policy registered for the emulator alone cannot work here.
NOT_HERE: Final = "needs what only an emulator knows (such as true run times)"


class Storage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data kept on the process's volume."""

    dir: Text = "/var/lib/rm-emulator"
    """Folder of event logs and history."""
    log: Literal["full", "decisions", "hash"] = "decisions"
    """`full` logs every fact and decision, `decisions` the decisions, `hash` only the hash."""
    max_log_bytes: Count = 2**30
    """Most bytes of all log files together; the oldest files go first."""
    history: Annotated[int, msgspec.Meta(ge=0)] = 20_000
    """Number of finished jobs from which a predictor learns at the start."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Storing the core's state for the next leader."""

    every_s: Seconds = msgspec.field(default=5.0, name="everySeconds")
    """Shortest time between two snapshots; between large ones only what has happened is stored."""


class ReleasesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Removing gates."""

    concurrency: Count = 16
    """Most writes on their way at once."""
    expire_s: Seconds = msgspec.field(default=30.0, name="expireSeconds")
    """Seconds after which brain gives a grant up whose pod has not started to bind."""


class ConditionsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Writing the reasons why pods and jobs wait."""

    per_second: Seconds = msgspec.field(default=20.0, name="perSecond")
    """Most writes a second of conditions, status fields, Events and figures of Queues together."""


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Watching the API server."""

    stale_s: Seconds = msgspec.field(default=120.0, name="staleSeconds")
    """Seconds of silence of the API server after which brain is not ready."""


class BrainConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of `python -m operators.extender`.

    `policy`, `predictor` and `placement` are `{kind: NAME, ...settings}`, as in a scenario.
    """

    policy: dict[str, Any]
    """The policy and its settings."""
    predictor: dict[str, Any] | None = None
    """The predictor of run times and its settings; None: no estimates."""
    placement: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    """The placer, which chooses a node where the policy leaves the node open."""
    resources: tuple[Text, ...] = NEEDED
    """Resources that brain counts; add others at the end, never reorder the list."""
    nodes: Nodes = "all"
    """Nodes for pods that join: `reserved` (those with the taint `rm-emulator.io/reserved`) or `all`."""
    seed: int = 0
    """Seed of random choices."""
    cycle_ms: Millis = msgspec.field(default=Millis(50), name="cycle")
    """Time for which brain gathers changes before the core decides."""
    reserve_after_ms: Millis | None = msgspec.field(default=None, name="reserveAfter")
    """Wait after which nodes are reserved for a large task or a gang; None: never."""
    namespace: Text = msgspec.field(default_factory=own_namespace)
    """Namespace of Lease and snapshot; by default that of the own pod."""
    extender: ExtenderPort
    management: ManagementPort = ManagementPort()
    leader_election: LeaderElection | None = msgspec.field(default=LeaderElection(), name="leaderElection")
    storage: Storage = Storage()
    snapshot: Snapshot = Snapshot()
    releases: ReleasesConfig = ReleasesConfig()
    conditions: ConditionsConfig = ConditionsConfig()
    cache: CacheConfig = CacheConfig()
    kubeconfig: Text | None = None
    """Kubeconfig files, `A:B`; None in a cluster, where the ServiceAccount counts."""
    log_level: Level = msgspec.field(default="info", name="logLevel")


def load_brain(path: Path | str) -> BrainConfig:
    """Read and check the file. Raises InvalidConfig with every mistake in the file."""
    document = Document(path, config_map="rm-brain")
    mistakes = [document.located(where, message) for where, message in _parts(document.data)]
    # Taken out before the document is read as a struct: these keys have answers better than "no such field".
    if document.data.pop("copies", None) is not None:
        mistakes.append(document.located(("copies",), "in a cluster a pod runs once: leave copies out"))
    if (block := document.data.pop("architecture", None)) is not None and block != {"kind": "central"}:
        kind = block.get("kind") if isinstance(block, Mapping) else block
        why = WHY_CENTRAL.get(str(kind), NO_OTHER)
        mistakes.append(document.located(("architecture",), f"'{kind}' {why}"))
    try:
        config = parse(document, BrainConfig)
    except InvalidConfig as error:
        raise InvalidConfig([*error.messages, *mistakes]) from None
    mistakes += [document.located(where, message) for where, message in _whole(config)]
    if mistakes:
        raise InvalidConfig(mistakes)
    return config


def _parts(data: Mapping[str, Any]) -> Iterator[tuple[Where, str]]:
    """Mistakes that the registries find, each part by itself."""
    registries: list[tuple[str, Registry[Any]]] = [
        ("policy", policies),
        ("predictor", predictors),
        ("placement", placers),
    ]
    for key, registry in registries:
        part = data.get(key)
        if isinstance(part, Mapping):
            why = _not_usable(registry, part)
            if why is not None:
                yield (key, why[0]), why[1]


def _not_usable(registry: Registry[Any], part: Mapping[str, Any]) -> tuple[str, str] | None:
    """(key, message) of the mistake in `{kind: NAME, ...}`, or None."""
    if "kind" not in part:
        return "kind", f"is missing (known: {', '.join(entry.name for entry in registry)})"
    try:
        cls, params = registry.parse(part)
        entry = registry.entry(str(part["kind"]))
    except UnknownName as error:
        return "kind", str(error)
    except InvalidParameters as error:
        return next((key for key in part if f"'{key}'" in str(error)), "kind"), str(error)
    if "kubernetes" not in entry.worlds:
        here = [e.name for e in registry if "kubernetes" in e.worlds]
        return "kind", f"{registry.kind} '{entry.name}' {NOT_HERE}; in a cluster there are: {', '.join(here)}"
    # Some abilities depend on settings, so an instance is asked.
    made = cls(params)
    if ability(made, NeedsCopies) is not None:
        key = "planner" if "planner" in part else "kind"
        said = f"policy '{entry.name}' would copy tasks, and in a cluster a pod runs once: take another planner"
    elif ability(made, Preempts) is not None:
        key = "preemption" if "preemption" in part else "kind"
        said = f"{registry.kind} '{entry.name}' would have pods stopped, and brain evicts none: leave preemption off"
    else:
        return None
    return key, said


def setup_of(config: BrainConfig, policy: Policy, *, reserve_after: bool = False) -> Setup:
    """The policy with brain's other choices."""
    return Setup(
        policy=policy,
        kind=config.policy["kind"],
        placement=config.placement["kind"],
        predictor=config.predictor is not None,
        reserve_after=reserve_after,
    )


def _whole(config: BrainConfig) -> Iterator[tuple[Where, str]]:
    """Mistakes between fields that are right by themselves."""
    if (policy := policy_of(config.policy)) is not None:
        for key, why in clashes(setup_of(config, policy)).items():
            yield ("policy" if key == "predictor" else key,), why
    for name in NEEDED:
        if name not in config.resources:
            near = nearest(name, config.resources)
            hint = f" (is '{near}' meant?)" if near else ""
            yield ("resources",), f"'{name}' is missing{hint}: nodes could be filled beyond what they take"
    for i, name in enumerate(config.resources):
        if name in config.resources[:i]:
            yield ("resources", i), f"'{name}' is named twice"
