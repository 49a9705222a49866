"""How long nothing is decided after a leader's end, and after an outage of the API server.

The outage rows use a DagJob made after the outage. A new API server looks up the kinds of policy parameters every
30 s and may miss Queue the first time. While the policies on a queue's namespaces failed closed, two of six
outages of 60 s took 29 s, in which nobody could create a DagJob (brain and controllers led after 1 s).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.rows import Row
from devcluster.cluster import Devcluster, free_ports
from devcluster.deployments import Running
from devcluster.installation import MANIFESTS, apply_crds, change_config, running, until
from devcluster.service import Service
from schedulers.objects import names

_LONGEST_S: Final = 120.0
#: Between two looks: how exactly a turn is timed.
_EVERY_S: Final = 0.05
#: Between two turns: the replica that was ended is back and has heard everything.
_REST_S: Final = 6.0


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """The overlay `production` on a devcluster of its own; a new DagJob with every turn."""
    turns, outages = (1, (3,)) if tiny else (10, (20, 60))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Devcluster(Path(folder))
        stack.callback(cluster.remove)
        cluster.up(nodes=4, cpu="1000", pods="1000", reserved=True)
        brain = stack.enter_context(_installed(cluster))
        space = cluster.namespace("failover")
        for name, act, target in (
            ("failover_term", lambda: _end(brain, signal.SIGTERM), 2),
            ("failover_kill", lambda: _end(brain, signal.SIGKILL), 10),
            ("failover_both", lambda: _end(brain, signal.SIGKILL, both=True), 15),
        ):
            took = [_turn(cluster, brain, space, act) for _ in range(turns)]
            note = f"until the next leader opens a gate; the worst of {turns} (median {median(took):.1f})"
            yield Row(name=name, value=max(took), unit="s", target=f"<= {target}", note=note)
        for away_s in outages:
            took_s = _turn(cluster, brain, space, lambda away_s=away_s: _outage(cluster, away_s))  # type: ignore[misc]
            note = f"until a gate is opened, from when the API server is ready after {away_s} s away"
            yield Row(name=f"api_recovery_{away_s}", value=took_s, unit="s", target="<= 10", note=note)


def _turn(cluster: Devcluster, brain: Running, space: str, act: Callable[[], float]) -> float:
    """Seconds from what `act` returns to the first gate that is opened of a job made after it."""
    brain.wait_ready()
    time.sleep(_REST_S)
    began = act()
    name = f"job{time.monotonic_ns()}"
    until(lambda: _created(cluster, name, space), _LONGEST_S, every_s=_EVERY_S)
    until(lambda: _is_opened(cluster, space, name), _LONGEST_S, every_s=_EVERY_S)
    return time.monotonic() - began


def _end(brain: Running, number: signal.Signals, *, both: bool = False) -> float:
    """End the leading brain, or all; when the signal was sent."""
    leader = brain.leader()
    ending = [r.containers["brain"].process for n, r in enumerate(brain.replicas) if both or n == leader]
    began = time.monotonic()
    for process in ending:
        process.send(number)
    return began


def _outage(cluster: Devcluster, seconds: float) -> float:
    cluster.kill("apiserver")
    time.sleep(seconds)
    cluster.start("apiserver")
    return time.monotonic()


def _created(cluster: Devcluster, name: str, space: str) -> bool:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    template = {"metadata": {"annotations": {names.RUN_SECONDS: "1"}}, "spec": {"containers": [container]}}
    spec = {"stages": [{"name": "all", "tasks": 4, "template": template}]}
    job = {"apiVersion": names.API_VERSION, "kind": "DagJob", "metadata": {"name": name, "namespace": space}}
    try:
        cluster.kubectl("create", "-f", "-", input=json.dumps({**job, "spec": spec}))
    except RuntimeError as error:
        return "AlreadyExists" in str(error)  # an API server that has just started refuses what it cannot judge yet
    return True


def _is_opened(cluster: Devcluster, space: str, job: str) -> bool:
    pods = cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}={job}")["items"]
    return any(not pod["spec"].get("schedulingGates") for pod in pods)


@contextmanager
def _installed(cluster: Devcluster) -> Iterator[Running]:
    """Two brains with a Service before them, and two controllers."""
    apply_crds(cluster)
    overlay = MANIFESTS / "overlays" / "production"
    cluster.apply(overlay)
    kubectl = f"{cluster.programs['kubectl']} --kubeconfig {cluster.kubeconfig}"
    env = {"PATH": os.environ["PATH"], "KUBECTL": kubectl}
    subprocess.run([overlay / "certificates.sh"], env=env, check=True, timeout=60, capture_output=True)  # noqa: S603
    service = Service(cluster, free_ports(1)[0], "rm-brain")
    change_config(cluster, "rm-brain", lambda config: config | {"policy": {"kind": "fifo"}})
    with running(cluster, service) as brain:
        yield brain
