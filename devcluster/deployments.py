"""Runs the Pods of our Deployments as they are applied, with processes in the place of containers.

Kubernetes' own controllers make the Pods and replace them; here is the kubelet's part. The Pods have no node, so that
nothing takes room on nodes that schedulers see.

What a kubelet does, as far as our pods can tell: command, arguments and environment of each container; ConfigMaps,
Secrets, empty and claimed directories where they are mounted; the token bound to the Pod; probes; restarts; status.
Init containers run to their end first. There is no container, so an absolute mount path is replaced by a private
directory wherever it stands in arguments, environment or mounted text, a declared container port by a free one, and a
Service of ours by loopback.
"""

from __future__ import annotations

import base64
import contextlib
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
from operators.client import ApiError, path_of, stamp
from schedulers.objects.names import GROUP, LEADER_LABEL, NAMESPACE

_REPOSITORY: Final = Path(__file__).parents[1]
_TICK_S: Final = 0.2
_LIFE: Final = "2h"  # of a token
#: Before a dead container is started again, twice as long each time: a kubelet waits 10 s and more, up to 5 minutes;
#: tests have not the time. A container that has run for _STEADY_S starts afresh.
_RESTART_S: Final = 0.5
_LONGEST_S: Final = 4.0
_STEADY_S: Final = 10.0
#: Between two looks at the Pods.
_LOOK_S: Final = 0.5
#: For the controllers to make the Pods.
_MADE_S: Final = 60.0
#: Keeps a deleted Pod, and so its token, until its processes have ended; a Pod without a node would go at once.
_FINALIZER: Final = f"{GROUP}/devcluster"


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
    """One Pod: a folder, its containers. services: by name the port on loopback that stands for it."""

    def __init__(self, cluster: Devcluster, pod: Mapping[str, Any], services: Mapping[str, int]) -> None:
        self._cluster, self._spec = cluster, pod["spec"]
        self._services = services
        self.name: str = pod["metadata"]["name"]
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self._told: Any = None
        self._began = stamp()
        self.folder = cluster.folder / "pods" / self.name
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        declared = [port["containerPort"] for c in self._spec["containers"] for port in c.get("ports", ())]
        self.ports = dict(zip(declared, free_ports(len(declared)), strict=True))
        self._volumes = {volume["name"]: volume for volume in self._spec.get("volumes", ())}
        self.renew_token()
        self._run_init_containers()
        self.containers = {c["name"]: self._container(c) for c in self._spec["containers"]}

    # -- the Pod --------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether all containers are."""
        return all(container.ready for container in self.containers.values())

    def start(self) -> None:
        """Start the containers. The Pod stays from now on until `stop`, also when it is deleted."""
        self._cluster.patch(self._path, {"metadata": {"finalizers": [_FINALIZER]}})
        for container in self.containers.values():
            container.start()

    def stop(self, grace_s: float = 30.0) -> None:
        """End the containers, and let the Pod go."""
        for container in self.containers.values():
            container.process.send(signal.SIGTERM)
        for container in self.containers.values():
            container.process.stop(grace_s=grace_s)
            container.ready = False
        with contextlib.suppress(ApiError):
            self.tell()
            self._cluster.patch(self._path, {"metadata": {"finalizers": None}})

    def tell(self) -> None:
        """Write the Pod's status if it has changed. Raises ApiError."""
        status = self._status()
        if status != self._told:
            changed = [{**condition, "lastTransitionTime": stamp()} for condition in status["conditions"]]
            self._cluster.patch(f"{self._path}/status", {"status": status | {"conditions": changed}})
            self._told = status

    def _status(self) -> dict[str, Any]:
        ready = "True" if self.is_ready else "False"
        return {
            "phase": "Running",
            "startTime": self._began,
            "conditions": [{"type": name, "status": ready} for name in ("Ready", "ContainersReady")],
            "containerStatuses": [
                {
                    "name": name,
                    "image": "process",
                    "imageID": "",
                    "ready": container.ready,
                    "restartCount": max(0, container.restarts),
                    "state": {"running": {"startedAt": self._began}},
                }
                for name, container in self.containers.items()
            ],
        }

    @property
    def _path(self) -> str:
        return path_of("Pod", f"{self.namespace}/{self.name}")

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
        token = self._cluster.token(self.namespace, account, duration=_LIFE, pod=(self.name, self.uid))
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
            "metadata.uid": self.uid,
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
    """The Pods of a Deployment, run by a thread until they are stopped, oldest first. services: as of a Replica."""

    def __init__(
        self,
        cluster: Devcluster,
        name: str,
        namespace: str = NAMESPACE,
        *,
        services: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._cluster, self._name, self._namespace, self._services = cluster, name, namespace, services
        self._selector = ""
        self.replicas: list[Replica] = []
        self._ending: list[threading.Thread] = []
        self._lock, self._over = threading.RLock(), threading.Event()
        self._await_pods()
        self._compare()
        self._thread = threading.Thread(target=self._watch, name=f"kubelet-{name}", daemon=True)
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

    def leader(self) -> int | None:
        """The ready replica whose Pod has the leader's label; None where there is none, or none is ready."""
        pods = {pod["metadata"]["name"] for pod in self._pods(f"{LEADER_LABEL}=true")}
        return next((n for n, r in enumerate(self.replicas) if r.name in pods and r.is_ready), None)

    def is_ready(self) -> bool:
        """Whether at least one replica is ready in all its containers; of brains, whether the leader is."""
        return self.leader() is not None if "brain" in self._selector else any(r.is_ready for r in self.replicas)

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait for `is_ready`. Raises TimeoutError with the logs."""
        until = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > until:
                logs = [f"{c.name}:\n{c.process.tail()}" for r in self.replicas for c in r.containers.values()]
                raise TimeoutError("not ready:\n" + "\n".join(logs))
            time.sleep(0.1)

    def stop(self) -> None:
        """End all containers, as a node does that is shut down; the Pods stay, and are not ready."""
        self._over.set()
        self._thread.join()
        for thread in self._ending:
            thread.join()
        for replica in self.replicas:
            replica.stop()

    # -- the kubelet's part ---------------------------------------------------------------------

    def _await_pods(self) -> None:
        """Until the controllers have made as many Pods of the present template as the Deployment wants."""
        until = time.monotonic() + _MADE_S
        while True:
            deployment = self._cluster.get("deployment", self._name, "-n", self._namespace)
            spec, status = deployment["spec"], deployment.get("status", {})
            labels = spec["selector"]["matchLabels"]
            self._selector = ",".join(f"{key}={value}" for key, value in labels.items())
            is_seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
            if is_seen and status.get("replicas", 0) == status.get("updatedReplicas", 0) == spec.get("replicas", 1):
                return
            if time.monotonic() > until:
                raise Broken(f"no Pods are made of Deployment {self._name}: {status}")
            time.sleep(0.1)

    def _pods(self, selector: str) -> list[dict[str, Any]]:
        """Pods of the Deployment that have these labels too, oldest first; none while nobody answers."""
        try:
            listed = self._cluster.get("pods", "-n", self._namespace, "-l", f"{self._selector},{selector}".strip(","))
        except RuntimeError:
            return []
        return sorted(listed["items"], key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def _compare(self) -> None:
        """Start Pods that have come, and end those that are deleted."""
        pods = self._pods("")
        if not pods:
            return
        wanted = {pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        for replica in [each for each in self.replicas if each.uid not in wanted]:
            with self._lock:
                self.replicas = [each for each in self.replicas if each is not replica]
            self._ending.append(threading.Thread(target=replica.stop, name=f"end-{replica.name}", daemon=True))
            self._ending[-1].start()
        for uid in wanted.keys() - {each.uid for each in self.replicas}:
            replica = Replica(self._cluster, wanted[uid], self._services)
            replica.start()
            with self._lock:
                self.replicas = [*self.replicas, replica]

    def _watch(self) -> None:
        renewed = looked = time.monotonic()
        while not self._over.wait(_TICK_S):
            now = time.monotonic()
            with contextlib.suppress(ApiError, RuntimeError):  # the API server is away
                if now - renewed > 1800:
                    renewed = now
                    for replica in self.replicas:
                        replica.renew_token()
                if now - looked > _LOOK_S:
                    looked = now
                    self._compare()
            for replica in self.replicas:
                for container in replica.containers.values():
                    self._look_at(container)
                with contextlib.suppress(ApiError):
                    replica.tell()

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
