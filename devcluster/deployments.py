"""Runs our Deployments as they are applied, with processes in the place of containers.

What a kubelet does, as far as our pods can tell: command, arguments and environment of each container; ConfigMaps,
Secrets, empty and claimed directories where they are mounted; the ServiceAccount's token; probes; restarts.
Init containers run to their end first. There is no container, so an absolute mount path is replaced by a private
directory wherever it stands in arguments, environment or mounted text, a declared container port by a free one, and a
Service of ours by loopback.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from devcluster.cluster import Broken, Devcluster, free_ports
from devcluster.pki import write
from devcluster.processes import Process
from schedulers.objects.names import NAMESPACE

_REPOSITORY: Final = Path(__file__).parents[1]
_TICK_S: Final = 0.2
_LIFE: Final = "2h"  # of a token
#: Before a dead container is started again, twice as long each time: a kubelet waits 10 s and more, up to 5 minutes;
#: tests have not the time. A container that has run for _STEADY_S starts afresh.
_RESTART_S: Final = 0.5
_LONGEST_S: Final = 4.0
_STEADY_S: Final = 10.0


class Probe(msgspec.Struct):
    """One probe of one container, as a kubelet does it."""

    url: str
    period_s: float = 10.0
    timeout_s: float = 1.0
    threshold: int = 3
    due: float = 0.0
    failures: int = 0

    def ask(self) -> bool:
        """Call it; counts failures in a row."""
        self.due = time.monotonic() + self.period_s
        good = answers(self.url, self.timeout_s)
        self.failures = 0 if good else self.failures + 1
        return good

    @property
    def has_failed(self) -> bool:
        """Whether it has failed so often that it counts."""
        return self.failures >= self.threshold


class Container:
    """One container of one replica."""

    def __init__(
        self,
        name: str,
        process: Process,
        command: list[str],
        env: dict[str, str],
        cwd: Path,
        probes: dict[str, Probe],
    ) -> None:
        self.name, self.process, self._command, self._env, self._cwd = name, process, command, env, cwd
        self.probes = probes  # startup, liveness, readiness
        self.ready = self.started = False
        self.restarts = -1
        self._began = self._pause = 0.0
        self._due: float | None = None

    def start(self) -> None:
        """Start it (again)."""
        self.process.start(self._command, env=self._env, cwd=self._cwd)
        self.restarts += 1
        self._began, self._due = time.monotonic(), None
        self.started, self.ready = "startup" not in self.probes, not self.probes
        for probe in self.probes.values():
            probe.failures, probe.due = 0, 0.0

    def run(self, seconds: float = 60) -> None:
        """Run it to its end, as an init container. Raises Broken if it fails or takes longer."""
        code = self.process.run(self._command, env=self._env, cwd=self._cwd, seconds=seconds)
        if code != 0:
            raise Broken(f"init container {self.name} ends with {code}:\n{self.process.tail()}")

    def restart_when_due(self) -> None:
        """For one that has ended: start it after its back-off."""
        now = time.monotonic()
        self.ready = False
        if self._due is None:
            steady = now - self._began > _STEADY_S
            self._pause = _RESTART_S if steady else min(_LONGEST_S, max(_RESTART_S, 2 * self._pause))
            self._due = now + self._pause
        elif now >= self._due:
            self.start()

    def probe(self) -> bool:
        """Make the calls that are due; returns whether it has to be killed."""
        now = time.monotonic()
        startup = self.probes.get("startup")
        if not self.started and startup is not None:
            if now >= startup.due:
                self.started = startup.ask()
            if not self.started:
                return startup.has_failed
        readiness, liveness = self.probes.get("readiness"), self.probes.get("liveness")
        if readiness is None:
            self.ready = True
        elif now >= readiness.due:
            self.ready = readiness.ask() or (self.ready and not readiness.has_failed)
        if liveness is not None and now >= liveness.due:
            liveness.ask()
        return liveness is not None and liveness.has_failed


class Replica:
    """One pod of a Deployment: a folder, its containers. services: by name the port on loopback that stands for it."""

    def __init__(
        self, cluster: Devcluster, deployment: Mapping[str, Any], index: int, services: Mapping[str, int]
    ) -> None:
        self._cluster, self._spec = cluster, deployment["spec"]["template"]["spec"]
        self._services = services
        self.name = f"{deployment['metadata']['name']}-{index}"
        self.namespace: str = deployment["metadata"]["namespace"]
        self.folder = cluster.folder / "pods" / self.name
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        declared = [port["containerPort"] for c in self._spec["containers"] for port in c.get("ports", ())]
        self.ports = dict(zip(declared, free_ports(len(declared)), strict=True))
        self._volumes = {volume["name"]: volume for volume in self._spec.get("volumes", ())}
        self.renew_token()
        self._run_init_containers()
        self.containers = {c["name"]: self._container(c) for c in self._spec["containers"]}

    def _run_init_containers(self) -> None:
        """Run them one after the other; then replace the Services that their files name by local ports."""
        for container in self._spec.get("initContainers", ()):
            self._container(container).run()
            for mount in container.get("volumeMounts", ()):
                if "emptyDir" in self._volumes[mount["name"]]:
                    for file in (self.folder / "volumes" / mount["name"]).iterdir():
                        write(file, self._reached(file.read_text()).encode())

    def _reached(self, text: str) -> str:
        """The text with local ports where it names Services."""
        for name, port in self._services.items():
            text = re.sub(rf"//{re.escape(name)}:\d+", f"//127.0.0.1:{port}", text)
        return text

    # -- files ----------------------------------------------------------------------------------

    def renew_token(self) -> None:
        """Write the ServiceAccount's files; a kubelet renews tokens before they end."""
        folder = self.folder / "serviceaccount"
        folder.mkdir(exist_ok=True, mode=0o700)
        account = self._spec.get("serviceAccountName", "default")
        token = self._cluster.token(self.namespace, account, duration=_LIFE)
        for name, text in (
            ("token", token),
            ("ca.crt", self._cluster.authority.ca.read_text()),
            ("namespace", self.namespace),
        ):
            write(folder / name, text.encode())
        self._cluster.authority.kubeconfig(
            self.folder / "kubeconfig", self._cluster.url, {"tokenFile": str(folder / "token")}
        )

    def _mounts(self, container: Mapping[str, Any]) -> dict[str, Path]:
        """Mount path -> private directory, longest path first; an init container writes of the others' mounts too."""
        every = [*self._spec.get("initContainers", ()), *self._spec["containers"], container]
        folders = {
            mount["mountPath"].rstrip("/"): self.folder / "volumes" / mount["name"]
            for one in every
            for mount in one.get("volumeMounts", ())
        }
        return dict(sorted(folders.items(), key=lambda item: -len(item[0])))

    def _fill(self, mounts: Mapping[str, Path], container: Mapping[str, Any]) -> None:
        for mount in container.get("volumeMounts", ()):
            volume, folder = self._volumes[mount["name"]], self.folder / "volumes" / mount["name"]
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, content in self._content(volume).items():
                write(folder / name, self._localised(content, mounts))

    def _content(self, volume: Mapping[str, Any]) -> dict[str, bytes]:
        """Files of a volume; empty and claimed ones have none of their own."""
        if "configMap" in volume:
            given = self._cluster.get("configmap", volume["configMap"]["name"], "-n", self.namespace)
            return {name: text.encode() for name, text in (given.get("data") or {}).items()}
        if "secret" in volume:
            given = self._cluster.get("secret", volume["secret"]["secretName"], "-n", self.namespace)
            return {name: base64.b64decode(text) for name, text in (given.get("data") or {}).items()}
        if {"emptyDir", "persistentVolumeClaim", "ephemeral"} & volume.keys():
            return {}
        raise Broken(f"{self.name}: a devcluster has no volumes such as '{volume['name']}' ({', '.join(volume)})")

    def _localised(self, content: bytes, mounts: Mapping[str, Path]) -> bytes:
        try:
            return self._localise(content.decode(), mounts).encode()
        except UnicodeDecodeError:
            return content  # no text

    def _localise(self, text: str, mounts: Mapping[str, Path]) -> str:
        """Paths, ports and names of the cluster as they are here."""
        for path, folder in mounts.items():
            text = re.sub(rf"{re.escape(path)}(?=[/\s\"',}}\]]|$)", str(folder), text)
        for port, ours in self.ports.items():
            text = re.sub(rf"((?:[pP]ort: ?|//127\.0\.0\.1:|=)){port}\b", rf"\g<1>{ours}", text)
        text = text.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - taken out, not in
        # kube-scheduler knows its API server by a kubeconfig; in a pod an empty one means the ServiceAccount.
        return re.sub(
            r"(clientConnection:\s*\n\s+)(?!kubeconfig)", rf"\g<1>kubeconfig: {self.folder / 'kubeconfig'}\n  ", text
        )

    # -- containers -----------------------------------------------------------------------------

    def _container(self, spec: Mapping[str, Any]) -> Container:
        mounts = self._mounts(spec)
        self._fill(mounts, spec)
        command = [*spec.get("command", ()), *spec.get("args", ())]
        environment = self._environment(spec, mounts)
        command = [self._localise(_expanded(part, environment), mounts) for part in command]
        if command[0].endswith("python") or command[0].endswith("python3"):
            command[0] = sys.executable
        elif command[0].rpartition("/")[2] in self._cluster.programs:
            command[0] = str(self._cluster.programs[command[0].rpartition("/")[2]])
        process = Process(self.folder, spec["name"])
        return Container(spec["name"], process, command, environment, self.folder, dict(self._probes(spec)))

    def _probes(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, Probe]]:
        for kind in ("startup", "liveness", "readiness"):
            probe = spec.get(f"{kind}Probe")
            if probe is not None:
                yield (
                    kind,
                    Probe(
                        url=self._probe_url(probe["httpGet"], spec),
                        period_s=float(probe.get("periodSeconds", 10)),
                        timeout_s=float(probe.get("timeoutSeconds", 1)),
                        threshold=int(probe.get("failureThreshold", 3)),
                    ),
                )

    def _environment(self, spec: Mapping[str, Any], mounts: Mapping[str, Path]) -> dict[str, str]:
        host, _, port = self._cluster.url.removeprefix("https://").partition(":")
        env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "PYTHONPATH": str(_REPOSITORY),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "RM_SERVICEACCOUNT_DIR": str(self.folder / "serviceaccount"),
        }
        fields = {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "status.podIP": "127.0.0.1",
            "metadata.uid": self.name,
        }
        for entry in spec.get("env", ()):
            if "value" in entry:
                env[entry["name"]] = self._localise(entry["value"], mounts)
            else:
                env[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        return env

    def _probe_url(self, get: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
        port = get["port"]
        if isinstance(port, str):
            port = next(p["containerPort"] for p in spec["ports"] if p.get("name") == port)
        scheme = get.get("scheme", "HTTP").lower()
        return f"{scheme}://127.0.0.1:{self.ports.get(port, port)}{get.get('path', '/')}"


class Running:
    """A Deployment that runs, watched over by a thread until it is stopped. services: as of a Replica."""

    def __init__(
        self,
        cluster: Devcluster,
        name: str,
        namespace: str = NAMESPACE,
        *,
        services: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        deployment = cluster.get("deployment", name, "-n", namespace)
        count = deployment["spec"].get("replicas", 1)
        self.replicas = [Replica(cluster, deployment, index, services) for index in range(count)]
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"kubelet-{name}", daemon=True)
        for replica in self.replicas:
            for container in replica.containers.values():
                container.start()
        self._thread.start()

    def container(self, name: str, replica: int = 0) -> Container:
        """One container."""
        return self.replicas[replica].containers[name]

    def kill(self, name: str, replica: int = 0, *, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal that ends one container, and wait until it has; it is started again soon."""
        with self._lock:
            self.container(name, replica).process.stop(number)

    def logs(self, name: str, replica: int = 0, lines: int = 40) -> str:
        """The end of what a container has said."""
        return self.container(name, replica).process.tail(lines)

    def is_ready(self) -> bool:
        """Whether at least one replica is ready in all its containers."""
        return any(all(c.ready for c in replica.containers.values()) for replica in self.replicas)

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait for `is_ready`. Raises TimeoutError with the logs."""
        until = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > until:
                logs = [f"{c.name}:\n{c.process.tail()}" for r in self.replicas for c in r.containers.values()]
                raise TimeoutError("not ready:\n" + "\n".join(logs))
            time.sleep(0.1)

    def stop(self) -> None:
        """End all containers, as a deleted Deployment's."""
        self._over.set()
        self._thread.join()
        for replica in self.replicas:
            for container in replica.containers.values():
                container.process.stop()

    # -- the kubelet's part ---------------------------------------------------------------------

    def _watch(self) -> None:
        renewed = time.monotonic()
        while not self._over.wait(_TICK_S):
            if time.monotonic() - renewed > 1800:
                renewed = time.monotonic()
                for replica in self.replicas:
                    replica.renew_token()
            for replica in self.replicas:
                for container in replica.containers.values():
                    self._look_at(container)

    def _look_at(self, container: Container) -> None:
        with self._lock:
            if container.process.pid() is None:
                container.restart_when_due()
                return
        if container.probe():  # without the lock: a probe may take seconds
            with self._lock:
                container.process.kill()


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """A command's or argument's `$(NAME)`, as a kubelet expands it; unknown names stay."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), text)


def answers(url: str, timeout_s: float = 1.0) -> bool:
    """Whether a probe of this address would succeed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a kubelet does not verify either
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return bool(200 <= answer.status < 400)
    except OSError:
        return False
