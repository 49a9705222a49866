"""Our parts installed on a devcluster, and what tests do with them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
import yaml

from devcluster import binaries
from devcluster.cluster import Devcluster, free_ports
from devcluster.deployments import Running
from devcluster.installation import MANIFESTS, apply_crds, change_config
from devcluster.service import Service
from operators.client import ApiError
from schedulers.core.replay import Replay
from schedulers.objects import names

#: Of a devcluster.
NODES = 4
#: Further flags by part of a control plane.
Flags: TypeAlias = Mapping[str, Sequence[str]]
NO_FLAGS: Flags = MappingProxyType({})


def programs(version: str = binaries.VERSION) -> Mapping[str, Path]:
    """The programs of a control plane. CI builds what is missing, others skip the test."""
    ci = os.environ.get("CI") == "true"
    if binaries.missing(version) and not ci:
        lacking = ", ".join(binaries.missing(version))
        pytest.skip(f"no control plane: `make controlplane` builds {lacking} (needs Go 1.26)")
    return binaries.need(version, build=ci)


def program(name: str) -> Path:
    """One program. CI builds what is missing, others skip the test."""
    found = binaries.find(name)
    if found is None and os.environ.get("CI") == "true":
        binaries.build_all(programs=(name,))
        found = binaries.find(name)
    if found is None:
        pytest.skip(f"no {name}: `make controlplane` builds one (needs Go 1.26)")
    return found


@contextmanager
def a_control_plane(folder: Path, *, version: str = binaries.VERSION, flags: Flags = NO_FLAGS) -> Iterator[Devcluster]:
    """A control plane that is not up yet, and gone at the end."""
    programs(version)
    cluster = Devcluster(folder, version=version, flags=flags)
    try:
        yield cluster
    finally:
        cluster.remove()


@contextmanager
def a_devcluster(
    folder: Path, *, version: str = binaries.VERSION, reserved: bool = True, flags: Flags = NO_FLAGS
) -> Iterator[Devcluster]:
    """A control plane with 4 nodes (reserved: as the overlays want them) and our CRDs."""
    with a_control_plane(folder, version=version, flags=flags) as cluster:
        cluster.up(nodes=NODES, reserved=reserved)
        apply_crds(cluster)
        yield cluster


def renamed(folder: Path, overlay: str, namespace: str = names.NAMESPACE, prefix: str = "") -> Path:
    """An overlay of ours under one that an installer would write in `folder`; ours itself where nothing is renamed."""
    ours = MANIFESTS / "overlays" / overlay
    if namespace == names.NAMESPACE and not prefix:
        return ours
    folder.mkdir(parents=True, exist_ok=True)
    above = {"namespace": namespace, "namePrefix": prefix, "resources": [os.path.relpath(ours, folder.resolve())]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(above))
    return folder


class Installed:
    """Brain, kube-scheduler and controllers, running from an applied overlay.

    brain, controllers: settings that replace those of the ConfigMaps. The overlay `production` gets its certificates,
    and a Service in front of its brains. namespace, prefix: what an overlay above it calls them.
    """

    def __init__(
        self,
        cluster: Devcluster,
        *,
        overlay: str = "dev",
        brain: Mapping[str, Any] | None = None,
        controllers: Mapping[str, Any] | None = None,
        namespace: str = names.NAMESPACE,
        prefix: str = "",
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        cluster.apply(renamed(cluster.folder / "overlay", overlay, namespace, prefix))
        self._configure(f"{prefix}rm-brain", brain or {})
        self._configure(f"{prefix}rm-controllers", controllers or {})
        self.service = self._certified(f"{prefix}rm-brain") if overlay == "production" else None
        services = {f"{prefix}rm-brain": self.service.port} if self.service is not None else {}
        self.brain = Running(cluster, f"{prefix}rm-brain", namespace, services=services)
        self.controllers = Running(cluster, f"{prefix}rm-controllers", namespace)
        if self.service is not None:
            self.service.lead_to(self.brain, 8443)
        try:
            self.controllers.wait_ready()
            self.brain.wait_ready()
            wait(self._is_admitting)
        except BaseException:
            self.stop()
            raise

    def _is_admitting(self) -> bool:
        """Whether the API server has heard of our kinds, which its policies look up: a moment after they are made."""
        return asyncio.run(self._admits(dagjob("probe", "default", [stage("a", 1, 1)])))

    async def _admits(self, job: Mapping[str, Any]) -> bool:
        """By HTTP, because it is asked five times a second, and each kubectl first asks for all kinds."""
        async with self.cluster.client() as client:
            try:
                await client.create(f"/apis/{names.API_VERSION}/namespaces/default/dagjobs", job, dryRun="All")
            except ApiError as error:
                if "There can be a delay" not in str(error) and "not yet synced" not in str(error):
                    raise
                return False
        return True

    def _configure(self, name: str, settings: Mapping[str, Any]) -> None:
        change_config(self.cluster, name, lambda config: config | dict(settings), namespace=self.namespace)

    def _certified(self, name: str) -> Service:
        """Make the Secrets; the Service is a port that will lead to the brain that leads."""
        kubectl = f"{self.cluster.programs['kubectl']} --kubeconfig {self.cluster.kubeconfig}"
        script = MANIFESTS / "overlays" / "production" / "certificates.sh"
        command = [str(script), "--namespace", self.namespace]
        subprocess.run(command, env={"PATH": os.environ["PATH"], "KUBECTL": kubectl}, check=True, timeout=60)
        return Service(self.cluster, free_ports(1)[0], name, self.namespace)

    @property
    def logs(self) -> list[Path]:
        """Event logs of the brain's terms, oldest first."""
        files = [f for r in self.brain.replicas for f in (r.folder / "volumes").glob("*/log/events-*.jsonl")]
        return sorted(files, key=lambda file: file.name)

    def said(self, *words: str) -> str:
        """Lines of our parts' logs and event logs that name one of these, or tell of who leads or of mistakes."""
        told = re.compile("|".join([*(rf"\b{re.escape(word)}\b" for word in words), "leads", "error"]))
        parts = [part for running in (self.brain, self.controllers) for part in running.replicas]
        logs = [*(container.process.log for part in parts for container in part.containers.values()), *self.logs]
        return "\n".join(
            line for log in logs for line in log.read_text(errors="replace").splitlines() if told.search(line)
        )

    def stop(self) -> None:
        """End our parts; their objects stay."""
        self.brain.stop()
        self.controllers.stop()
        if self.service is not None:
            self.service.stop()

    def replay(self, *, cut: bool = False) -> int:
        """As `replayed`, of the brains' event logs."""
        return replayed(self.logs, cut=cut)


def replayed(logs: Iterable[Path], *, cut: bool = False) -> int:
    """Replay event logs: decisions must be identical. Returns how many facts there were.

    cut: brains were killed, so a last line may be cut off.
    """
    facts = 0
    for file in logs:
        lines = file.read_bytes().splitlines(keepends=True)
        if cut and lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        if cut:
            lines = _whole_rounds(lines)
        if lines:
            facts += sum(1 for _ in Replay(lines))
    return facts


def _whole_rounds(lines: list[bytes]) -> list[bytes]:
    """Without the last fact of a log that was cut off, whose decisions may not all have been written."""
    while lines and not lines[-1].startswith(b'{"event"'):
        lines.pop()
    return lines[:-1]


def wait(true: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until something is true, and return it."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.2)
    return found


def dagjob(name: str, namespace: str, stages: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """A DagJob as it is applied."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"stages": stages, **spec},
    }


def stage(name: str, tasks: int, seconds: float, *, cpu: str = "2", **more: Any) -> dict[str, Any]:
    """A stage whose pods run so many seconds."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {"metadata": {"annotations": {names.RUN_SECONDS: str(seconds)}}, "spec": {"containers": [container]}}
    return {"name": name, "tasks": tasks, "template": template, **more}


def submit(cluster: Devcluster, *objects: dict[str, Any]) -> None:
    """kubectl create."""
    cluster.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def phase(cluster: Devcluster, namespace: str, name: str) -> str:
    """Of a DagJob."""
    return str(cluster.get("dagjob", name, "-n", namespace).get("status", {}).get("phase", ""))
