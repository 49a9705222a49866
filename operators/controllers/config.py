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
    """All settings of `python -m operators.controllers`."""

    namespace: str = msgspec.field(default_factory=own_namespace)
    recreate_after: Millis = Millis(30_000)
    """A released pod without room on its node for so long, by kube-scheduler's word, is made anew."""
    concurrency: Count = 16
    """Writes on their way at once."""
    status_every: Millis = Millis(1000)
    """Shortest time between two writes of a job's status."""
    resources: tuple[str, ...] = ("cpu", "memory", "pods")
    nodes: Nodes = "all"
    """As brain's."""
    unknown_resources: Literal["refuse", "leave"] = "refuse"
    """Whether a DagJob with requests outside `resources` is refused, or left to kube-scheduler."""
    management: ManagementPort = ManagementPort(port=8082)
    leader_election: LeaderElection | None = LeaderElection(name=CONTROLLERS_LEASE)
    kubeconfig: str | None = None
    """None in a cluster."""
    log_level: Level = "info"


def load_controllers(path: Path | str) -> ControllersConfig:
    """Read and check the file. Raises InvalidConfig with every mistake in the file."""
    return load(path, ControllersConfig, config_map="rm-controllers")
