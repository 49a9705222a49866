"""What the real kube-scheduler sends, in both of its forms, against the stored bodies in `golden/`.

`RM_UPDATE_GOLDEN=1` writes them anew. What changes from run to run (uids, times, names of nodes) is replaced
before anything is compared or stored; what is compared is the shape: which keys there are, of which types.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from operators.extender.app import Extender
from operators.extender.config import BrainConfig
from operators.extender.wire import FilterAnswer
from operators.serving.ports import ExtenderPort, ManagementPort, Tls
from operators.serving.server import management, serve
from schedulers.objects.pod import Pod
from tests.kubernetes.calls import Authority, Recorder

pytestmark = pytest.mark.controlplane

GOLDEN = Path(__file__).parent / "golden"
FORMS = {"names": True, "nodes": False}
BODIES = ["filter-plain", "prioritize-plain", "filter-selector", "preempt", "filter-nominated"]
UPDATE = os.environ.get("RM_UPDATE_GOLDEN") == "1"


class Site:
    """A kube-scheduler of its own name with our app as its extender, and every body that it sent."""

    def __init__(self, devcluster: Any, folder: Path, form: str) -> None:
        self.cluster, self.folder, self.form = devcluster, folder, form
        self.mark = uuid.uuid4().hex[:6]
        self.scheduler_name = f"golden-{form}-{self.mark}"
        self.prefix = f"golden-{form}-{self.mark}-"
        self.namespace = devcluster.namespace()
        self.sent: list[tuple[str, bytes]] = []
        self.brain = Recorder()
        self.brain.answer = self._answer
        self.ca = Authority(folder)

    def _answer(self, pod: Pod, nodes: Any) -> FilterAnswer:
        """Our own nodes only: the cluster may have others."""
        ours = [name for name in nodes if name.startswith(self.prefix)]
        if pod.metadata.name == "refused":
            return FilterAnswer([], dict.fromkeys(ours, "waits for stage map"))
        if pod.metadata.name == "failed":
            return FilterAnswer([], error="not known yet; try again")
        return FilterAnswer(ours[:2], {name: "not ours" for name in nodes if name not in ours})

    # -- the extender, in a thread of its own ----------------------------------------------------

    async def app(self, scope: Any, receive: Callable[[], Any], send: Any) -> None:
        """The app, with a copy of every body kept."""
        body = bytearray()

        async def tapped() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if not message.get("more_body") and message["type"] == "http.request":
                self.sent.append((scope["path"].rpartition("/")[2], bytes(body)))
            return message

        await self._app(scope, tapped, send)

    def serve(self, port: Future[int], stop: Future[Callable[[], object]]) -> None:
        """Runs in a thread until stopped."""
        certificate, key = self.ca.issue("server", "extender", server=True)
        tls = Tls(cert_file=str(certificate), key_file=str(key), client_ca_file=str(self.ca.file))
        config = BrainConfig(
            policy={"kind": "fifo"},
            extender=ExtenderPort(port=0, tls=tls),
            management=ManagementPort(address="127.0.0.1", port=0),
        )
        self._app = Extender(self.brain, budget_s=4).app()

        async def work() -> None:
            task = asyncio.current_task()
            loop = asyncio.get_running_loop()
            assert task is not None
            stop.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
            await serve(
                self.app,
                config.extender,
                management(lambda: None),
                config.management,
                listening=lambda verbs, _: port.set_result(verbs),
            )

        try:
            asyncio.run(work())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if not port.done():
                port.set_exception(error)
            raise

    # -- the scheduler ----------------------------------------------------------------------------

    def configuration(self, port: int) -> Path:
        """KubeSchedulerConfiguration with mutual TLS to our app."""
        certificate, key = self.ca.issue("scheduler", "system:kube-scheduler")
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "clientConnection": {"kubeconfig": str(self.cluster.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": self.scheduler_name}],
            "extenders": [
                {
                    "urlPrefix": f"https://127.0.0.1:{port}/v1",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "preemptVerb": "preempt",
                    "weight": 1,
                    "enableHTTPS": True,
                    "httpTimeout": "5s",
                    "nodeCacheCapable": FORMS[self.form],
                    "tlsConfig": {
                        "serverName": "extender",
                        "caFile": str(self.ca.file),
                        "certFile": str(certificate),
                        "keyFile": str(key),
                    },
                }
            ],
        }
        path = self.folder / "scheduler.json"
        path.write_text(json.dumps(config))
        return path

    def apply(self, kind: str, name: str, **fields: Any) -> None:
        """Create one object in our namespace (or the cluster)."""
        version = "scheduling.k8s.io/v1" if kind == "PriorityClass" else "v1"
        metadata = {"name": name, **fields.pop("metadata", {})}
        spaced = ("--namespace", self.namespace) if kind == "Pod" else ()
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        self.cluster.kubectl(*spaced, "create", "-f", "-", input=json.dumps(body))

    def pod(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod of our scheduler, with text in annotations and environment that is not ASCII."""
        container = {
            "name": "main",
            "image": "registry.example/main:1",
            "env": [{"name": "GREETING", "value": "grüß dich, 世界 🚀"}],
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        }
        fields = {
            "schedulerName": self.scheduler_name,
            "containers": [container],
            "automountServiceAccountToken": False,
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 0,
            **spec,
        }
        self.apply("Pod", name, metadata={"annotations": {"example.com/title": "título, наука"}}, spec=fields)

    def bound(self, name: str) -> str:
        """The node of a pod, once it has one."""
        return self.until(lambda: self._json("pod", name)["spec"].get("nodeName"), f"pod {name} to be bound")

    def _json(self, kind: str, name: str) -> Any:
        return json.loads(self.cluster.kubectl("--namespace", self.namespace, "get", kind, name, "-o", "json"))

    def said(self, name: str) -> str:
        """What the scheduler writes into the pod's status when it could not place it."""

        def found() -> Any:
            conditions = self._json("pod", name)["status"].get("conditions", [])
            return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), None)

        return str(self.until(found, f"pod {name} to be refused"))

    def call(self, verb: str, pod: str, holds: Callable[[Any], bool] = lambda body: True) -> Any:
        """The first call of this verb for this pod, parsed."""

        def found() -> Any:
            for sent, body in list(self.sent):
                data = json.loads(body)
                if sent == verb and data["Pod"]["metadata"]["name"] == pod and holds(data):
                    return data
            return None

        return self.until(found, f"a {verb} call for pod {pod}")

    def until(self, find: Callable[[], Any], what: str) -> Any:
        """Wait for something that is not None or empty."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            value = find()
            if value:
                return value
            time.sleep(0.1)
        log = (self.folder / "scheduler.log").read_text(errors="replace")[-3000:]
        raise AssertionError(f"waited in vain for {what}; the scheduler says:\n{log}")


@contextlib.contextmanager
def running(site: Site) -> Iterator[None]:
    """The app in a thread, and a kube-scheduler that calls it."""
    port: Future[int] = Future()
    stop: Future[Callable[[], object]] = Future()
    thread = threading.Thread(target=site.serve, args=(port, stop))
    thread.start()
    arguments = [f"--config={site.configuration(port.result(30))}", "--bind-address=127.0.0.1", "--secure-port=0"]
    with (site.folder / "scheduler.log").open("wb") as log:
        scheduler = subprocess.Popen(
            [site.cluster.programs["kube-scheduler"], *arguments], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        scheduler.terminate()
        scheduler.wait(30)
        stop.result(1)()
        thread.join(30)


@pytest.fixture(scope="module", params=FORMS)
def bodies(request: pytest.FixtureRequest, devcluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(form, {what: body as sent}, {pod: what its status says}) of one kube-scheduler put through all situations."""
    form: str = request.param
    site = Site(devcluster, tmp_path_factory.mktemp(form), form)
    devcluster.add_nodes(3, cpu="4", labels={"golden": site.mark}, prefix=site.prefix)
    with running(site):
        said = {}
        for name in ("refused", "failed"):
            site.pod(name, "100m")
            said[name] = site.said(name)
        return form, normalised(record(site), site), said


def record(site: Site) -> dict[str, Any]:
    """Put the scheduler through all situations."""
    bodies = {}
    site.pod("plain", "100m")
    site.bound("plain")
    bodies["filter-plain"] = site.call("filter", "plain")
    bodies["prioritize-plain"] = site.call("prioritize", "plain")
    site.apply("PriorityClass", f"low-{site.mark}", value=10)
    site.apply("PriorityClass", f"high-{site.mark}", value=1000)
    selector = {"golden": site.mark}
    for i in range(3):
        site.pod(f"low-{i}", "3", nodeSelector=selector, priorityClassName=f"low-{site.mark}")
        site.bound(f"low-{i}")
    bodies["filter-selector"] = site.call("filter", "low-0")
    site.pod("high", "3", nodeSelector=selector, priorityClassName=f"high-{site.mark}")
    bodies["preempt"] = site.call("preempt", "high")
    bodies["filter-nominated"] = site.call(
        "filter", "high", lambda body: body["Pod"]["status"].get("nominatedNodeName")
    )
    site.bound("high")
    return bodies


TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def normalised(bodies: dict[str, Any], site: Site) -> dict[str, Any]:
    """Without what changes from run to run, and without nodes that are not ours."""
    uids: dict[str, str] = {}

    def text(value: str) -> str:
        value = value.replace(site.prefix, "n").replace(site.namespace, "ns").replace(site.scheduler_name, "golden")
        value = UID.sub(lambda m: uids.setdefault(m[0], f"{len(uids):08x}-0000-4000-8000-000000000000"), value)
        return TIME.sub("2026-01-01T00:00:00Z", value.replace(site.mark, "mark"))

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {text(k): walk(v, k) for k, v in sorted(value.items())}
        if isinstance(value, list):
            return [walk(item) for item in value if not foreign(item, key)]
        if key in ("resourceVersion", "ip", "address"):
            return "1"
        return text(value) if isinstance(value, str) else value

    def foreign(item: Any, key: str) -> bool:
        name = item["metadata"]["name"] if key == "items" else item if key == "NodeNames" else site.prefix
        return not name.startswith(site.prefix)

    return {what: walk(pruned(body)) for what, body in bodies.items()}


def pruned(body: Any) -> Any:
    """A body in a fixed order, without what kubelets and controllers of the cluster at hand add."""
    for victims in (body.get("NodeNameToVictims") or {}).values():
        for pod in victims["Pods"]:
            del pod["status"]
    if body.get("NodeNames"):
        body["NodeNames"].sort()
    if body.get("Nodes"):
        body["Nodes"]["items"] = sorted(
            map(plain_node, body["Nodes"]["items"]), key=lambda n: str(n["metadata"]["name"])
        )
    return body


def plain_node(node: Any) -> Any:
    """A node without what kubelets and controllers of the cluster at hand add to it."""
    metadata = {key: node["metadata"][key] for key in ("name", "uid", "resourceVersion", "labels")}
    status = {key: node["status"][key] for key in ("allocatable", "capacity")}
    return {**node, "metadata": metadata, "spec": {}, "status": status}


def shape(value: Any) -> Any:
    """Keys and types; of a list, the shapes that occur in it."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
    return type(value).__name__


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.drawn(of=4)
def test_kube_scheduler_sends_what_is_stored(bodies: tuple[str, dict[str, Any], dict[str, str]], what: str) -> None:
    form, captured, _ = bodies
    path = GOLDEN / f"{form}-{what}.json"
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(captured[what], indent=1, ensure_ascii=False) + "\n")
    assert shape(captured[what]) == shape(json.loads(path.read_text()))


def test_reasons_of_nodes_reach_the_pods_status(bodies: tuple[str, dict[str, Any], dict[str, str]]) -> None:
    assert "3 waits for stage map" in bodies[2]["refused"]


def test_an_error_reaches_the_pods_status(bodies: tuple[str, dict[str, Any], dict[str, str]]) -> None:
    assert "not known yet; try again" in bodies[2]["failed"]
