"""Our parts on a devcluster, from the manifests of a checkout: applied, configured, run as their Deployments say."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.cluster import Broken, Devcluster
from devcluster.deployments import Running
from devcluster.processes import Process
from devcluster.service import Service
from schedulers.objects import names

MANIFESTS: Final = Path(__file__).parents[1] / "manifests"
_PARTS: Final = ("rm-brain", "rm-controllers")
_READY_S: Final = 120.0
#: A job that admission is asked about and that nobody makes.
_PROBE: Final = {
    "apiVersion": names.API_VERSION,
    "kind": "DagJob",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {"stages": [{"name": "s", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]},
}


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
            parts.append(Running(cluster, name, services={"rm-brain": service.port} if service is not None else {}))
            stack.callback(parts[-1].stop)
        if service is not None:
            service.lead_to(parts[0], 8443)
            stack.callback(service.stop)
        for part in parts:
            part.wait_ready()
        yield parts[0]


def install(cluster: Devcluster) -> None:
    """Apply the overlay `dev` and run its Deployments in a process that outlives the caller. Raises Broken."""
    process, ready = _runner(cluster), cluster.folder / "ready"
    if process.pid() is not None:
        return
    ready.unlink(missing_ok=True)
    apply_crds(cluster)
    cluster.apply(MANIFESTS / "overlays" / "dev")
    environment = {**os.environ, "PYTHONPATH": str(MANIFESTS.parent)}
    process.start([sys.executable, "-m", "devcluster", "run", "--dir", str(cluster.folder)], env=environment)
    try:
        until(lambda: ready.exists() or process.pid() is None, _READY_S)
    except TimeoutError:
        process.stop()
    if not ready.exists():
        raise Broken(f"brain and controllers do not become ready:\n{process.tail()}")


def run_installed(cluster: Devcluster) -> None:
    """Run the applied Deployments until SIGTERM; the file `ready` appears when they are ready and admission is."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with running(cluster):
        until(lambda: admits(cluster), _READY_S, every_s=0.5)
        (cluster.folder / "ready").touch()
        over.wait()


def uninstall(cluster: Devcluster) -> None:
    """End what `install` has started; the objects stay."""
    _runner(cluster).stop(grace_s=30)


def _runner(cluster: Devcluster) -> Process:
    return Process(cluster.folder, "run")


def admits(cluster: Devcluster) -> bool:
    """True once admission knows our kinds, a moment after they were made."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(_PROBE))
    except RuntimeError:
        return False
    return True


def until(true: Callable[[], bool], longest_s: float, *, every_s: float = 0.2) -> None:
    """Ask again and again until the answer is true. Raises TimeoutError."""
    end = time.monotonic() + longest_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"what was waited for does not happen within {longest_s:g} s")
        time.sleep(every_s)
