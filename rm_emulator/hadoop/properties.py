"""Kinds of Hadoop's properties: modelled, harmless to the order of events, or not modelled.

Patterns are shell-style; a queue's name may stand where `*` does. A property in neither table is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal

from schedulers.core.errors import nearest

Kind = Literal["modelled", "harmless", "not modelled"]

_CS: Final = "yarn.scheduler.capacity."
_FS: Final = "yarn.scheduler.fair."
_MONITOR: Final = "yarn.resourcemanager.monitor.capacity.preemption."

MODELLED: Final = (
    "yarn.resourcemanager.scheduler.class",
    "yarn.scheduler.minimum-allocation-mb",
    "yarn.scheduler.minimum-allocation-vcores",
    "yarn.scheduler.maximum-allocation-mb",
    "yarn.scheduler.maximum-allocation-vcores",
    "yarn.scheduler.increment-allocation-mb",
    "yarn.scheduler.increment-allocation-vcores",
    "yarn.scheduler.reservation-threshold.increment-multiple",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
    "yarn.resourcemanager.scheduler.monitor.enable",
    "yarn.resourcemanager.scheduler.monitor.policies",
    "yarn.nodemanager.resource.memory-mb",
    "yarn.nodemanager.resource.cpu-vcores",
    "yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms",
    "yarn.sls.nm.memory.mb",
    "yarn.sls.nm.vcores",
    "yarn.sls.nm.heartbeat.interval.ms",
    "yarn.sls.am.heartbeat.interval.ms",
    "yarn.sls.am.type",
    "yarn.sls.am.type.mapreduce",
    "yarn.sls.am.container.memory",
    "yarn.sls.am.container.vcores",
    "yarn.sls.container.memory.mb",
    "yarn.sls.container.vcores",
    f"{_CS}root*.queues",
    f"{_CS}root*.capacity",
    f"{_CS}root*.maximum-capacity",
    f"{_CS}root*.user-limit-factor",
    f"{_CS}root*.minimum-user-limit-percent",
    f"{_CS}maximum-am-resource-percent",
    f"{_CS}root*.maximum-am-resource-percent",
    f"{_CS}root*.ordering-policy",
    f"{_CS}root*.priority",
    f"{_CS}root*.disable_preemption",
    f"{_CS}resource-calculator",
    f"{_CS}node-locality-delay",
    f"{_CS}rack-locality-additional-delay",
    f"{_CS}per-node-heartbeat.maximum-offswitch-assignments",
    f"{_CS}per-node-heartbeat.multiple-assignments-enabled",
    f"{_CS}per-node-heartbeat.maximum-container-assignments",
    f"{_MONITOR}monitoring_interval",
    f"{_MONITOR}max_wait_before_kill",
    f"{_MONITOR}total_preemption_per_round",
    f"{_MONITOR}max_ignored_over_capacity",
    f"{_MONITOR}natural_termination_factor",
    f"{_FS}allocation.file",
    f"{_FS}allow-undeclared-pools",
    f"{_FS}preemption",
    f"{_FS}assignmultiple",
    f"{_FS}dynamic.max.assign",
    f"{_FS}max.assign",
    f"{_FS}update-interval-ms",
    f"{_FS}locality.threshold.node",
    f"{_FS}locality.threshold.rack",
    f"{_FS}reservable-nodes",
)

#: Not modelled, but no difference at this value, Hadoop's default.
AT_DEFAULT: Final = {
    f"{_CS}rack-locality-full-reset": ("true",),
    f"{_CS}reservations-continue-look-all-nodes": ("true",),
    f"{_CS}schedule-asynchronously.enable": ("false",),
    f"{_CS}lazy-preemption-enabled": ("false",),
    f"{_CS}multi-node-placement-enabled": ("false",),
    f"{_CS}queue-mappings-override.enable": ("false",),
    f"{_CS}queue-mappings": ("",),
    f"{_CS}maximum-applications": ("10000",),
    f"{_CS}*.state": ("running",),
    f"{_CS}*.auto-create-child-queue.enabled": ("false",),
    f"{_CS}*.accessible-node-labels": ("*",),
    f"{_FS}sizebasedweight": ("false",),
    f"{_FS}continuous-scheduling-enabled": ("false",),
    f"{_FS}user-as-default-queue": ("true",),
    f"{_MONITOR}observe_only": ("false",),
    f"{_MONITOR}select_based_on_reserved_containers": ("false",),
    f"{_MONITOR}additional_res_balance_based_on_reserved_containers": ("false",),
    f"{_MONITOR}intra-queue-preemption.enabled": ("false",),
    f"{_MONITOR}preemption-to-balance-queue-after-satisfied.enabled": ("false",),
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-scaling-enable": ("false",),
    "yarn.sls.nm.resource.utilization.ratio": ("-1", "-1.0"),
}

#: Addresses, paths, security, metrics, web pages, logging, and what SLS's own machinery needs.
HARMLESS: Final = (
    "*address",
    "*address.*",
    "*.acl*",
    "*acl_*",
    "*.hostname",
    "*-dir",
    "*-dirs",
    "*.dir",
    "*.dirs",
    "*metrics*",
    "*webapp*",
    "*log-aggregation*",
    "*kerberos*",
    "*principal*",
    "*keytab*",
    "hadoop.*",
    "fs.*",
    "io.*",
    "ipc.*",
    "ha.*",
    "dfs.*",
    "net.*",
    "mapred*",
    "yarn.acl.*",
    "yarn.admin.*",
    "yarn.application.classpath",
    "yarn.client.*",
    "yarn.timeline-service.*",
    "yarn.log*",
    "yarn.nodemanager.aux-services*",
    "yarn.nodemanager.env*",
    "yarn.resourcemanager.cluster-id",
    "yarn.resourcemanager.ha.*",
    "yarn.resourcemanager.store.class",
    "yarn.resourcemanager.zk-*",
    "yarn.sls.runner.pool.size",
    "yarn.sls.dns.caching.enabled",
    "yarn.sls.scheduler.*",
    "yarn.sls.am.type.*",
    "org.apache.hadoop.yarn.server.resourcemanager.scheduler.*",
    f"{_CS}application.fail-fast",
    f"{_FS}migration.mode",
    f"{_FS}no-terminal-rule.check",
)


def kind_of(name: str, value: str) -> Kind:
    """Whether the emulator takes the property into account, at this value."""
    if any(fnmatchcase(name, pattern) for pattern in MODELLED):
        return "modelled"
    for pattern, values in AT_DEFAULT.items():
        if fnmatchcase(name, pattern):
            return "harmless" if value.strip().lower() in values else "not modelled"
    return "harmless" if any(fnmatchcase(name, pattern) for pattern in HARMLESS) else "not modelled"


def near_modelled(name: str) -> str | None:
    """The modelled property nearest to a mistyped name; None when nothing is near, or Hadoop has the name."""
    if any(fnmatchcase(name, pattern) for pattern in AT_DEFAULT):
        return None
    if not name.startswith(f"{_CS}root."):
        shared = next((prefix for prefix in (_CS, _FS, _MONITOR) if name.startswith(prefix)), "")
        rest = (
            pattern.removeprefix(shared) for pattern in MODELLED if pattern.startswith(shared) and "*" not in pattern
        )
        near = nearest(name.removeprefix(shared), rest)
        return None if near is None else shared + near
    queue, _, setting = name.rpartition(".")
    settings = [pattern.rpartition(".")[2] for pattern in MODELLED if pattern.startswith(f"{_CS}root*")]
    near = nearest(setting, settings)
    return None if near is None else f"{queue}.{near}"


def not_modelled(properties: Iterable[tuple[str, str]]) -> list[str]:
    """The names among (name, value) with a possible effect that the emulator does not model, sorted."""
    return sorted(name for name, value in properties if kind_of(name, value) == "not modelled")
