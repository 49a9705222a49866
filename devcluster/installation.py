"""Our parts on a devcluster, from the manifests of a checkout: applied, configured, run as their Deployments say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from devcluster.service import Service
from schedulers.objects import names

MANIFESTS: Final = Path(__file__).parents[1] / "manifests"
_PARTS: Final = ("rm-brain", "rm-controllers")


def apply_crds(cluster: Devcluster) -> None:
    """Our kinds, once the API server serves them."""
    cluster.apply(MANIFESTS / "crds")
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")


def change_config(
    cluster: Devcluster,
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    namespace: str = names.NAMESPACE,
) -> None:
    """Replace the settings of a ConfigMap's `config.yaml` by what `change` makes of them."""
    settings = yaml.safe_load(cluster.get("configmap", name, "-n", namespace)["data"]["config.yaml"])
    patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(change(settings), sort_keys=False)}})
    cluster.kubectl("patch", "configmap", name, "-n", namespace, "--type=merge", "-p", patch)


@contextmanager
def running(cluster: Devcluster, service: Service | None = None) -> Iterator[Running]:
    """Run the applied brain and controllers; yields the brain when both are ready. service: is led to the brain."""
    with ExitStack() as stack:
        parts = []
        for name in _PARTS:
            parts.append(Running(cluster, name))
            stack.callback(parts[-1].stop)
        if service is not None:
            service.lead_to(parts[0], "brain", 8443)
            stack.callback(service.stop)
        for part in parts:
            part.wait_ready()
        yield parts[0]


def until(true: Callable[[], bool], longest_s: float, *, every_s: float = 0.2) -> None:
    """Ask again and again until the answer is true. Raises TimeoutError."""
    end = time.monotonic() + longest_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"what was waited for does not happen within {longest_s:g} s")
        time.sleep(every_s)
