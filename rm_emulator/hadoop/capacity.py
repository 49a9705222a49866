"""capacity-scheduler.xml: the CapacityScheduler's queue tree and its own settings, defaults of 3.3.5."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from rm_emulator.hadoop.configuration import Configuration

_PREFIX: Final = "yarn.scheduler.capacity."
_CALCULATORS: Final = {
    "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator": "default",
    "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator": "dominant",
}
_POLICIES: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy."
_LEAF_ORDERS: Final = {
    "fifo": "fifo",
    "fair": "fair",
    f"{_POLICIES}FifoOrderingPolicy": "fifo",
    f"{_POLICIES}FairOrderingPolicy": "fair",
}
_PARENT_ORDERS: Final = {"utilization": "utilization", "priority-utilization": "priority-utilization"}
#: CSQueueUtils.PRECISION, as per cent of the whole.
_PRECISION: Final = 0.05
_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


class CapacityQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. Paths run from the root, such as root.prod.etl; capacities are per cent of the parent's."""

    path: str
    children: tuple[str, ...] = ()
    capacity: float = 100.0
    maximum_capacity: float = 100.0
    user_limit_factor: float = 1.0
    minimum_user_limit_percent: int = 100
    maximum_am_resource_percent: float = 0.1
    """A fraction of 1 despite the name."""
    ordering: str = "fifo"
    priority: int = 0
    preemptible: bool = True

    @property
    def parent(self) -> str:
        """The path above; '' for the root."""
        return self.path.rpartition(".")[0]


class CapacityConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The queues, parents first, and the settings for containers in a node heartbeat."""

    queues: tuple[CapacityQueue, ...]
    calculator: str = "default"
    node_locality_delay: int = 40
    rack_locality_additional_delay: int = -1
    maximum_offswitch_assignments: int = 1
    multiple_assignments: bool = True
    maximum_container_assignments: int = 100


def capacity_config(conf: Configuration) -> CapacityConfig:
    """The scheduler's settings; mistakes are noted in the configuration's issues."""
    heartbeat = f"{_PREFIX}per-node-heartbeat."
    return CapacityConfig(
        queues=tuple(_queues(conf, "root", preemptible=True)),
        calculator=conf.choice(f"{_PREFIX}resource-calculator", "default", _CALCULATORS),
        node_locality_delay=conf.whole(f"{_PREFIX}node-locality-delay", 40, least=-1),
        rack_locality_additional_delay=conf.whole(f"{_PREFIX}rack-locality-additional-delay", -1, least=-1),
        maximum_offswitch_assignments=conf.whole(f"{heartbeat}maximum-offswitch-assignments", 1, least=1),
        multiple_assignments=conf.flag(f"{heartbeat}multiple-assignments-enabled", True),
        maximum_container_assignments=conf.whole(f"{heartbeat}maximum-container-assignments", 100, least=-1),
    )


def _queues(conf: Configuration, path: str, *, preemptible: bool) -> Iterator[CapacityQueue]:
    """The queue and all queues below."""
    here = f"{_PREFIX}{path}."
    names = _names(conf, path)
    able = not conf.flag(f"{here}disable_preemption", not preemptible)
    capacity = 100.0 if path == "root" else conf.number(f"{here}capacity", 0, least=0, most=100)
    maximum = conf.number(f"{here}maximum-capacity", 100, least=-1, most=100)
    maximum = 100.0 if maximum < 0 else maximum
    if capacity > maximum:
        conf.wrong(f"{here}maximum-capacity", f"{maximum:g} is below the queue's capacity ({capacity:g})")
    share = conf.number(f"{_PREFIX}maximum-am-resource-percent", 0.1, least=0, most=1)
    yield CapacityQueue(
        path=path,
        children=tuple(f"{path}.{name}" for name in names),
        capacity=capacity,
        maximum_capacity=maximum,
        user_limit_factor=conf.number(f"{here}user-limit-factor", 1, least=0, most=1e6),
        minimum_user_limit_percent=conf.whole(f"{here}minimum-user-limit-percent", 100, most=100),
        maximum_am_resource_percent=conf.number(f"{here}maximum-am-resource-percent", share, least=0, most=1),
        ordering=_ordering(conf, f"{here}ordering-policy", parent=bool(names)),
        priority=conf.whole(f"{here}priority", 0, least=-(2**31)),
        preemptible=able,
    )
    for name in names:
        yield from _queues(conf, f"{path}.{name}", preemptible=able)
    if names:
        _check_sum(conf, path, names)


def _names(conf: Configuration, path: str) -> list[str]:
    setting = f"{_PREFIX}{path}.queues"
    text = conf.text(setting, "default" if path == "root" else "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not _QUEUE_NAME.fullmatch(name):
            conf.wrong(setting, f"'{name}' is not a queue's name (expected letters, digits, '_' and '-')")
        elif names.count(name) > 1:
            conf.wrong(setting, f"queue '{name}' is named {names.count(name)} times")
    return [name for name in dict.fromkeys(names) if _QUEUE_NAME.fullmatch(name)]


def _ordering(conf: Configuration, setting: str, *, parent: bool) -> str:
    if parent:
        return conf.choice(setting, "utilization", _PARENT_ORDERS)
    return conf.choice(setting, "fifo", _LEAF_ORDERS)


def _check_sum(conf: Configuration, path: str, names: list[str]) -> None:
    """Note children without 100 % in all, with which Hadoop would refuse to start."""
    settings = [f"{_PREFIX}{path}.{name}.capacity" for name in names]
    if path == "root" and names == ["default"] and settings[0] not in conf:
        return  # no queues in the file at all: Hadoop's own default file has this one with 100
    total = sum(conf.number(setting, 0, least=0, most=100) for setting in settings)
    if abs(total - 100) > _PRECISION:
        listed = next((s for s in (*settings, f"{_PREFIX}{path}.queues") if s in conf), None)
        parts = ", ".join(f"{name} {conf.text(s, '0')}" for name, s in zip(names, settings, strict=True))
        if listed is not None:
            conf.wrong(listed, f"the queues of {path} have {total:g} % in all ({parts}); they have to share 100 %")
