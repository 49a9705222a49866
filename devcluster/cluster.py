"""A devcluster: etcd, API server, controller manager and fake kubelets on loopback, in one folder.

Whatever is in the folder is found again: a devcluster can be brought up by one process and down by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from devcluster import binaries
from devcluster.pki import Authority
from devcluster.processes import Process
from devcluster.reading import Reader
from operators.access import Access
from operators.client import Client
from schedulers.objects.names import RESERVED_TAINT

#: Clients end before the API server, and the API server before etcd: without etcd it would hang.
PARTS: Final = ("etcd", "apiserver", "controller-manager", "kwok", "scheduler")
#: job: batch/v1 Jobs; garbage-collector: what belongs to a deleted DagJob goes; namespace: deleted namespaces empty
#: themselves; pod-garbage-collector: pods of nodes that are gone; disruption: PDBs have a status; deployment,
#: replicaset: Pods of our Deployments; resourcequota: without a status a quota refuses all.
_CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "disruption-controller",
)
_STAGES: Final = Path(__file__).parent / "stages.yaml"
_READY_S: Final = 60.0
#: Ports are chosen from here on.
LOWEST_PORT: Final = 10_000


class Broken(Exception):
    """A part does not come up; the message has the end of its log."""


class Devcluster:
    """One control plane in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        build: bool = False,
        version: str = binaries.VERSION,
        flags: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """flags: further ones, by part."""
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.programs = binaries.need(version, build=build)
        self._ports = self._chosen_ports()
        self.authority = Authority(self.folder / "pki")
        self.processes = {part: Process(self.folder, part) for part in PARTS}
        self._flags = flags

    # -- where ----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The API server's."""
        return f"https://127.0.0.1:{self._ports['apiserver']}"

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.folder / "admin.kubeconfig"

    def _chosen_ports(self) -> dict[str, int]:
        """Free ports, chosen once, so that a restarted part is found where it was."""
        file = self.folder / "ports.json"
        if file.exists():
            chosen: dict[str, int] = json.loads(file.read_text())
            return chosen
        ports = dict(zip(("etcd", "apiserver", "controller-manager", "scheduler", "kwok"), free_ports(5), strict=True))
        file.write_text(json.dumps(ports))
        return ports

    # -- up and down ----------------------------------------------------------------------------

    def up(self, *, nodes: int = 4, **settings: Any) -> None:
        """Start what does not run, and add nodes up to `nodes`; settings: see `add_nodes`. Raises Broken."""
        self._make_credentials()
        for part in ("etcd", "apiserver", "controller-manager", "kwok"):
            if self.processes[part].pid() is None:
                self.start(part)
        known = len(self.get("nodes")["items"])
        if known < nodes:
            self.add_nodes(nodes - known, start=known, **settings)

    def down(self) -> None:
        """End every part, clients first."""
        for part in reversed(PARTS):
            # The API server holds its port until its clients are gone; it is not worth more than a few seconds.
            self.processes[part].stop(grace_s=8 if part == "apiserver" else 5)

    def remove(self) -> None:
        """Down, and nothing left."""
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self) -> dict[str, int | None]:
        """Pid of each part, None for one that does not run."""
        return {part: process.pid() for part, process in self.processes.items()}

    def start(self, part: str, *, config: Path | None = None) -> None:
        """Start one part and wait until it answers. config: of the scheduler. Raises Broken."""
        commands: dict[str, Callable[[], list[str]]] = {
            "etcd": self._etcd,
            "apiserver": self._apiserver,
            "controller-manager": self._controller_manager,
            "kwok": self._kwok,
            "scheduler": lambda: self._scheduler(config),
        }
        process = self.processes[part]
        process.start([*commands[part](), *self._flags.get(part, ())], env=_environment())
        if part == "apiserver":
            self._wait(process, self._answers)
        elif part == "etcd":
            self._wait(process, lambda: _listens(self._ports["etcd"]))

    def stop(self, part: str) -> None:
        """End one part as a kubelet would."""
        self.processes[part].stop()

    def kill(self, part: str) -> None:
        """SIGKILL for one part."""
        self.processes[part].kill()

    def restart(self, part: str) -> None:
        """End one part and start it again."""
        self.stop(part)
        self.start(part)

    def _wait(self, process: Process, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + _READY_S
        while not ready():
            if process.pid() is None:
                raise Broken(f"{process.name} has ended:\n{process.tail()}")
            if time.monotonic() > until:
                raise Broken(f"{process.name} does not answer within {_READY_S:.0f} s:\n{process.tail()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        if not _listens(self._ports["apiserver"]):
            return False
        try:
            self.reader.read_raw("/readyz")
        except RuntimeError:
            return False
        return True

    # -- parts ----------------------------------------------------------------------------------

    def _make_credentials(self) -> None:
        if self.kubeconfig.exists():
            return
        authority = self.authority
        authority.issue("apiserver", "kube-apiserver", hosts=("127.0.0.1", "localhost", "kubernetes.default.svc"))
        authority.service_account_keys()
        for file, name, groups in (
            ("kwok", "kwok", ("system:masters",)),
            ("scheduler", "system:kube-scheduler", ()),
            ("controller-manager", "system:kube-controller-manager", ()),
            ("admin", "admin", ("system:masters",)),
        ):
            certificate, key = authority.issue(file, name, groups=groups)
            user = {"client-certificate": str(certificate), "client-key": str(key)}
            authority.kubeconfig(self.folder / f"{file}.kubeconfig", self.url, user)

    def _etcd(self) -> list[str]:
        url = f"http://127.0.0.1:{self._ports['etcd']}"
        return [
            str(self.programs["etcd"]),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--log-level=warn",
            "--unsafe-no-fsync",  # a test's data need not survive a power cut
        ]

    def _apiserver(self) -> list[str]:
        pki = self.authority.folder
        return [
            str(self.programs["kube-apiserver"]),
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['apiserver']}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            # No controller makes default ServiceAccounts or takes the not-ready taint off new nodes.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        ]

    def _controller_manager(self) -> list[str]:
        config = self.folder / "controller-manager.kubeconfig"
        return [
            str(self.programs["kube-controller-manager"]),
            f"--kubeconfig={config}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['controller-manager']}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]

    def _kwok(self) -> list[str]:
        return [
            str(self.programs["kwok"]),
            f"--kubeconfig={self.folder / 'kwok.kubeconfig'}",
            f"--config={_STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",
            f"--server-address=127.0.0.1:{self._ports['kwok']}",
        ]

    def _scheduler(self, config: Path | None) -> list[str]:
        """kube-scheduler; without a config: the default one, with our scheduler's name and no extender."""
        if config is None:
            config = self.folder / "scheduler.yaml"
            config.write_text(yaml.safe_dump(self.scheduler_config()))
        return [
            str(self.programs["kube-scheduler"]),
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['scheduler']}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]

    def scheduler_config(self, extenders: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """A KubeSchedulerConfiguration for this cluster."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "clientConnection": {"kubeconfig": str(self.folder / "scheduler.kubeconfig"), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": "rm-scheduler"}],
            "extenders": extenders or [],
        }

    # -- using it -------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 (subprocess's word)
        """Run kubectl as the administrator. Raises RuntimeError with what it says."""
        command = [str(self.programs["kubectl"]), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=input, capture_output=True, text=True, env=_environment(), check=False)  # noqa: S603
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, path: Path) -> str:
        """Server-side apply of a file, or of a folder with a kustomization."""
        flag = "-k" if path.is_dir() else "-f"
        return self.kubectl("apply", "--server-side", "--force-conflicts", flag, str(path))

    def get(self, *arguments: str) -> Any:
        """`kubectl get ... -o json`, parsed: see `Reader.get`."""
        return self.reader.get(*arguments)

    @cached_property
    def reader(self) -> Reader:
        """Reads objects as the administrator."""
        pki = self.authority.folder
        return Reader(self.url, authority=self.authority.ca, certificate=pki / "admin.crt", key=pki / "admin.key")

    def client(self, **settings: Any) -> Client:
        """A client as the administrator."""
        certificate, key = ((self.authority.folder / f"admin.{end}").read_text() for end in ("crt", "key"))
        return Client(self.access(certificate=certificate, key=key), **settings)

    def access(self, **credentials: Any) -> Access:
        """To the API server, by `authorization`, or `certificate` and `key`."""
        return Access(url=self.url, authority=self.authority.ca.read_text(), **credentials)

    def namespace(self, prefix: str = "test") -> str:
        """A new namespace."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", name)
        return name

    def patch(self, path: str, change: Any) -> None:
        """A merge patch as the administrator. Raises ApiError."""

        async def do() -> None:
            async with self.client() as client:
                await client.patch(path, change, kind="merge")

        asyncio.run(do())

    def token(self, namespace: str, account: str, *, duration: str = "1h", pod: tuple[str, str] | None = None) -> str:
        """A token of a ServiceAccount. pod: name and uid of the Pod that it is bound to, as a kubelet binds it."""
        command = ["create", "token", account, "-n", namespace, f"--duration={duration}"]
        if pod is not None:
            name, uid = pod
            command += ["--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={uid}"]
        return self.kubectl(*command).strip()

    def add_nodes(
        self,
        count: int,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        labels: Mapping[str, str] | None = None,
        prefix: str = "n",
        start: int = 0,
        reserved: bool = False,
    ) -> list[str]:
        """Fake nodes that kwok keeps ready; returns their names once all are. reserved: for our pods alone."""
        spec = {"taints": [{"key": RESERVED_TAINT, "effect": "NoSchedule"}]} if reserved else {}
        size = {"cpu": cpu, "memory": memory, "pods": pods}
        names = [f"{prefix}{start + index}" for index in range(count)]
        items = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
                "spec": spec,
                "status": {"allocatable": size, "capacity": size},
            }
            for name in names
        ]
        lists = [{"apiVersion": "v1", "kind": "List", "items": items[i : i + 200]} for i in range(0, count, 200)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda nodes: self.kubectl("create", "-f", "-", input=json.dumps(nodes)), lists))
        until = time.monotonic() + _READY_S + count / 20
        while missing := set(names) - self._ready_nodes():
            if time.monotonic() > until:
                raise Broken(f"{len(missing)} nodes do not become ready:\n{self.processes['kwok'].tail()}")
            time.sleep(0.2)
        return names

    def _ready_nodes(self) -> set[str]:
        ready = ("Ready", "True")
        return {
            node["metadata"]["name"]
            for node in self.get("nodes")["items"]
            if any((each["type"], each["status"]) == ready for each in node.get("status", {}).get("conditions", ()))
        }


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now.

    They are below those that the kernel gives to outgoing connections, of which one could take a port before it is
    used, or while its owner is being restarted.
    """
    ports: list[int] = []
    for port in random.sample(range(LOWEST_PORT, _first_outgoing()), 100 * count):
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            ports.append(port)
            if len(ports) == count:
                return ports
    raise Broken("hardly a port is free")


def _first_outgoing() -> int:
    """The first port that an outgoing connection may get (Linux' default where there is nothing to read)."""
    with contextlib.suppress(OSError, ValueError):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        if first > 2 * LOWEST_PORT:
            return first
    return 32_768


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _environment() -> dict[str, str]:
    """Ours, without proxies: everything is on this machine.

    All parts are written in Go, whose heaps may grow fivefold between collections: a sixth of their CPU time less.
    """
    return {"GOGC": "400"} | {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
