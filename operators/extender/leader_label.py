"""The label of the leader's pod, by which the Service that kube-schedulers call finds the leader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import structlog

from operators.client import ApiError, Client, NotFound, path_of
from schedulers.objects.names import LEADER_LABEL

log = structlog.get_logger()

#: Seconds between two looks at the label, and after one that failed.
EVERY_S: Final = 5.0
AGAIN_S: Final = 0.5
#: Seconds that a look may take: a leader waits for no answer that may never come.
LOOK_S: Final = 3.0


class LeaderLabel:
    """Keeps the label on the pod of the replica that leads, and off all others.

    Every replica takes the label off its own pod while it does not lead; the leader takes it off all other pods, whose
    replicas may be dead, and then sets its own. The label only guides calls: a replica answers them by its Lease, so a
    late label costs refused calls, and never lets two replicas decide. `pod` is the name of the own pod, None outside a
    cluster, where there is nothing to label; `leads` tells whether this replica holds the Lease.
    Needs the verbs list and patch on the pods of `namespace`.
    """

    def __init__(self, client: Client, namespace: str, pod: str | None, leads: Callable[[], bool]) -> None:
        self._client, self._namespace, self._pod, self._leads = client, namespace, pod, leads
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Leadership has changed: compare now."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled. Faults of the API server are left to the next look."""
        said = ""
        while self._pod is not None:
            self._changed.clear()
            pause_s = EVERY_S
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._compare(self._pod)
            except (ApiError, TimeoutError) as error:
                pause_s, why = AGAIN_S, str(error) or f"no answer within {LOOK_S:g} s"
                if said != why:
                    log.warning("the leader's label cannot be written", why=why)
                said = why
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause_s)

    async def _compare(self, own: str) -> None:
        labelled, leads = await self._labelled(), self._leads()
        for name in labelled - {own} if leads else labelled & {own}:
            await self._write(name, None)
        if self._leads() and own not in labelled:
            await self._write(own, "true")
            log.info("carries the leader's label", pod=own)

    async def _labelled(self) -> set[str]:
        listed: dict[str, Any] = await self._client.get(
            path_of("Pod", f"{self._namespace}/"), labelSelector=LEADER_LABEL
        )
        return {item["metadata"]["name"] for item in listed["items"]}

    async def _write(self, pod: str, value: str | None) -> None:
        """Set the label, or take it off. A pod that is gone has none."""
        patch = {"metadata": {"labels": {LEADER_LABEL: value}}}
        with contextlib.suppress(NotFound):
            await self._client.patch(path_of("Pod", f"{self._namespace}/{pod}"), patch, kind="merge")
