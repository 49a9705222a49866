"""A Service of the devcluster: one port on loopback that leads to a Pod that the applied Service selects."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Final

from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from schedulers.objects.names import NAMESPACE

_CHUNK: Final = 65_536


class Service:
    """Passes connections on, bytes for bytes, to a replica whose Pod has the labels that the Service `name` selects.

    It is made before the Deployment runs, whose configuration may name its `port`; `lead_to` then opens it.
    """

    def __init__(self, cluster: Devcluster, port: int, name: str, namespace: str = NAMESPACE) -> None:
        self.port = port
        self._cluster, self._name, self._namespace = cluster, name, namespace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"service-{port}", daemon=True)
        self._server: asyncio.Server | None = None

    def lead_to(self, running: Running, target: int) -> None:
        """Open the port. target: the container's port as its manifest has it."""
        spec = self._cluster.get("service", self._name, "-n", self._namespace)["spec"]
        selector = ",".join(f"{key}={value}" for key, value in spec["selector"].items())

        def chosen() -> int | None:
            try:
                pods = self._cluster.get("pods", "-n", self._namespace, "-l", selector)["items"]
            except RuntimeError:
                return None
            names = {pod["metadata"]["name"] for pod in pods}
            found = [replica for replica in running.replicas if replica.name in names]
            taken = [r for r in found if spec.get("publishNotReadyAddresses") or r.is_ready]
            return random.choice(taken).ports[target] if taken else None  # noqa: S311 - no secret

        async def serve() -> asyncio.Server:
            async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.closing(writer), contextlib.suppress(OSError):
                    await _join(reader, writer, await asyncio.to_thread(chosen))

            return await asyncio.start_server(passed, "127.0.0.1", self.port)

        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(serve(), self._loop).result()

    def stop(self) -> None:
        """Close the port and all that goes through it."""
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int | None) -> None:
    if port is None:
        return
    upstream, down = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(down):
        ways = [asyncio.ensure_future(_copy(reader, down)), asyncio.ensure_future(_copy(upstream, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
