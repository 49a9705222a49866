"""Probes and metrics of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from operators import metrics

#: The media type of the metrics page.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def management(not_ready: Callable[[], str | None]) -> Starlette:
    """Probes and metrics: `/healthz` (the loop is alive), `/readyz` (503 with the reason), `/metrics`."""

    async def healthz(request: Request) -> Response:
        return Response("ok")

    async def readyz(request: Request) -> Response:
        why = not_ready()
        return Response("ok") if why is None else Response(f"not ready: {why}", 503)

    async def show(request: Request) -> Response:
        return Response(metrics.exposition(), media_type=METRICS_TYPE)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", show)])
