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
    """Namespace of the Lease; by default that of the own pod."""
    recreate_after: Millis = Millis(30_000)
    """Time after which a released pod is made anew if kube-scheduler finds no room for it on its node."""
    concurrency: Count = 16
    """Most writes on their way at once."""
    status_every: Millis = Millis(1000)
    """Shortest time between two writes of a job's status."""
    resources: tuple[str, ...] = ("cpu", "memory", "pods")
    """Resources that brain counts, as in the brain's configuration."""
    nodes: Nodes = "all"
    """Nodes for pods that join, as in the brain's configuration."""
    unknown_resources: Literal["refuse", "leave"] = "refuse"
    """`refuse`: a DagJob with requests outside `resources` fails; `leave`: kube-scheduler finds the node."""
    management: ManagementPort = ManagementPort(port=8082)
    leader_election: LeaderElection | None = LeaderElection(name=CONTROLLERS_LEASE)
    kubeconfig: str | None = None
    """Kubeconfig files, `A:B`; None in a cluster, where the ServiceAccount counts."""
    log_level: Level = "info"


def load_controllers(path: Path | str) -> ControllersConfig:
    """Read and check the file. Raises InvalidConfig with every mistake in the file."""
    return load(path, ControllersConfig, config_map="rm-controllers")
