"""Calls in the name of a ServiceAccount, with its real token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from operators.client import ApiError, Client
from schedulers.objects import names


class Account:
    """One of our two, by name. pod: name and uid of the pod that its token is bound to."""

    def __init__(
        self, cluster: Devcluster, name: str, namespace: str = names.NAMESPACE, *, pod: tuple[str, str] | None = None
    ) -> None:
        self._access = cluster.access(authorization=f"Bearer {cluster.token(namespace, name, pod=pod)}")
        self.user = f"system:serviceaccount:{namespace}:{name}"

    def __call__(self, call: Callable[[Client], Awaitable[Any]]) -> Any:
        """Do it. Raises ApiError."""

        async def do() -> Any:
            async with Client(self._access) as client:
                return await call(client)

        return asyncio.run(do())

    def patch(self, path: str, body: Any, kind: Any = "json") -> None:
        """Raises ApiError."""
        self(lambda client: client.patch(path, body, kind=kind, field_manager="rm-brain", force=kind == "apply"))

    def refusal(self, call: Callable[[Client], Awaitable[Any]]) -> str:
        """What the API server says to something that it has to refuse."""
        with pytest.raises(ApiError) as raised:
            self(call)
        assert raised.value.status in (403, 422), raised.value
        return raised.value.message

    def patch_refusal(self, path: str, body: Any, kind: Any = "json") -> str:
        """As `refusal`, for a patch."""
        return self.refusal(
            lambda client: client.patch(path, body, kind=kind, field_manager="rm-brain", force=kind == "apply")
        )
