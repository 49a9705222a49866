"""yarn-site.xml and sls-runner.xml: the resource manager's settings outside its queues, defaults of 3.3.5."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from rm_emulator.hadoop.configuration import Configuration
from schedulers.yarn.preemption import Preemption

CAPACITY: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
FAIR: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
MAPREDUCE: Final = "org.apache.hadoop.yarn.sls.appmaster.MRAMSimulator"
_MONITOR: Final = "yarn.resourcemanager.monitor.capacity.preemption."
_POLICY: Final = "org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy"


class RmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The resource manager outside its queues. Sizes are (MB, vcores), times ms."""

    scheduler: Literal["capacity", "fair"] = "capacity"
    sls: bool = True
    """Whether the settings are for a run under SLS (there is a sls-runner.xml)."""
    minimum: tuple[int, int] = (1024, 1)
    maximum: tuple[int, int] = (8192, 4)
    increment: tuple[int, int] = (1024, 1)
    """Step of container sizes; the CapacityScheduler takes the minimum."""
    reservation_multiple: float = 2.0
    """Smallest reservation of the FairScheduler, in increments."""
    node_heartbeat_ms: int = 1000
    am_heartbeat_ms: int = 1000
    node: tuple[int, int] = (10240, 10)
    """Size in SLS of nodes without a size of their own; likewise for containers and application masters."""
    container: tuple[int, int] = (1024, 1)
    am: tuple[int, int] = (1024, 1)
    preemption: Preemption = Preemption()


def rm_config(conf: Configuration, *, sls: bool) -> RmConfig:
    """The settings; mistakes are noted in the configuration's issues."""
    scheduler = _scheduler(conf)
    conf.choice("yarn.sls.am.type.mapreduce", MAPREDUCE, {MAPREDUCE: MAPREDUCE})
    minimum, maximum = _sizes(conf)
    interval = conf.whole("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", 1000, least=1)
    asks = conf.whole("yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms", 1000, least=1)
    node = _pair(conf, "yarn.nodemanager.resource.memory-mb", "yarn.nodemanager.resource.cpu-vcores", (8192, 8))
    if sls:
        interval = conf.whole("yarn.sls.nm.heartbeat.interval.ms", 1000, least=1)
        asks = conf.whole("yarn.sls.am.heartbeat.interval.ms", 1000, least=1)
        node = _pair(conf, "yarn.sls.nm.memory.mb", "yarn.sls.nm.vcores", (10240, 10))
    return RmConfig(
        scheduler=scheduler,
        sls=sls,
        minimum=minimum,
        maximum=maximum,
        increment=_pair(
            conf, "yarn.scheduler.increment-allocation-mb", "yarn.scheduler.increment-allocation-vcores", (1024, 1)
        ),
        reservation_multiple=conf.number(
            "yarn.scheduler.reservation-threshold.increment-multiple", 2.0, least=0, most=1e6
        ),
        node_heartbeat_ms=interval,
        am_heartbeat_ms=asks,
        node=node,
        container=_pair(conf, "yarn.sls.container.memory.mb", "yarn.sls.container.vcores", (1024, 1)),
        am=_pair(conf, "yarn.sls.am.container.memory", "yarn.sls.am.container.vcores", (1024, 1)),
        preemption=_preemption(conf, forced=sls and scheduler == "capacity"),
    )


def _scheduler(conf: Configuration) -> Literal["capacity", "fair"]:
    name = "yarn.resourcemanager.scheduler.class"
    accepted = {CAPACITY: CAPACITY, FAIR: FAIR}
    return "fair" if conf.choice(name, CAPACITY, accepted) == FAIR else "capacity"


def _pair(conf: Configuration, memory: str, vcores: str, default: tuple[int, int]) -> tuple[int, int]:
    return conf.whole(memory, default[0], least=1), conf.whole(vcores, default[1], least=1)


def _sizes(conf: Configuration) -> tuple[tuple[int, int], tuple[int, int]]:
    sizes = []
    for unit, least, most in (("mb", 1024, 8192), ("vcores", 1, 4)):
        low = conf.whole(f"yarn.scheduler.minimum-allocation-{unit}", least)
        name = f"yarn.scheduler.maximum-allocation-{unit}"
        high = conf.whole(name, most, least=1)
        if low > high:
            where = name if name in conf else f"yarn.scheduler.minimum-allocation-{unit}"
            conf.wrong(where, f"the minimum allocation ({low}) is above the maximum ({high})")
        sizes.append((low, high))
    minimum, maximum = zip(*sizes, strict=True)
    return minimum, maximum


def _preemption(conf: Configuration, *, forced: bool) -> Preemption:
    """The monitor's settings; `forced`: SLSRunner switches the monitor on in spite of the files."""
    enabled = conf.flag("yarn.resourcemanager.scheduler.monitor.enable", False)
    conf.choice("yarn.resourcemanager.scheduler.monitor.policies", _POLICY, {_POLICY: _POLICY})
    default = Preemption()
    return Preemption(
        enabled=enabled or forced,
        period_ms=conf.whole(f"{_MONITOR}monitoring_interval", default.period_ms, least=1),
        max_wait_before_kill_ms=conf.whole(f"{_MONITOR}max_wait_before_kill", default.max_wait_before_kill_ms),
        total_per_round=_fraction(conf, "total_preemption_per_round", default.total_per_round, 1),
        max_ignored_over_capacity=_fraction(conf, "max_ignored_over_capacity", default.max_ignored_over_capacity, 1000),
        natural_termination_factor=_fraction(conf, "natural_termination_factor", default.natural_termination_factor, 1),
    )


def _fraction(conf: Configuration, name: str, default: float, most: float) -> float:
    return conf.number(f"{_MONITOR}{name}", default, least=0, most=most)
