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
    log: Literal["full", "decisions", "hash"] = "decisions"
    """`full` keeps every fact and decision, `decisions` the decisions, `hash` nothing but the hash."""
    max_log_bytes: Count = 2**30
    """Size of all log files together; the oldest go first."""
    history: Annotated[int, msgspec.Meta(ge=0)] = 20_000
    """Number of finished jobs with which a predictor begins."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How often the core's state is stored for the next leader, at most."""

    every_s: Seconds = msgspec.field(default=5.0, name="everySeconds")


class ReleasesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Removing gates."""

    concurrency: Count = 16
    expire_s: Seconds = msgspec.field(default=30.0, name="expireSeconds")
    """Seconds after which a grant is given up if its pod has not started to bind."""


class ConditionsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Writing the reasons why pods and jobs wait."""

    per_second: Seconds = msgspec.field(default=20.0, name="perSecond")
    """Most writes a second."""


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long a silent API server is believed."""

    stale_s: Seconds = msgspec.field(default=120.0, name="staleSeconds")
    """Seconds without a word from the API server after which the brain decides nothing."""


class BrainConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of `python -m operators.extender`.

    `policy`, `predictor` and `placement` are `{kind: NAME, ...settings}`, as in a scenario.
    """

    policy: dict[str, Any]
    predictor: dict[str, Any] | None = None
    placement: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    resources: tuple[Text, ...] = NEEDED
    """Names of the core's vectors, never to be reordered."""
    nodes: Nodes = "all"
    """Which nodes pods are placed on."""
    seed: int = 0
    cycle_ms: Millis = msgspec.field(default=Millis(50), name="cycle")
    """How long changes are gathered before the core decides."""
    reserve_after_ms: Millis | None = msgspec.field(default=None, name="reserveAfter")
    """Wait after which nodes are reserved for a large task or a gang; None: never."""
    namespace: Text = msgspec.field(default_factory=own_namespace)
    extender: ExtenderPort
    management: ManagementPort = ManagementPort()
    leader_election: LeaderElection | None = msgspec.field(default=LeaderElection(), name="leaderElection")
    storage: Storage = Storage()
    snapshot: Snapshot = Snapshot()
    releases: ReleasesConfig = ReleasesConfig()
    conditions: ConditionsConfig = ConditionsConfig()
    cache: CacheConfig = CacheConfig()
    kubeconfig: Text | None = None
    """None in a cluster."""
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
