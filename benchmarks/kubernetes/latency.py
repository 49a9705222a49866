"""How long kube-scheduler waits for an answer: real HTTP over loopback, with the core's decision in it."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from benchmarks.kubernetes.server import node_name
from benchmarks.rows import Row
from schedulers.objects.names import SCHEDULER


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """Filter and prioritize at 500 and 5,000 nodes; every filter call is for a pod that is new, and places it."""
    calls = 20 if tiny else 1000
    for nodes in (50, 100) if tiny else (500, 5000):
        with extender(nodes) as connection:
            names = [node_name(index) for index in range(nodes)]
            for verb in ("filter", "prioritize"):
                took = [call(connection, verb, _body(f"{verb}-{n}", names)) for n in range(calls)][calls // 20 :]
                aim = "<= 5" if verb == "filter" and nodes == 5000 else None
                yield Row(name=f"{verb}_p50_{nodes}_nodes", value=quantile(took, 0.5), unit="ms")
                yield Row(name=f"{verb}_p99_{nodes}_nodes", value=quantile(took, 0.99), unit="ms", target=aim)


@contextmanager
def extender(nodes: int) -> Iterator[http.client.HTTPConnection]:
    """An extender in a process of its own, and a connection to it."""
    command = [sys.executable, "-m", "benchmarks.kubernetes.server", str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own module
        assert process.stdout is not None
        try:
            with connected(int(process.stdout.readline())) as connection:
                yield connection
        finally:
            process.terminate()


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    """A connection to an extender on loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    # As Go's client does; otherwise a body waits 40 ms for the acknowledgement of its header.
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    yield connection
    connection.close()


def _body(name: str, nodes: list[str]) -> bytes:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    pod: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "bench", "uid": f"uid-{name}", "labels": {"app": "bench"}},
        "spec": {"schedulerName": SCHEDULER, "containers": [container]},
        "status": {"phase": "Pending"},
    }
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": nodes})


def call(connection: http.client.HTTPConnection, verb: str, body: bytes) -> float:
    """One call, ms. Raises RuntimeError for an answer that places nothing."""
    began = time.perf_counter()
    connection.request("POST", f"/v1/{verb}", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    took = 1000 * (time.perf_counter() - began)
    if answer.status != 200 or (verb == "filter" and b'"Error":""' not in content):
        raise RuntimeError(f"{verb} was answered {answer.status}: {content[:300].decode(errors='replace')}")
    return took


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values are (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
