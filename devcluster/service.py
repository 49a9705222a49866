"""A Service of the devcluster: one port on loopback that leads to whichever replica is ready."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final

from devcluster.deployments import Running

_CHUNK: Final = 65_536


class Service:
    """Passes connections on, bytes for bytes, to `target` of the first replica whose `container` is ready.

    It is made before the Deployment runs, whose configuration may name its `port`; `lead_to` then opens it.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"service-{port}", daemon=True)
        self._server: asyncio.Server | None = None

    def lead_to(self, running: Running, container: str, target: int) -> None:
        """Open the port. target: the container's port as its manifest has it."""

        async def serve() -> asyncio.Server:
            async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.closing(writer), contextlib.suppress(OSError):
                    await _join(reader, writer, _ready_port(running, container, target))

            return await asyncio.start_server(passed, "127.0.0.1", self.port)

        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(serve(), self._loop).result()

    def stop(self) -> None:
        """Close the port and all that goes through it."""
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def _ready_port(running: Running, container: str, target: int) -> int | None:
    return next((r.ports[target] for r in running.replicas if r.containers[container].ready), None)


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
