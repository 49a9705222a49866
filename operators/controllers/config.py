"""The configuration of the controllers' process, as it stands in its ConfigMap."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from operators.config import Count, Millis, Nodes, load, own_namespace
from operators.lease import LeaderElection
from operators.log import Level
from operators.serving.ports import ManagementPort
from schedulers.objects.names import CONTROLLERS_LEASE


class ControllersConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings of `python -m operators.controllers`.

    recreate_after: a released pod for which kube-scheduler has found no room on its node for so long is made anew.
    concurrency: writes on their way at once. status_every: a job's status is written at most so often.
    unknown_resources: whether a DagJob that asks for what is not in `resources` is refused, or this is left to
    kube-scheduler. nodes: as brain's. kubeconfig: None in a cluster.
    """

    namespace: str = msgspec.field(default_factory=own_namespace)
    recreate_after: Millis = Millis(30_000)
    concurrency: Count = 16
    status_every: Millis = Millis(1000)
    resources: tuple[str, ...] = ("cpu", "memory", "pods")
    nodes: Nodes = "all"
    unknown_resources: Literal["refuse", "leave"] = "refuse"
    management: ManagementPort = ManagementPort(port=8082)
    leader_election: LeaderElection | None = LeaderElection(name=CONTROLLERS_LEASE)
    kubeconfig: str | None = None
    log_level: Level = "info"


def load_controllers(path: Path | str) -> ControllersConfig:
    """Read and check the file. Raises InvalidConfig with every mistake in it."""
    return load(path, ControllersConfig, config_map="rm-controllers")
